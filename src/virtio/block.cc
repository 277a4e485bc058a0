#include "virtio/block.h"

#include <algorithm>

#include "base/log.h"

namespace boxlite::virtio {

namespace {

constexpr uint64_t kFeatureSegMax = 1 << 2, kFeatureReadOnly = 1 << 5, kFeatureBlockSize = 1 << 6,
                   kFeatureFlush = 1 << 9, kFeatureDiscard = 1 << 13, kFeatureWriteZeroes = 1 << 14;
constexpr uint32_t kIn = 0, kOut = 1, kFlush = 4, kGetId = 8, kDiscard = 11, kWriteZeroes = 13;
constexpr uint8_t kOk = 0, kIoError = 1, kUnsupported = 2;
constexpr uint64_t kSector = 512;
constexpr size_t kSerialBytes = 20;
constexpr uint32_t kMaxSegments = 254;          // of a request, beside its header and status
constexpr uint32_t kMaxEraseSectors = 1 << 22;  // 2 GiB a range
constexpr uint32_t kMaxEraseRanges = 16;

// virtio 1.2, 5.2.6: one range of a discard or write-zeroes request.
struct EraseRange {
    uint64_t sector;
    uint32_t sectors;
    uint32_t flags;
};
static_assert(sizeof(EraseRange) == 16);

}  // namespace

Block::Block(std::unique_ptr<disk::BlockBackend> disk, std::string_view serial)
    : disk_(std::move(disk)), serial_(serial.substr(0, kSerialBytes)) {
    uint8_t* c = config_.data();
    base::store_le<uint64_t>(c + 0, disk_->size() / kSector);
    base::store_le<uint32_t>(c + 12, kMaxSegments);
    base::store_le<uint32_t>(c + 20, 512);               // logical block size
    base::store_le<uint32_t>(c + 36, kMaxEraseSectors);  // max_discard_sectors
    base::store_le<uint32_t>(c + 40, kMaxEraseRanges);
    base::store_le<uint32_t>(c + 44, 4096 / kSector);    // discard_sector_alignment
    base::store_le<uint32_t>(c + 48, kMaxEraseSectors);  // max_write_zeroes_sectors
    base::store_le<uint32_t>(c + 52, kMaxEraseRanges);
    c[56] = 1;  // write zeroes may unmap
}

uint64_t Block::features() const {
    return kFeatureSegMax | kFeatureBlockSize | kFeatureFlush |
           (disk_->read_only() ? kFeatureReadOnly : kFeatureDiscard | kFeatureWriteZeroes);
}

void Block::process(size_t index) {
    Queue& queue = host_->queue(index);
    do {
        queue.disable_kicks();
        while (auto chain = queue.pop()) {
            Request request;
            Outcome outcome{kIoError, 0};
            const uint64_t room = chain->writable_bytes();
            const bool complete =
                room >= 1 && read_segments(queue.memory(), chain->readable, 0,
                                           {reinterpret_cast<uint8_t*>(&request), sizeof request});
            if (complete) {
                outcome = perform(request, *chain);
                (void)write_segments(queue.memory(), chain->writable, room - 1, {&outcome.status, 1});
            }
            queue.push(chain->head, complete ? outcome.written + 1 : 0);
        }
        // The driver may be waiting for what is done while the next request is slow.
        host_->notify(index);
    } while (queue.enable_kicks());
}

bool Block::in_range(uint64_t sector, uint64_t bytes) const {
    return sector <= disk_->size() / kSector && bytes <= disk_->size() - sector * kSector;
}

Block::Outcome Block::failed(const Error& error, const char* what) {
    // The first failure of a disk says it all; a guest that retries must not fill the log.
    if (!std::exchange(reported_, true))
        base::log_error("a disk request failed",
                        {{"disk", serial_}, {"request", what}, {"error", error.message}});
    return {kIoError, 0};
}

Block::Outcome Block::perform(const Request& request, const Chain& chain) {
    switch (request.type) {
        case kIn:
            return transfer(request, chain, true);
        case kOut:
            return transfer(request, chain, false);
        case kFlush: {
            const auto done = disk_->flush();
            return done.ok() ? Outcome{kOk, 0} : failed(done.error(), "flush");
        }
        case kGetId:
            return identify(chain);
        case kDiscard:
        case kWriteZeroes:
            return erase(request, chain);
        default:
            return {kUnsupported, 0};
    }
}

Block::Outcome Block::transfer(const Request& request, const Chain& chain, bool to_guest) {
    const uint64_t bytes = to_guest ? chain.writable_bytes() - 1 : chain.readable_bytes() - sizeof request;
    if (bytes % kSector || bytes > UINT32_MAX - 1 || !in_range(request.sector, bytes)) return {kIoError, 0};
    if (!to_guest && disk_->read_only()) return {kIoError, 0};
    const GuestMemory& memory = host_->queue(0).memory();
    const uint64_t offset = request.sector * kSector;
    if (to_guest) {
        const auto done = disk_->readv(offset, segments_for_io(memory, chain.writable, 0, bytes));
        if (!done.ok()) return failed(done.error(), "read");
        read_bytes_ += bytes;
        return {kOk, static_cast<uint32_t>(bytes)};
    }
    const auto done = disk_->writev(offset, segments_for_io(memory, chain.readable, sizeof request, bytes));
    if (!done.ok()) return failed(done.error(), "write");
    written_bytes_ += bytes;
    return {kOk, 0};
}

Block::Outcome Block::erase(const Request& request, const Chain& chain) {
    const uint64_t bytes = chain.readable_bytes() - sizeof request;
    if (disk_->read_only() || bytes == 0 || bytes % sizeof(EraseRange) ||
        bytes / sizeof(EraseRange) > kMaxEraseRanges)
        return {kIoError, 0};
    for (uint64_t at = 0; at < bytes; at += sizeof(EraseRange)) {
        EraseRange range;
        if (!read_segments(host_->queue(0).memory(), chain.readable, sizeof request + at,
                           {reinterpret_cast<uint8_t*>(&range), sizeof range}))
            return {kIoError, 0};
        const bool zero = request.type == kWriteZeroes;
        if (range.flags & ~(zero ? 1u : 0u)) return {kUnsupported, 0};
        const uint64_t length = uint64_t{range.sectors} * kSector;
        if (range.sectors > kMaxEraseSectors || !in_range(range.sector, length)) return {kIoError, 0};
        const uint64_t offset = range.sector * kSector;
        const auto done = zero ? disk_->write_zeroes(offset, length) : disk_->discard(offset, length);
        if (!done.ok()) return failed(done.error(), zero ? "write zeroes" : "discard");
    }
    return {kOk, 0};
}

Block::Outcome Block::identify(const Chain& chain) {
    uint8_t id[kSerialBytes] = {};
    std::copy(serial_.begin(), serial_.end(), id);
    const uint64_t room = std::min<uint64_t>(chain.writable_bytes() - 1, kSerialBytes);
    if (!write_segments(host_->queue(0).memory(), chain.writable, 0, {id, room})) return {kIoError, 0};
    return {kOk, static_cast<uint32_t>(room)};
}

}  // namespace boxlite::virtio
