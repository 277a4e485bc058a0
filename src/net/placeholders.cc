#include "net/placeholders.h"

#include <algorithm>
#include <cstring>

#include "base/base64.h"
#include "net/http_text.h"
#include "net/policy.h"

namespace boxlite::net {

namespace {

constexpr size_t kLeastPlaceholder = 8, kMaxPlaceholder = 256, kMaxName = 128;
constexpr std::string_view kBasic = "basic ";

bool is_name(std::string_view text) {
    return !text.empty() && text.size() <= kMaxName && std::all_of(text.begin(), text.end(), [](char c) {
        return c == '_' || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
    });
}

Result<std::string> normalize_pattern(const SecretName& secret, const std::string& host) {
    const bool below = host.starts_with("*.");
    const auto name = normalize_host(below ? std::string_view(host).substr(2) : std::string_view(host));
    if (!name)
        return base::make_error(ErrorCode::kInvalidArgument,
                                "secret {}: '{}' is no host: a name or *.DOMAIN is needed", secret.name,
                                host);
    return (below ? "*." : "") + *name;
}

}  // namespace

bool SecretName::is_for(std::string_view host) const {
    return std::any_of(hosts.begin(), hosts.end(), [&](std::string_view pattern) {
        if (!pattern.starts_with("*.")) return pattern == host;
        pattern.remove_prefix(1);
        return host.size() > pattern.size() && host.ends_with(pattern);
    });
}

std::string SecretName::describe() const {
    return fmt::format("secret {} is for {}", name, fmt::join(hosts, ", "));
}

Result<void> check_secret_name(SecretName& secret) {
    if (!is_name(secret.name))
        return base::make_error(ErrorCode::kInvalidArgument,
                                "'{}' is no name of a secret: letters, digits and '_' are needed",
                                secret.name);
    if (secret.hosts.empty())
        return base::make_error(ErrorCode::kInvalidArgument, "secret {}: the hosts that get it are needed",
                                secret.name);
    for (std::string& host : secret.hosts) host = TRY(normalize_pattern(secret, host));
    const std::string& text = secret.placeholder;
    const bool printable = std::all_of(text.begin(), text.end(), [](char c) {
        return c > ' ' && c < 0x7f && std::string_view("\"'\\%").find(c) == std::string_view::npos;
    });
    if (text.size() < kLeastPlaceholder || text.size() > kMaxPlaceholder || !printable)
        return base::make_error(
            ErrorCode::kInvalidArgument,
            "secret {}: a placeholder has {} to {} printable characters, without blanks, quotes, "
            "'%' and backslashes",
            secret.name, kLeastPlaceholder, kMaxPlaceholder);
    return {};
}

Result<void> check_secret_value(std::string_view name, std::string_view value) {
    const bool fits = std::all_of(value.begin(), value.end(), [](char c) {
        const auto byte = static_cast<unsigned char>(c);
        return (byte >= ' ' && byte != 0x7f) || byte == '\t';
    });
    if (value.size() >= kLeastSecret && value.size() <= kMaxSecret && fits) return {};
    return base::make_error(ErrorCode::kInvalidArgument,
                            "secret {}: a value has {} to {} bytes, and no line ends or other controls", name,
                            kLeastSecret, kMaxSecret);
}

void wipe(std::string& text) {
    ::explicit_bzero(text.data(), text.size());
    text.clear();
}

bool Placeholders::any_for(std::string_view host) const {
    return std::any_of(secrets_.begin(), secrets_.end(), [&](const SecretName& s) { return s.is_for(host); });
}

const SecretName* Placeholders::find(std::string_view text) const {
    for (const SecretName& secret : secrets_)
        if (text.find(secret.placeholder) != std::string_view::npos) return &secret;
    return nullptr;
}

const SecretName* Placeholders::find_in_head(std::string_view head) const {
    if (const SecretName* found = find(head)) return found;
    if (const SecretName* found = find(percent_decode(head))) return found;
    Lines lines(head);
    while (const auto line = lines.next()) {
        const size_t colon = line->find(':');
        if (colon == std::string_view::npos) continue;
        if (const auto credentials = decode_basic(trim(line->substr(colon + 1))))
            if (const SecretName* found = find(*credentials)) return found;
    }
    return nullptr;
}

size_t Placeholders::longest() const {
    size_t longest = 0;
    for (const SecretName& secret : secrets_) longest = std::max(longest, secret.placeholder.size());
    return longest;
}

std::optional<std::string> decode_basic(std::string_view value) {
    if (value.size() < kBasic.size() || !equal_fold(value.substr(0, kBasic.size()), kBasic))
        return std::nullopt;
    return base::base64_decode(trim(value.substr(kBasic.size())));
}

std::string encode_basic(std::string_view credentials) {
    return "Basic " + base::base64_encode(credentials);
}

}  // namespace boxlite::net
