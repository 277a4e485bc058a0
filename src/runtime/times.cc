#include "runtime/times.h"

#include <charconv>
#include <ctime>

namespace boxlite::runtime {

namespace {

// Takes `digits` decimal digits off the front of `text`.
bool take_number(std::string_view& text, size_t digits, int& value) {
    if (text.size() < digits) return false;
    const auto [end, error] = std::from_chars(text.data(), text.data() + digits, value);
    if (error != std::errc() || end != text.data() + digits || text.front() == '-') return false;
    text.remove_prefix(digits);
    return true;
}

bool take(std::string_view& text, std::string_view any_of) {
    if (text.empty() || any_of.find(text.front()) == std::string_view::npos) return false;
    text.remove_prefix(1);
    return true;
}

}  // namespace

std::optional<int64_t> parse_time(std::string_view text) {
    std::tm fields{};
    if (!take_number(text, 4, fields.tm_year) || !take(text, "-") || !take_number(text, 2, fields.tm_mon) ||
        !take(text, "-") || !take_number(text, 2, fields.tm_mday) || !take(text, "Tt ") ||
        !take_number(text, 2, fields.tm_hour) || !take(text, ":") || !take_number(text, 2, fields.tm_min) ||
        !take(text, ":") || !take_number(text, 2, fields.tm_sec))
        return std::nullopt;
    fields.tm_year -= 1900;
    fields.tm_mon -= 1;
    int64_t fraction = 0;
    if (take(text, ".")) {
        for (int64_t unit = 100'000'000; !text.empty() && text.front() >= '0' && text.front() <= '9';
             unit /= 10) {
            fraction += unit * (text.front() - '0');
            text.remove_prefix(1);
        }
    }
    int64_t offset_minutes = 0;
    if (!take(text, "Zz")) {
        const bool west = !text.empty() && text.front() == '-';
        int hours = 0, minutes = 0;
        if (!take(text, "+-") || !take_number(text, 2, hours) || !take(text, ":") ||
            !take_number(text, 2, minutes))
            return std::nullopt;
        offset_minutes = (west ? -1 : 1) * (hours * 60 + minutes);
    }
    if (!text.empty()) return std::nullopt;
    return (int64_t{::timegm(&fields)} - offset_minutes * 60) * 1'000'000'000 + fraction;
}

}  // namespace boxlite::runtime
