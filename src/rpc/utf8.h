// UTF-8 (RFC 3629), which protobuf demands of its strings.
#pragma once

#include <string>
#include <string_view>

namespace boxlite::rpc {

// The length of the valid sequence at the start of `text`, 0 when it is broken. Precondition: not empty.
inline size_t utf8_sequence(std::string_view text) {
    const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
    const auto follows = [&](size_t i) { return (byte(i) & 0xc0) == 0x80; };
    const unsigned first = byte(0);
    if (first < 0x80) return 1;
    if (first >= 0xc2 && first <= 0xdf) return follows(1) ? 2 : 0;
    if (first >= 0xe0 && first <= 0xef) {
        const bool overlong = first == 0xe0 && byte(1) < 0xa0;
        const bool surrogate = first == 0xed && byte(1) > 0x9f;
        return follows(1) && follows(2) && !overlong && !surrogate ? 3 : 0;
    }
    if (first >= 0xf0 && first <= 0xf4) {
        const bool overlong = first == 0xf0 && byte(1) < 0x90;
        const bool too_large = first == 0xf4 && byte(1) > 0x8f;
        return follows(1) && follows(2) && follows(3) && !overlong && !too_large ? 4 : 0;
    }
    return 0;
}

inline bool is_utf8(std::string_view text) {
    while (!text.empty()) {
        const size_t length = utf8_sequence(text);
        if (length == 0) return false;
        text.remove_prefix(length);
    }
    return true;
}

// `text` with a question mark for every byte that is no part of a valid sequence.
inline std::string to_utf8(std::string_view text) {
    std::string clean;
    clean.reserve(text.size());
    while (!text.empty()) {
        const size_t length = utf8_sequence(text);
        if (length == 0)
            clean += '?';
        else
            clean += text.substr(0, length);
        text.remove_prefix(length == 0 ? 1 : length);
    }
    return clean;
}

}  // namespace boxlite::rpc
