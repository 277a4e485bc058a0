// The machine's memory, seen by the guest around the hole for devices. At first it is a memfd of its own.
// Once it was frozen for others, the machine goes on with private copies of the pages that it writes to, over
// the layers that they all share.
#pragma once

#include <vector>

#include "engine/machine_snapshot.h"
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

// Each is a descriptor that is passed on; more become one again.
inline constexpr size_t kMaxLayers = 24;
Result<std::vector<MemoryLayer>> duplicate(const std::vector<MemoryLayer>& layers);

class MachineMemory {
  public:
    // `huge_pages`: kUnsupported where the host gives none to shared memory.
    static Result<MachineMemory> make(uint64_t bytes, bool huge_pages = false);
    // On top of a frozen memory of `bytes`. What is not written to is read from the layers when it is needed.
    static Result<MachineMemory> make(uint64_t bytes, std::vector<MemoryLayer> layers);

    const std::shared_ptr<const virtio::GuestMemory>& view() const { return view_; }
    uint64_t bytes() const { return bytes_; }

    // The memory as it is now, as layers that stay so. While nobody touches the memory. What was written
    // since the last time is copied; the first time, nothing is. Once in a while it is all of the memory.
    Result<std::vector<MemoryLayer>> freeze();

  private:
    explicit MachineMemory(uint64_t bytes) : bytes_(bytes) {}
    Result<void> map(int file, bool shared);
    Result<void> lay_over(const MemoryLayer& layer) const;
    Result<std::vector<MemoryRun>> written_runs() const;
    Result<MemoryLayer> copy(std::vector<MemoryRun> runs) const;

    uint64_t bytes_;
    base::Fd pagemap_;
    base::Fd own_file_;  // until the first freeze
    std::vector<MemoryLayer> layers_;
    std::shared_ptr<const virtio::GuestMemory> view_;
};

}  // namespace boxlite::engine::kvm
