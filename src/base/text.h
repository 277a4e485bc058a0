// Text from outside, made fit for messages.
#pragma once

#include <string>
#include <string_view>

namespace boxlite::base {

// At most `limit` bytes of `text`, with control characters as \x1b and so on: nothing in it can move a
// terminal's cursor or begin a new line of a log.
inline std::string printable(std::string_view text, size_t limit = 200) {
    constexpr std::string_view kHex = "0123456789abcdef";
    std::string out;
    for (const char c : text.substr(0, limit)) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte >= ' ' && byte != 0x7f) {
            out += c;
        } else {
            out += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
        }
    }
    if (text.size() > limit) out += "...";
    return out;
}

}  // namespace boxlite::base
