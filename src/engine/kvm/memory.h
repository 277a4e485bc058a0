// The machine's memory: one memfd, seen by the guest around the hole for devices.
#pragma once

#include <vector>

#include "virtio/guest_memory.h"

namespace boxlite::engine::kvm {

struct MemorySlot {
    uint64_t guest_address;
    uint64_t size;
    uint64_t file_offset;
};

// Where `bytes` of memory are in the guest's address space.
std::vector<MemorySlot> memory_slots(uint64_t bytes);

// An entry of the memory map that the kernel is started with.
struct MemoryRange {
    uint64_t address;
    uint64_t size;
    uint32_t type;  // as in an E820 map
};
inline constexpr uint32_t kUsableMemory = 1;
std::vector<MemoryRange> memory_map(uint64_t bytes);

struct MachineMemory {
    base::Fd file;
    std::shared_ptr<const virtio::GuestMemory> view;
};
Result<MachineMemory> make_memory(uint64_t bytes);

}  // namespace boxlite::engine::kvm
