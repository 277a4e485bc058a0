// Byte buffers and integers in a fixed byte order.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace boxlite::base {

using Bytes = std::vector<uint8_t>;
using ByteView = std::span<const uint8_t>;

inline ByteView as_bytes(std::string_view text) {
    return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}
inline std::string_view as_text(ByteView bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

static_assert(std::endian::native == std::endian::little, "BoxLite runs on little-endian hosts");

template <std::unsigned_integral T>
constexpr T byte_swap(T value) {
    T swapped = 0;
    for (size_t i = 0; i < sizeof(T); ++i) swapped = static_cast<T>(swapped << 8 | (value >> (8 * i) & 0xff));
    return swapped;
}

// Precondition for all four: sizeof(T) bytes at `p`.
template <std::unsigned_integral T>
T load_le(const void* p) {
    T value;
    std::memcpy(&value, p, sizeof value);
    return value;
}
template <std::unsigned_integral T>
T load_be(const void* p) {
    return byte_swap(load_le<T>(p));
}
template <std::unsigned_integral T>
void store_le(void* p, T value) {
    std::memcpy(p, &value, sizeof value);
}
template <std::unsigned_integral T>
void store_be(void* p, T value) {
    store_le(p, byte_swap(value));
}

// a + b, or false when the sum does not fit.
template <std::unsigned_integral T>
[[nodiscard]] bool checked_add(T a, T b, T* sum) {
    return !__builtin_add_overflow(a, b, sum);
}

}  // namespace boxlite::base
