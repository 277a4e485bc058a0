// ttrpc frames: ten bytes of header (u32 length of the data, u32 stream, u8 type, u8 flags; big endian)
// and the data. PROTOCOL.md of containerd/ttrpc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "base/bytes.h"
#include "base/result.h"

namespace boxlite::rpc {

inline constexpr size_t kFrameHeaderSize = 10;
inline constexpr size_t kMaxFrameData = size_t{4} << 20;

enum class FrameType : uint8_t { kRequest = 1, kResponse = 2 };

struct FrameHeader {
    uint32_t length = 0;  // of the data that follows
    uint32_t stream = 0;  // odd
    FrameType type = FrameType::kRequest;
};

// Precondition: kFrameHeaderSize bytes at `out`.
void encode_header(const FrameHeader& header, uint8_t* out);

// kRpcTransport for a length over kMaxFrameData, an even stream, an unknown type or flags: unary calls
// have none.
Result<FrameHeader> decode_header(std::span<const uint8_t, kFrameHeaderSize> bytes);

struct Frame {
    FrameHeader header;
    base::ByteView data;  // lies in the reader; valid until its next space()
};

// Cuts a byte stream into frames. Use: read into space(), commit() what was read, take frames with next()
// until there is none. Holds one buffer that grows to the frame at hand, never past the largest one.
class FrameReader {
  public:
    // Where the next bytes go. Never empty once next() has returned nullopt.
    std::span<uint8_t> space();
    void commit(size_t size);
    // nullopt: more bytes are needed. After an error the stream is beyond repair.
    Result<std::optional<Frame>> next();
    // True in the middle of a frame: the stream must not end here.
    bool partial() const { return end_ != begin_; }

  private:
    void reserve(size_t capacity);

    std::unique_ptr<uint8_t[]> buffer_;
    size_t capacity_ = 0;
    size_t begin_ = 0;  // first byte not yet taken
    size_t end_ = 0;    // end of the bytes that were read
    size_t wanted_ = kFrameHeaderSize;
};

}  // namespace boxlite::rpc
