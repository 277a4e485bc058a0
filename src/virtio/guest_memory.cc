#include "virtio/guest_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

namespace boxlite::virtio {
namespace {

// The uml kernel brings its memory in by chunks of this size too.
constexpr uint64_t kChunk = 64 << 10;

}  // namespace

Result<MappedMemory> MappedMemory::map(int fd, uint64_t offset, uint64_t size, bool shared) {
    const int flags = shared ? MAP_SHARED : MAP_PRIVATE | MAP_NORESERVE;
    void* data = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, flags, fd, static_cast<off_t>(offset));
    if (data == MAP_FAILED)
        return base::errno_error(ErrorCode::kEngine, "map {} bytes of guest memory", size);
    ::madvise(data, size, MADV_DONTDUMP);
    return MappedMemory(static_cast<uint8_t*>(data), size, shared);
}

MappedMemory::MappedMemory(uint8_t* data, size_t size, bool shared) : data_(data), size_(size) {
    if (shared) brought_in_ = std::make_unique<std::atomic<uint8_t>[]>(size / kChunk + 1);
}

void MappedMemory::bring_in(uint64_t offset, uint64_t length) const {
    if (!brought_in_) return;
    for (uint64_t chunk = offset / kChunk; chunk <= (offset + length - 1) / kChunk; ++chunk) {
        if (brought_in_[chunk].load(std::memory_order_relaxed)) continue;
        brought_in_[chunk].store(1, std::memory_order_relaxed);
        ::madvise(data_ + chunk * kChunk, std::min<uint64_t>(kChunk, size_ - chunk * kChunk),
                  MADV_POPULATE_WRITE);
    }
}

MappedMemory& MappedMemory::operator=(MappedMemory&& other) noexcept {
    if (this != &other) {
        unmap();
        data_ = std::exchange(other.data_, nullptr);
        size_ = std::exchange(other.size_, 0);
        brought_in_ = std::move(other.brought_in_);
    }
    return *this;
}

void MappedMemory::unmap() {
    if (data_) ::munmap(data_, size_);
}

Result<std::shared_ptr<const GuestMemory>> GuestMemory::make(std::vector<Region> regions) {
    std::sort(regions.begin(), regions.end(),
              [](const Region& a, const Region& b) { return a.guest_address < b.guest_address; });
    uint64_t end = 0;
    for (const Region& region : regions) {
        uint64_t region_end;
        if (region.guest_address < end ||
            !base::checked_add<uint64_t>(region.guest_address, region.memory.size(), &region_end))
            return base::make_error(ErrorCode::kEngine, "guest memory regions overlap or wrap around");
        end = region_end;
    }
    return std::shared_ptr<const GuestMemory>(new GuestMemory(std::move(regions)));
}

const GuestMemory::Region* GuestMemory::find(uint64_t address, uint64_t length) const {
    for (const Region& region : regions_) {
        if (address < region.guest_address) return nullptr;
        const uint64_t offset = address - region.guest_address;
        if (offset >= region.memory.size()) continue;
        return length <= region.memory.size() - offset ? &region : nullptr;
    }
    return nullptr;
}

uint8_t* GuestMemory::translate(uint64_t address, uint64_t length) const {
    const Region* region = find(address, length);
    return region ? region->memory.data() + (address - region->guest_address) : nullptr;
}

bool GuestMemory::read(uint64_t address, std::span<uint8_t> out) const {
    const uint8_t* from = translate(address, out.size());
    if (!from) return false;
    std::memcpy(out.data(), from, out.size());
    return true;
}

bool GuestMemory::write(uint64_t address, base::ByteView data) const {
    uint8_t* to = translate(address, data.size());
    if (!to) return false;
    std::memcpy(to, data.data(), data.size());
    return true;
}

iovec GuestMemory::range_for_io(uint64_t address, uint64_t length) const {
    return {translate(address, length), length};
}

void GuestMemory::bring_in(uint64_t address, uint64_t length) const {
    const Region* region = find(address, length);
    if (region && length > 0) region->memory.bring_in(address - region->guest_address, length);
}

void GuestMemory::discard(uint64_t address, uint64_t length) const {
    constexpr uint64_t kPage = 4096;
    uint8_t* at = translate(address, length);
    if (!at) return;
    const uint64_t skip = (kPage - reinterpret_cast<uintptr_t>(at) % kPage) % kPage;
    if (length < skip + kPage) return;
    const uint64_t size = (length - skip) / kPage * kPage;
    // Out of the file that backs it; a private mapping has its own copies.
    if (::madvise(at + skip, size, MADV_REMOVE) < 0) ::madvise(at + skip, size, MADV_DONTNEED);
}

uint8_t* GuestMemory::ring_pointer(uint64_t address, uint64_t length, size_t alignment) const {
    uint8_t* pointer = translate(address, length);
    return reinterpret_cast<uintptr_t>(pointer) % alignment == 0 ? pointer : nullptr;
}

}  // namespace boxlite::virtio
