// The guest's memory as devices see it: by guest address, checked, and never by reference. The guest may
// change any byte at any time, so a value is copied out once, then checked, then used.
// Thread safety: immutable once built; the bytes behind it are shared with the guest.
#pragma once

#include <sys/uio.h>

#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/fd.h"

namespace boxlite::virtio {

// A mapping that goes with the object.
class MappedMemory {
  public:
    MappedMemory() = default;
    // Maps `size` bytes of `fd` from `offset` (page aligned), readable and writable. Not `shared`: what is
    // written stays in this mapping.
    static Result<MappedMemory> map(int fd, uint64_t offset, uint64_t size, bool shared = true);
    MappedMemory(MappedMemory&& other) noexcept
        : data_(std::exchange(other.data_, nullptr)),
          size_(std::exchange(other.size_, 0)),
          brought_in_(std::move(other.brought_in_)) {}
    MappedMemory& operator=(MappedMemory&& other) noexcept;
    ~MappedMemory() { unmap(); }
    uint8_t* data() const { return data_; }
    size_t size() const { return size_; }

    // Maps the pages of a range of a shared mapping with their neighbours, by one call for many: the first
    // touch of each would be a fault of its own. A hint; any thread.
    void bring_in(uint64_t offset, uint64_t length) const;

  private:
    MappedMemory(uint8_t* data, size_t size, bool shared);
    void unmap();
    uint8_t* data_ = nullptr;
    size_t size_ = 0;
    std::unique_ptr<std::atomic<uint8_t>[]> brought_in_;  // a flag for each chunk, when shared
};

class GuestMemory {
  public:
    struct Region {
        uint64_t guest_address;
        MappedMemory memory;
    };

    // Regions must not overlap or wrap around; kEngine otherwise.
    static Result<std::shared_ptr<const GuestMemory>> make(std::vector<Region> regions);

    // False, with nothing transferred, when any byte of the range is not guest memory.
    [[nodiscard]] bool read(uint64_t address, std::span<uint8_t> out) const;
    [[nodiscard]] bool write(uint64_t address, base::ByteView data) const;

    template <typename T>
    [[nodiscard]] bool read_value(uint64_t address, T* out) const {
        static_assert(std::is_trivially_copyable_v<T>);
        return read(address, {reinterpret_cast<uint8_t*>(out), sizeof(T)});
    }
    template <typename T>
    [[nodiscard]] bool write_value(uint64_t address, const T& value) const {
        static_assert(std::is_trivially_copyable_v<T>);
        return write(address, {reinterpret_cast<const uint8_t*>(&value), sizeof(T)});
    }

    // The range for a system call to fill or drain (readv, pwritev): the kernel copies, we never look.
    // A zero iov_base means that the range is not guest memory.
    iovec range_for_io(uint64_t address, uint64_t length) const;
    // Before a device transfers to or from the range.
    void bring_in(uint64_t address, uint64_t length) const;

    // Gives the whole pages of the range back to the host: they read as zeroes, or as what lies under a
    // private mapping. Nothing happens to a range that is not guest memory.
    void discard(uint64_t address, uint64_t length) const;

    // Host address of a range that is aligned and stays mapped as long as this object: for rings, which
    // are read with atomic loads. nullptr when it is not guest memory or misaligned.
    uint8_t* ring_pointer(uint64_t address, uint64_t length, size_t alignment) const;

  private:
    explicit GuestMemory(std::vector<Region> regions) : regions_(std::move(regions)) {}
    const Region* find(uint64_t address, uint64_t length) const;
    uint8_t* translate(uint64_t address, uint64_t length) const;
    std::vector<Region> regions_;
};

}  // namespace boxlite::virtio
