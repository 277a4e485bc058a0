#include "base/checksum.h"

#include <cstring>

namespace boxlite::base {

namespace {

uint16_t fold(uint64_t sum) {
    while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
    return static_cast<uint16_t>(sum);
}

template <typename T>
T load(const uint8_t* bytes) {
    T value;
    std::memcpy(&value, bytes, sizeof value);
    return value;
}

}  // namespace

// In the host's byte order, which only swaps the bytes of the sum (RFC 1071, 2.B), and so does a piece that
// begins at an odd place.
void Checksum::add(ByteView bytes) {
    uint64_t sum = 0;
    size_t i = 0;
    for (; i + 4 <= bytes.size(); i += 4) sum += load<uint32_t>(bytes.data() + i);
    if (i + 2 <= bytes.size()) {
        sum += load<uint16_t>(bytes.data() + i);
        i += 2;
    }
    if (i < bytes.size()) {
        const uint8_t last[2] = {bytes[i], 0};
        sum += load<uint16_t>(last);
    }
    const uint16_t folded = fold(sum);
    uint8_t in_memory[2];
    std::memcpy(in_memory, &folded, sizeof folded);
    if (odd_) std::swap(in_memory[0], in_memory[1]);
    sum_ += load_be<uint16_t>(in_memory);
    if (bytes.size() % 2) odd_ = !odd_;
}

uint16_t Checksum::result() const {
    return static_cast<uint16_t>(~fold(sum_));
}

}  // namespace boxlite::base
