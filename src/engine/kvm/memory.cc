#include "engine/kvm/memory.h"

#include <algorithm>

#include "engine/kvm/layout.h"

namespace boxlite::engine::kvm {

std::vector<MemorySlot> memory_slots(uint64_t bytes) {
    const uint64_t low = std::min(bytes, kHoleStart);
    std::vector<MemorySlot> slots = {{0, low, 0}};
    if (bytes > low) slots.push_back({kHoleEnd, bytes - low, low});
    return slots;
}

// The kernel itself reserves what is between the low memory's end and 1 MiB.
std::vector<MemoryRange> memory_map(uint64_t bytes) {
    const uint64_t low = std::min(bytes, kHoleStart);
    std::vector<MemoryRange> map = {{0, kLowMemoryEnd, kUsableMemory},
                                    {kHighMemory, low - kHighMemory, kUsableMemory}};
    if (bytes > low) map.push_back({kHoleEnd, bytes - low, kUsableMemory});
    return map;
}

Result<MachineMemory> make_memory(uint64_t bytes) {
    MachineMemory memory;
    memory.file = TRY(base::make_memfd("boxlite-guest-memory", bytes));
    std::vector<virtio::GuestMemory::Region> regions;
    for (const MemorySlot& slot : memory_slots(bytes)) {
        virtio::MappedMemory mapped =
            TRY(virtio::MappedMemory::map(memory.file.get(), slot.file_offset, slot.size));
        regions.push_back({slot.guest_address, std::move(mapped)});
    }
    memory.view = TRY(virtio::GuestMemory::make(std::move(regions)));
    return memory;
}

}  // namespace boxlite::engine::kvm
