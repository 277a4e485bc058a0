#include "rpc/frame.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace boxlite::rpc {

namespace {

constexpr size_t kSmallBuffer = size_t{64} << 10;
// A buffer that has grown up to here is kept, so that a file transfer does not map and fault it anew for
// each chunk.
constexpr size_t kKeptBuffer = (size_t{1} << 20) + (size_t{64} << 10);

}  // namespace

void encode_header(const FrameHeader& header, uint8_t* out) {
    base::store_be<uint32_t>(out, header.length);
    base::store_be<uint32_t>(out + 4, header.stream);
    out[8] = static_cast<uint8_t>(header.type);
    out[9] = 0;
}

Result<FrameHeader> decode_header(std::span<const uint8_t, kFrameHeaderSize> bytes) {
    FrameHeader header{.length = base::load_be<uint32_t>(bytes.data()),
                       .stream = base::load_be<uint32_t>(bytes.data() + 4)};
    const uint8_t type = bytes[8];
    const uint8_t flags = bytes[9];
    if (header.length > kMaxFrameData)
        return base::make_error(ErrorCode::kRpcTransport, "the peer sent a frame of {} bytes; {} is the most",
                                header.length, kMaxFrameData);
    if (header.stream % 2 == 0)
        return base::make_error(ErrorCode::kRpcTransport, "the peer used the even stream {}", header.stream);
    if (type != static_cast<uint8_t>(FrameType::kRequest) &&
        type != static_cast<uint8_t>(FrameType::kResponse))
        return base::make_error(ErrorCode::kRpcTransport, "the peer sent a frame of unknown type {}", type);
    if (flags != 0)
        return base::make_error(ErrorCode::kRpcTransport,
                                "the peer set flags {:#x}; only unary calls are spoken", flags);
    header.type = static_cast<FrameType>(type);
    return header;
}

std::span<uint8_t> FrameReader::space() {
    if (begin_ == end_) {
        begin_ = end_ = 0;
        if (capacity_ > kKeptBuffer) {
            buffer_.reset();
            capacity_ = 0;
        }
    }
    if (begin_ + wanted_ > capacity_ || end_ == capacity_) reserve(std::max(wanted_, kSmallBuffer));
    return {buffer_.get() + end_, capacity_ - end_};
}

// Room for `capacity` bytes from begin_ on; what was read moves to the front.
void FrameReader::reserve(size_t capacity) {
    if (capacity <= capacity_) {
        std::memmove(buffer_.get(), buffer_.get() + begin_, end_ - begin_);
    } else {
        auto larger = std::make_unique_for_overwrite<uint8_t[]>(capacity);
        if (end_ != begin_) std::memcpy(larger.get(), buffer_.get() + begin_, end_ - begin_);
        buffer_ = std::move(larger);
        capacity_ = capacity;
    }
    end_ -= begin_;
    begin_ = 0;
}

void FrameReader::commit(size_t size) {
    end_ += size;
}

Result<std::optional<Frame>> FrameReader::next() {
    const size_t have = end_ - begin_;
    if (have < kFrameHeaderSize) {
        wanted_ = kFrameHeaderSize;
        return std::optional<Frame>();
    }
    const uint8_t* start = buffer_.get() + begin_;
    const FrameHeader header =
        TRY(decode_header(std::span<const uint8_t, kFrameHeaderSize>(start, kFrameHeaderSize)));
    const size_t size = kFrameHeaderSize + header.length;
    if (have < size) {
        wanted_ = size;
        return std::optional<Frame>();
    }
    begin_ += size;
    wanted_ = kFrameHeaderSize;
    return std::optional<Frame>(Frame{header, {start + kFrameHeaderSize, header.length}});
}

}  // namespace boxlite::rpc
