// Putting a kernel into the machine's memory and describing the machine to it, by the x86/HVM direct boot
// ABI ("PVH", Xen's docs/misc/pvh.pandoc).
#pragma once

#include <string>

#include "virtio/guest_memory.h"

namespace boxlite::engine::kvm {

struct BootImage {
    base::Fd kernel;     // an ELF executable with a PVH entry point
    base::Fd initramfs;  // a cpio archive, or none
    std::string command_line;
    uint64_t memory_bytes = 0;
    uint32_t cpus = 1;
};

// What the boot processor starts with: 32-bit protected mode, flat segments, no paging.
struct BootState {
    uint64_t entry;
    uint64_t start_info;  // goes to ebx
};

// kEngine when the kernel is not one for this machine or does not fit; kInvalidArgument for a command line
// that is too long.
Result<BootState> load_boot_image(const virtio::GuestMemory& memory, const BootImage& image);

// The kernel's arguments for `devices` virtio devices.
std::string command_line(size_t devices);

}  // namespace boxlite::engine::kvm
