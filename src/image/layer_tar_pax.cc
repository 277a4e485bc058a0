#include "image/layer_tar_pax.h"

#include <algorithm>
#include <charconv>
#include <limits>

namespace boxlite::image {

namespace {

// Two's complement, most significant byte first; the top bit of the first byte only marks the format.
std::optional<int64_t> parse_base256(std::span<const uint8_t> field) {
    const bool negative = (field[0] & 0x40) != 0;
    uint64_t value = negative ? ~uint64_t{0} : 0;
    for (size_t i = 0; i < field.size(); ++i) {
        uint8_t byte = field[i];
        if (i == 0) byte = negative ? byte | 0x80 : byte & 0x7f;
        const uint64_t top = value >> 55;  // what a shift would lose, and the sign
        if (top != (negative ? 0x1ff : 0)) return std::nullopt;
        value = value << 8 | byte;
    }
    return static_cast<int64_t>(value);
}

std::optional<uint64_t> parse_octal(std::span<const uint8_t> field) {
    std::string_view text(reinterpret_cast<const char*>(field.data()), field.size());
    constexpr std::string_view kFiller(" \0", 2);
    const size_t first = text.find_first_not_of(kFiller);
    if (first == std::string_view::npos) return 0;
    text = text.substr(first);
    text = text.substr(0, text.find_first_of(kFiller));
    uint64_t value = 0;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value, 8);
    if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) return std::nullopt;
    return value;
}

int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

int base64_digit(char c) {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    if (c == '+') return 62;
    if (c == '/') return 63;
    return -1;
}

}  // namespace

std::optional<int64_t> parse_tar_time(std::span<const uint8_t> field) {
    if ((field[0] & 0x80) != 0) return parse_base256(field);
    const auto value = parse_octal(field);
    if (!value || *value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
    return static_cast<int64_t>(*value);
}

std::optional<uint64_t> parse_tar_number(std::span<const uint8_t> field) {
    const auto value = parse_tar_time(field);
    if (!value || *value < 0) return std::nullopt;
    return static_cast<uint64_t>(*value);
}

std::optional<uint64_t> parse_decimal(std::string_view text) {
    uint64_t value = 0;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
    if (text.empty() || parsed.ec != std::errc() || parsed.ptr != text.data() + text.size())
        return std::nullopt;
    return value;
}

std::optional<disk::FileTime> parse_pax_time(std::string_view text) {
    const bool negative = !text.empty() && text[0] == '-';
    if (negative) text.remove_prefix(1);
    const size_t point = text.find('.');
    const auto whole = parse_decimal(text.substr(0, point));
    if (!whole || *whole > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) - 1)
        return std::nullopt;
    uint32_t nanoseconds = 0;
    if (point != std::string_view::npos) {
        const std::string_view fraction = text.substr(point + 1);
        uint32_t unit = 100'000'000;
        for (const char c : fraction) {
            if (c < '0' || c > '9') return std::nullopt;
            nanoseconds += unit * static_cast<uint32_t>(c - '0');
            unit /= 10;
        }
    }
    auto seconds = static_cast<int64_t>(*whole);
    if (!negative) return disk::FileTime{seconds, nanoseconds};
    seconds = -seconds;
    if (nanoseconds == 0) return disk::FileTime{seconds, 0};
    return disk::FileTime{seconds - 1, 1'000'000'000 - nanoseconds};
}

Result<void> for_each_pax_record(
    std::string_view text,
    const std::function<Result<void>(std::string_view key, std::string_view value)>& record) {
    const auto broken = [] {
        return base::make_error(ErrorCode::kImage, "the archive has a broken PAX record");
    };
    while (!text.empty()) {
        const size_t space = text.find(' ');
        if (space == std::string_view::npos || space > 20) return broken();
        const auto length = parse_decimal(text.substr(0, space));
        if (!length || *length <= space + 1 || *length > text.size()) return broken();
        std::string_view content = text.substr(space + 1, *length - space - 1);
        if (content.back() != '\n') return broken();
        content.remove_suffix(1);
        const size_t equals = content.find('=');
        if (equals == std::string_view::npos || equals == 0) return broken();
        TRY(record(content.substr(0, equals), content.substr(equals + 1)));
        text.remove_prefix(*length);
    }
    return {};
}

std::optional<std::string> decode_percent(std::string_view text) {
    std::string out;
    for (size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '%') {
            out += text[i];
            continue;
        }
        if (i + 2 >= text.size()) return std::nullopt;
        const int high = hex_digit(text[i + 1]);
        const int low = hex_digit(text[i + 2]);
        if (high < 0 || low < 0) return std::nullopt;
        out += static_cast<char>(high << 4 | low);
        i += 2;
    }
    return out;
}

std::optional<std::string> decode_base64(std::string_view text) {
    while (!text.empty() && text.back() == '=') text.remove_suffix(1);
    std::string out;
    uint32_t bits = 0;
    int count = 0;
    for (const char c : text) {
        const int digit = base64_digit(c);
        if (digit < 0) return std::nullopt;
        bits = bits << 6 | static_cast<uint32_t>(digit);
        count += 6;
        if (count >= 8) {
            count -= 8;
            out += static_cast<char>(bits >> count);
            bits &= (1U << count) - 1;
        }
    }
    if (count == 6) return std::nullopt;
    return out;
}

}  // namespace boxlite::image
