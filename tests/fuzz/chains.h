// Descriptor chains in the input of a fuzz target: a byte of count and kind, and for each buffer its length
// (the highest bit: writable) and, when the device may read it, its content.
#pragma once

#include "tests/fuzz/fuzz.h"
#include "virtio/testing.h"

namespace boxlite::fuzz {

inline constexpr size_t kMaxChains = 64;
inline constexpr uint16_t kWritableBit = 0x8000;

struct PostedChain {
    std::vector<virtio::testing::Buffer> buffers;
    bool indirect;
};

inline PostedChain take_chain(Input& input, virtio::testing::Ram& ram) {
    const auto kind = input.take<uint8_t>();
    PostedChain chain{{}, (kind & 0x80) != 0};
    for (unsigned i = 0; i <= (kind & 7u); ++i) {
        const auto length = input.take<uint16_t>();
        chain.buffers.push_back(length & kWritableBit
                                    ? ram.writable(static_cast<uint32_t>(length & ~kWritableBit))
                                    : ram.readable(input.bytes(length)));
    }
    return chain;
}

// What take_chain() reads: `readable`, then buffers to write to.
inline void put_chain(Output& out, const std::vector<std::string>& readable,
                      const std::vector<uint16_t>& writable, bool indirect = false) {
    out.put(static_cast<uint8_t>((readable.size() + writable.size() - 1) | (indirect ? 0x80u : 0u)));
    for (const std::string& content : readable)
        out.put(static_cast<uint16_t>(content.size())).put_bytes(content);
    for (const uint16_t length : writable) out.put(static_cast<uint16_t>(length | kWritableBit));
}

}  // namespace boxlite::fuzz
