#include "net/http_text.h"

#include <algorithm>

namespace boxlite::net {

namespace {

char lower(char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool is_token(char c) {
    const char small = lower(c);
    return (small >= 'a' && small <= 'z') || (c >= '0' && c <= '9') ||
           std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

int digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    c = lower(c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

}  // namespace

bool equal_fold(std::string_view a, std::string_view b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](char x, char y) { return lower(x) == lower(y); });
}

std::string_view trim(std::string_view text) {
    while (text.starts_with(' ') || text.starts_with('\t')) text.remove_prefix(1);
    while (text.ends_with(' ') || text.ends_with('\t')) text.remove_suffix(1);
    return text;
}

std::optional<std::string_view> Lines::next() {
    const size_t end = text_.find('\n', at_);
    if (end == std::string_view::npos) return std::nullopt;
    std::string_view line = text_.substr(at_, end - at_);
    at_ = end + 1;
    if (line.ends_with('\r')) line.remove_suffix(1);
    return line;
}

std::optional<HeadText> split_head(std::string_view head) {
    HeadText text;
    Lines lines(head);
    const auto start = lines.next();
    const bool printable = std::all_of(head.begin(), head.end(), [](char c) {
        return static_cast<unsigned char>(c) >= ' ' || c == '\t' || c == '\r' || c == '\n';
    });
    if (!start || !printable) return std::nullopt;
    text.start = *start;
    for (auto line = lines.next(); line && !line->empty(); line = lines.next()) {
        const size_t colon = line->find(':');
        const std::string_view name = line->substr(0, colon);
        if (colon == std::string_view::npos || name.empty() ||
            !std::all_of(name.begin(), name.end(), is_token))
            return std::nullopt;
        text.fields.push_back({name, trim(line->substr(colon + 1))});
    }
    return text;
}

std::optional<uint8_t> from_hex(std::string_view digits) {
    if (digits.size() != 2 || digit(digits[0]) < 0 || digit(digits[1]) < 0) return std::nullopt;
    return static_cast<uint8_t>(digit(digits[0]) * 16 + digit(digits[1]));
}

std::string percent_encode(std::string_view text) {
    constexpr std::string_view kPlain = "-._~", kDigits = "0123456789ABCDEF";
    std::string encoded;
    for (const char c : text) {
        const char small = lower(c);
        const bool plain =
            (small >= 'a' && small <= 'z') || (c >= '0' && c <= '9') || kPlain.find(c) != kPlain.npos;
        if (plain) {
            encoded += c;
            continue;
        }
        const auto byte = static_cast<unsigned char>(c);
        encoded += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    }
    return encoded;
}

std::string percent_decode(std::string_view text) {
    std::string plain;
    for (size_t i = 0; i < text.size(); ++i) {
        const auto byte = text[i] == '%' ? from_hex(text.substr(i + 1, 2)) : std::nullopt;
        plain += byte ? static_cast<char>(*byte) : text[i];
        if (byte) i += 2;
    }
    return plain;
}

}  // namespace boxlite::net
