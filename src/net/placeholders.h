// The secrets of a box as far as everybody may know them: which text stands for them in the box, and which
// hosts get their values. The values are in another process, see tls/secret_book.h. Thread safety: immutable,
// but for Seam.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

namespace boxlite::net {

struct SecretName {
    std::string name;
    std::string placeholder;
    std::vector<std::string> hosts;  // "example.com", "*.example.com": what is below it, and not that itself
    bool in_query = false;           // also in the query of a URL

    // `host` is normalized.
    bool is_for(std::string_view host) const;
    // For a message: "secret TOKEN is for api.example.com".
    std::string describe() const;
};

// kInvalidArgument unless it has a name of letters, digits and '_', one host or more, and a placeholder of 8
// to 256 printable characters without quotes, blanks or backslashes. Hosts become normalized.
Result<void> check_secret_name(SecretName& secret);

// Of a secret's value.
inline constexpr size_t kLeastSecret = 4, kMaxSecret = 16 << 10;
// kInvalidArgument for a value that cannot be put into a header, or is so short that it would be found
// everywhere.
Result<void> check_secret_value(std::string_view name, std::string_view value);
// Overwrites the text, so that nothing of it stays behind in memory.
void wipe(std::string& text);

class Placeholders {
  public:
    Placeholders() = default;
    explicit Placeholders(std::vector<SecretName> secrets) : secrets_(std::move(secrets)) {}

    const std::vector<SecretName>& all() const { return secrets_; }
    bool empty() const { return secrets_.empty(); }
    bool any_for(std::string_view host) const;
    // The first whose placeholder is in the text as it is, as escaped in a URL, or in base64 as basic
    // authentication has it; nullptr: none.
    const SecretName* find_in_head(std::string_view head) const;
    const SecretName* find(std::string_view text) const;
    // Of its placeholders.
    size_t longest() const;

  private:
    std::vector<SecretName> secrets_;
};

// For finding a text in what comes in pieces, also across their borders.
class Seam {
  public:
    // `find` looks for something of at most `longest` bytes in a text; what it gives is returned, of the
    // first text where that is true.
    template <typename Find>
    auto add(base::ByteView piece, size_t longest, Find find) {
        const std::string_view text = base::as_text(piece);
        const std::string border = tail_ + std::string(text.substr(0, longest));
        auto found = find(std::string_view(border));
        if (!found) found = find(text);
        tail_ = text.size() >= longest ? std::string(text) : tail_ + std::string(text);
        if (tail_.size() >= longest) tail_.erase(0, tail_.size() - longest + 1);
        return found;
    }

  private:
    std::string tail_;  // of what came, one byte shorter than what is looked for
};

// The value of an Authorization field that carries a name and a password (RFC 7617), in clear; nullopt: it is
// none.
std::optional<std::string> decode_basic(std::string_view value);
std::string encode_basic(std::string_view credentials);

}  // namespace boxlite::net
