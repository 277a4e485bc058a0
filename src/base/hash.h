// FNV-1a, to spread names over numbers. Not for digests: anybody can find another text with the same value.
#pragma once

#include <cstdint>
#include <string_view>

namespace boxlite::base {

constexpr uint32_t fnv1a_32(std::string_view text) {
    uint32_t hash = 0x811c9dc5;
    for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 0x01000193;
    return hash;
}

constexpr uint64_t fnv1a_64(std::string_view text) {
    uint64_t hash = 0xcbf29ce484222325;
    for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
    return hash;
}

}  // namespace boxlite::base
