#include "virtio/queue.h"

#include <bit>

namespace boxlite::virtio {

namespace {

// virtio 1.2, 2.7.5.
struct Descriptor {
    uint64_t address;
    uint32_t length;
    uint16_t flags;
    uint16_t next;
};
static_assert(sizeof(Descriptor) == 16);

constexpr uint16_t kDescNext = 1;
constexpr uint16_t kDescWrite = 2;
constexpr uint16_t kDescIndirect = 4;
constexpr uint16_t kAvailNoInterrupt = 1;
constexpr uint16_t kUsedNoNotify = 1;
constexpr size_t kRingHeader = 4;   // flags, idx
constexpr size_t kUsedElement = 8;  // id, len
constexpr uint16_t kMaxIndirect = 1024;

std::atomic_ref<uint16_t> shared_u16(uint8_t* p) {
    return std::atomic_ref(*reinterpret_cast<uint16_t*>(p));
}

uint64_t total(const std::vector<Segment>& segments) {
    uint64_t bytes = 0;
    for (const Segment& segment : segments) bytes += segment.length;
    return bytes;
}

}  // namespace

uint64_t Chain::readable_bytes() const {
    return total(readable);
}
uint64_t Chain::writable_bytes() const {
    return total(writable);
}

Result<void> Queue::start(std::shared_ptr<const GuestMemory> memory, const QueueAddresses& a,
                          uint64_t features) {
    stop();
    if (!std::has_single_bit(a.size) || a.size > kMaxQueueSize)
        return base::make_error(ErrorCode::kEngine, "a virtqueue of {} entries is not allowed", a.size);
    const size_t n = a.size;
    uint8_t* available = memory->ring_pointer(a.available, kRingHeader + 2 * n + 2, 2);
    uint8_t* used = memory->ring_pointer(a.used, kRingHeader + kUsedElement * n + 2, 4);
    if (!memory->ring_pointer(a.descriptors, sizeof(Descriptor) * n, 16) || !available || !used)
        return base::make_error(ErrorCode::kEngine, "a virtqueue's rings are outside of guest memory");
    memory_ = std::move(memory);
    size_ = a.size;
    descriptors_ = a.descriptors;
    available_ = available;
    used_ = used;
    next_available_ = a.next_available;
    next_used_ = shared_u16(used_ + 2).load(std::memory_order_relaxed);
    signalled_used_ = next_used_;
    signalled_valid_ = false;
    event_idx_ = features & kFeatureEventIdx;
    indirect_ = features & kFeatureIndirectDesc;
    return {};
}

void Queue::stop() {
    memory_.reset();
    broken_.clear();
}

uint16_t Queue::available_index() const {
    return shared_u16(available_ + 2).load(std::memory_order_acquire);
}

bool Queue::fail(const char* reason) {
    broken_ = reason;
    return false;
}

std::optional<Chain> Queue::pop() {
    if (!running()) return std::nullopt;
    const uint16_t waiting = static_cast<uint16_t>(available_index() - next_available_);
    if (waiting == 0) return std::nullopt;
    if (waiting > size_) {
        fail("the available index ran ahead of the ring");
        return std::nullopt;
    }
    Chain chain;
    chain.head =
        shared_u16(available_ + kRingHeader + 2 * (next_available_ % size_)).load(std::memory_order_relaxed);
    if (chain.head >= size_) {
        fail("a descriptor index is outside of the table");
        return std::nullopt;
    }
    if (!collect(descriptors_, size_, chain.head, false, chain)) return std::nullopt;
    ++next_available_;
    return chain;
}

bool Queue::collect(uint64_t table, uint16_t table_size, uint16_t index, bool indirect, Chain& chain) {
    // A chain longer than its table can only be a loop.
    for (uint16_t steps = 0; steps < table_size; ++steps) {
        Descriptor descriptor;
        if (!memory_->read_value(table + uint64_t{index} * sizeof(Descriptor), &descriptor))
            return fail("a descriptor table is outside of guest memory");
        if (descriptor.flags & kDescIndirect) {
            if (indirect || !indirect_) return fail("an indirect descriptor where none is allowed");
            if (descriptor.flags & kDescNext) return fail("an indirect descriptor that goes on");
            if (descriptor.length == 0 || descriptor.length % sizeof(Descriptor) ||
                descriptor.length / sizeof(Descriptor) > kMaxIndirect)
                return fail("an indirect table of a bad size");
            return collect(descriptor.address, static_cast<uint16_t>(descriptor.length / sizeof(Descriptor)),
                           0, true, chain);
        }
        if (!add_segment(descriptor.address, descriptor.length, descriptor.flags & kDescWrite, chain))
            return false;
        if (!(descriptor.flags & kDescNext)) return true;
        index = descriptor.next;
        if (index >= table_size) return fail("a descriptor index is outside of the table");
    }
    return fail("a descriptor chain loops");
}

bool Queue::add_segment(uint64_t address, uint32_t length, bool writable, Chain& chain) {
    if (!writable && !chain.writable.empty()) return fail("a readable descriptor after a writable one");
    if (length == 0) return true;
    if (!memory_->range_for_io(address, length).iov_base) return fail("a buffer is outside of guest memory");
    (writable ? chain.writable : chain.readable).push_back({address, length});
    return true;
}

void Queue::push(uint16_t head, uint32_t written) {
    if (!memory_) return;
    uint8_t* element = used_ + kRingHeader + kUsedElement * (next_used_ % size_);
    base::store_le<uint32_t>(element, head);
    base::store_le<uint32_t>(element + 4, written);
    ++next_used_;
    shared_u16(used_ + 2).store(next_used_, std::memory_order_release);
}

bool Queue::needs_notification() {
    if (!memory_) return false;
    std::atomic_thread_fence(std::memory_order_seq_cst);
    const uint16_t old = signalled_used_;
    const bool first = !signalled_valid_;
    if (old == next_used_) return false;
    signalled_used_ = next_used_;
    signalled_valid_ = true;
    if (!event_idx_) return !(shared_u16(available_).load(std::memory_order_relaxed) & kAvailNoInterrupt);
    if (first) return true;
    // virtio 1.2, 2.7.10.1: notify when the index the driver waits for was passed.
    const uint16_t event = shared_u16(available_ + kRingHeader + 2 * size_).load(std::memory_order_relaxed);
    return static_cast<uint16_t>(next_used_ - event - 1) < static_cast<uint16_t>(next_used_ - old);
}

void Queue::disable_kicks() {
    if (memory_ && !event_idx_) shared_u16(used_).store(kUsedNoNotify, std::memory_order_relaxed);
}

bool Queue::enable_kicks() {
    if (!running()) return false;
    if (event_idx_)
        shared_u16(used_ + kRingHeader + kUsedElement * size_)
            .store(next_available_, std::memory_order_relaxed);
    else
        shared_u16(used_).store(0, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return available_index() != next_available_;
}

bool read_segments(const GuestMemory& memory, const std::vector<Segment>& segments, uint64_t offset,
                   std::span<uint8_t> out) {
    for (const Segment& segment : segments) {
        if (out.empty()) break;
        if (offset >= segment.length) {
            offset -= segment.length;
            continue;
        }
        const size_t n = std::min<uint64_t>(out.size(), segment.length - offset);
        if (!memory.read(segment.address + offset, out.first(n))) return false;
        out = out.subspan(n);
        offset = 0;
    }
    return out.empty();
}

bool write_segments(const GuestMemory& memory, const std::vector<Segment>& segments, uint64_t offset,
                    base::ByteView data) {
    uint64_t room = total(segments);
    if (offset > room || data.size() > room - offset) return false;
    for (const Segment& segment : segments) {
        if (data.empty()) break;
        if (offset >= segment.length) {
            offset -= segment.length;
            continue;
        }
        const size_t n = std::min<uint64_t>(data.size(), segment.length - offset);
        if (!memory.write(segment.address + offset, data.first(n))) return false;
        data = data.subspan(n);
        offset = 0;
    }
    return true;
}

std::vector<iovec> segments_for_io(const GuestMemory& memory, const std::vector<Segment>& segments,
                                   uint64_t offset, uint64_t limit) {
    std::vector<iovec> parts;
    for (const Segment& segment : segments) {
        if (limit == 0) break;
        if (offset >= segment.length) {
            offset -= segment.length;
            continue;
        }
        const uint64_t n = std::min<uint64_t>(limit, segment.length - offset);
        memory.bring_in(segment.address + offset, n);
        parts.push_back(memory.range_for_io(segment.address + offset, n));
        limit -= n;
        offset = 0;
    }
    return parts;
}

}  // namespace boxlite::virtio
