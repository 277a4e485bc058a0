#include "virtio/guest_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>

#include "base/file.h"

namespace boxlite::virtio {
namespace {

constexpr uint64_t kPage = 4096, kChunk = 64 << 10;

// How many of the file's pages exist.
size_t resident(int fd, uint64_t size) {
    void* at = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
    std::vector<unsigned char> pages(size / kPage);
    EXPECT_EQ(::mincore(at, size, pages.data()), 0);
    ::munmap(at, size);
    return static_cast<size_t>(std::count_if(pages.begin(), pages.end(), [](auto page) { return page & 1; }));
}

struct Memory {
    explicit Memory(uint64_t size, bool shared = true) : file(base::make_memfd("memory", size).value()) {
        std::vector<GuestMemory::Region> regions;
        regions.push_back({kBase, MappedMemory::map(file.get(), 0, size, shared).value()});
        view = GuestMemory::make(std::move(regions)).value();
    }
    static constexpr uint64_t kBase = 1 << 20;
    base::Fd file;
    std::shared_ptr<const GuestMemory> view;
};

TEST(GuestMemory, BringsAPageInWithItsNeighbours) {
    const Memory memory(4 * kChunk);
    memory.view->bring_in(Memory::kBase + kChunk + 5, 1);
    EXPECT_EQ(resident(memory.file.get(), 4 * kChunk), kChunk / kPage);
    memory.view->bring_in(Memory::kBase + 2 * kChunk - 1, 2);
    EXPECT_EQ(resident(memory.file.get(), 4 * kChunk), 2 * kChunk / kPage);
}

TEST(GuestMemory, BringsInNoMoreThanThereIs) {
    const Memory memory(kChunk + kPage);
    memory.view->bring_in(Memory::kBase + kChunk, kPage);
    EXPECT_EQ(resident(memory.file.get(), kChunk + kPage), 1u);
    memory.view->bring_in(Memory::kBase + kChunk, 2 * kPage);
    memory.view->bring_in(0, kPage);
    memory.view->bring_in(Memory::kBase, UINT64_MAX);
    memory.view->bring_in(Memory::kBase, 0);
    EXPECT_EQ(resident(memory.file.get(), kChunk + kPage), 1u);
}

TEST(GuestMemory, LeavesMemoryThatIsNotSharedWhereItIs) {
    const Memory memory(kChunk, false);
    memory.view->bring_in(Memory::kBase, kPage);
    EXPECT_EQ(resident(memory.file.get(), kChunk), 0u);
}

}  // namespace
}  // namespace boxlite::virtio
