// Pieces of text that HTTP's and URLs' readers share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace boxlite::net {

// Of ASCII letters; field names and codings are alike in any case (RFC 9110, 5.1).
bool equal_fold(std::string_view a, std::string_view b);
// Without blanks and tabs at its ends.
std::string_view trim(std::string_view text);

// The lines of a head, without their ends.
class Lines {
  public:
    explicit Lines(std::string_view text) : text_(text) {}
    // nullopt when the rest has no end of a line.
    std::optional<std::string_view> next();
    // Behind the last line.
    size_t at() const { return at_; }

  private:
    std::string_view text_;
    size_t at_ = 0;
};

struct Field {
    std::string_view name, value;
};
struct HeadText {
    std::string_view start;
    std::vector<Field> fields;
};
// A head that ends with an empty line. nullopt when a field's name is no token (RFC 9110, 5.6.2), as in a
// folded line, or a byte is one that has no place in a head.
std::optional<HeadText> split_head(std::string_view head);

// The number of two hexadecimal digits.
std::optional<uint8_t> from_hex(std::string_view digits);

// Bytes but letters, digits, "-", ".", "_" and "~" as "%XX" (RFC 3986, 2.1).
std::string percent_encode(std::string_view text);
// Escapes that are none stay as they are.
std::string percent_decode(std::string_view text);

}  // namespace boxlite::net
