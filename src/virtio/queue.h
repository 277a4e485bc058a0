// The device's side of one split virtqueue (virtio 1.2, 2.7), with indirect descriptors (2.7.5.3) and
// event-index notification suppression (2.7.10).
// Thread safety: one thread. The guest on the other side is not trusted: a malformed ring breaks the
// queue, which then yields nothing more, and never the process.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "virtio/guest_memory.h"

namespace boxlite::virtio {

inline constexpr uint16_t kMaxQueueSize = 1024;

inline constexpr uint64_t kFeatureIndirectDesc = 1ull << 28;
inline constexpr uint64_t kFeatureEventIdx = 1ull << 29;
inline constexpr uint64_t kFeatureVersion1 = 1ull << 32;

// One buffer of a chain, inside guest memory.
struct Segment {
    uint64_t address;
    uint32_t length;
};

// A request: what the device may read, then what it may write. Segments of zero length are left out.
struct Chain {
    uint16_t head = 0;
    std::vector<Segment> readable;
    std::vector<Segment> writable;

    uint64_t readable_bytes() const;
    uint64_t writable_bytes() const;
};

// Where the driver put the rings. Addresses are guest addresses.
struct QueueAddresses {
    uint16_t size = 0;  // a power of two, at most kMaxQueueSize
    uint64_t descriptors = 0;
    uint64_t available = 0;
    uint64_t used = 0;
    uint16_t next_available = 0;  // index to resume from
};

class Queue {
  public:
    Queue() = default;

    // kEngine when the rings are not wholly inside guest memory, misaligned or of a bad size.
    // `features` are those that the driver accepted.
    Result<void> start(std::shared_ptr<const GuestMemory> memory, const QueueAddresses& addresses,
                       uint64_t features);
    void stop();
    bool running() const { return memory_ != nullptr && broken_.empty(); }
    // Why the queue yields nothing more; "" while it is sound.
    const std::string& broken() const { return broken_; }
    uint16_t next_available() const { return next_available_; }

    // The next request, or nothing when there is none at the moment.
    std::optional<Chain> pop();
    // Puts the request popped last back; it is the next one again.
    void undo_pop() { --next_available_; }
    // Hands a request back with the number of bytes written to its writable segments. Requests may be
    // handed back in any order.
    void push(uint16_t head, uint32_t written);

    // Whether the driver wants to be told of what was pushed since the last call.
    bool needs_notification();
    // Asks the driver for no kicks. Cheap to call per batch.
    void disable_kicks();
    // Asks for kicks again. True when requests arrived in between: look again before waiting.
    bool enable_kicks();

    const GuestMemory& memory() const { return *memory_; }

  private:
    bool collect(uint64_t table, uint16_t table_size, uint16_t index, bool indirect, Chain& chain);
    bool add_segment(uint64_t address, uint32_t length, bool writable, Chain& chain);
    bool fail(const char* reason);
    uint16_t available_index() const;

    std::shared_ptr<const GuestMemory> memory_;
    std::string broken_;
    uint16_t size_ = 0;
    bool event_idx_ = false;
    bool indirect_ = false;
    uint64_t descriptors_ = 0;
    uint8_t* available_ = nullptr;
    uint8_t* used_ = nullptr;
    uint16_t next_available_ = 0;
    uint16_t next_used_ = 0;
    uint16_t signalled_used_ = 0;
    bool signalled_valid_ = false;
};

// Copies between a chain's segments and a buffer, from `offset` bytes into the segments. False, with
// nothing copied, when the segments are shorter than that.
[[nodiscard]] bool read_segments(const GuestMemory& memory, const std::vector<Segment>& segments,
                                 uint64_t offset, std::span<uint8_t> out);
[[nodiscard]] bool write_segments(const GuestMemory& memory, const std::vector<Segment>& segments,
                                  uint64_t offset, base::ByteView data);

// At most `limit` bytes of the segments from `offset` on, for readv and its kin.
std::vector<iovec> segments_for_io(const GuestMemory& memory, const std::vector<Segment>& segments,
                                   uint64_t offset, uint64_t limit);

}  // namespace boxlite::virtio
