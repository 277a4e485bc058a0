// What a virtual disk is made of, as its device sees it: a range of bytes that can be read, written and
// made durable. Implementations: Qcow2 (disk/qcow2.h) and RawFile (disk/raw_file.h).
//
// Thread safety: none. One thread (the device's) uses an object at a time.
// Errors: kInvalidArgument for a range outside the disk, kInvalidState for a write to a read-only disk,
// kResourceExhausted when the host has no room (disk, quota or file size limit), kStorage for the rest.
// After a failed call the disk is consistent and every earlier write is still there; the failed range of
// a write holds old bytes, new bytes or both. A host that fails a sync has lost data in a way that cannot
// be told: from then on every change of the disk and every flush fails with that first error.
// A process that sets a file size limit must ignore SIGXFSZ, or the kernel ends it.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <span>

#include "base/result.h"

namespace boxlite::disk {

class BlockBackend {
  public:
    BlockBackend() = default;
    BlockBackend(const BlockBackend&) = delete;
    BlockBackend& operator=(const BlockBackend&) = delete;
    virtual ~BlockBackend() = default;

    // Transfer the whole of the vector; its total length, in bytes, is that of the request. Offsets and
    // lengths need no alignment. The memory may be shared with a guest that changes it meanwhile.
    virtual Result<void> readv(uint64_t offset, std::span<const iovec> into) = 0;
    virtual Result<void> writev(uint64_t offset, std::span<const iovec> from) = 0;

    // Advice that the range is no longer needed. Its bytes read as they were or as zeroes afterwards.
    virtual Result<void> discard(uint64_t offset, uint64_t length) = 0;

    // The range reads as zeroes afterwards; takes no room where that can be avoided.
    virtual Result<void> write_zeroes(uint64_t offset, uint64_t length) = 0;

    // Every change that returned before this call survives a crash of process and host once it returns.
    // Costs nothing when there was no change since the last one, but for the first one after an open.
    virtual Result<void> flush() = 0;

    // Bytes in a row, from `offset` on and at most `length`, that were all written in an overlay of the
    // chain, or that are all as the image at its bottom has them.
    struct Run {
        bool in_overlay = false;
        uint64_t length = 0;
    };
    virtual Result<Run> run_at(uint64_t /*offset*/, uint64_t length) { return Run{false, length}; }

    virtual uint64_t size() const = 0;  // bytes, as the guest sees the disk
    virtual bool read_only() const = 0;

    Result<void> read(uint64_t offset, std::span<uint8_t> into) {
        const iovec one{into.data(), into.size()};
        return readv(offset, {&one, 1});
    }
    Result<void> write(uint64_t offset, std::span<const uint8_t> from) {
        const iovec one{const_cast<uint8_t*>(from.data()), from.size()};
        return writev(offset, {&one, 1});
    }
};

}  // namespace boxlite::disk
