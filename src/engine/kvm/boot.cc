#include "engine/kvm/boot.h"

#include <elf.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "engine/kvm/layout.h"
#include "engine/kvm/memory.h"
#include "engine/kvm/mp_table.h"
#include "virtio/mmio/registers.h"

namespace boxlite::engine::kvm {

namespace {

constexpr uint64_t kPage = 0x1000;
constexpr size_t kMaxProgramHeaders = 64;
constexpr size_t kMaxNotes = 64 << 10;
constexpr uint32_t kNotePhys32Entry = 18;  // XEN_ELFNOTE_PHYS32_ENTRY

// The structures of Xen's public/arch-x86/hvm/start_info.h.
struct StartInfo {
    uint32_t magic = 0x336ec578;
    uint32_t version = 1;
    uint32_t flags = 0;
    uint32_t module_count = 0;
    uint64_t module_list = 0;
    uint64_t command_line = 0;
    uint64_t rsdp = 0;
    uint64_t memory_map = 0;
    uint32_t memory_map_count = 0;
    uint32_t reserved = 0;
};
static_assert(sizeof(StartInfo) == 56);

struct Module {
    uint64_t address = 0;
    uint64_t size = 0;
    uint64_t command_line = 0;
    uint64_t reserved = 0;
};

struct MapEntry {
    uint64_t address;
    uint64_t size;
    uint32_t type;
    uint32_t reserved;
};
static_assert(sizeof(MapEntry) == 24);

Error not_a_kernel(const char* reason) {
    return base::make_error(ErrorCode::kEngine,
                            "the kernel cannot be started by the kvm engine: {}; build one with "
                            "guest/kernel/build.sh x86_64",
                            reason);
}

// Straight from the file into the guest's memory.
Result<void> load(const virtio::GuestMemory& memory, int fd, uint64_t offset, uint64_t address,
                  uint64_t size) {
    if (size == 0) return {};
    const iovec range = memory.range_for_io(address, size);
    if (!range.iov_base)
        return base::make_error(ErrorCode::kEngine,
                                "{} bytes at {:#x} do not fit into the machine's memory; give it more", size,
                                address);
    return base::pread_exact(fd, {static_cast<uint8_t*>(range.iov_base), size}, offset);
}

template <typename T>
Result<void> put(const virtio::GuestMemory& memory, uint64_t address, const T& value) {
    if (!memory.write_value(address, value))
        return base::make_error(ErrorCode::kEngine, "the machine has no memory at {:#x}", address);
    return {};
}

// The entry point that the notes of `segment` name, 0 when they name none.
Result<uint64_t> entry_in_notes(int fd, const Elf64_Phdr& segment) {
    if (segment.p_filesz > kMaxNotes) return not_a_kernel("its notes are too large");
    base::Bytes notes(segment.p_filesz);
    TRY(base::pread_exact(fd, notes, segment.p_offset));
    const auto padded = [](uint64_t n) { return (n + 3) & ~uint64_t{3}; };
    for (uint64_t at = 0; at + sizeof(Elf64_Nhdr) <= notes.size();) {
        Elf64_Nhdr note;
        std::memcpy(&note, &notes[at], sizeof note);
        const uint64_t name = at + sizeof note, value = name + padded(note.n_namesz);
        at = value + padded(note.n_descsz);
        if (at > padded(notes.size())) break;
        if (note.n_type != kNotePhys32Entry || note.n_namesz != 4 || std::memcmp(&notes[name], "Xen", 4) != 0)
            continue;
        if (note.n_descsz == 4 && value + 4 <= notes.size()) return base::load_le<uint32_t>(&notes[value]);
        if (note.n_descsz == 8 && value + 8 <= notes.size()) return base::load_le<uint64_t>(&notes[value]);
    }
    return 0;
}

struct LoadedKernel {
    uint64_t entry = 0;
    uint64_t end = 0;  // first address after it
};

Result<LoadedKernel> load_kernel(const virtio::GuestMemory& memory, int fd) {
    Elf64_Ehdr header;
    TRY_CONTEXT(base::pread_exact(fd, {reinterpret_cast<uint8_t*>(&header), sizeof header}, 0),
                "read the kernel");
    if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
        header.e_machine != EM_X86_64 || header.e_phentsize != sizeof(Elf64_Phdr) ||
        header.e_phnum > kMaxProgramHeaders)
        return not_a_kernel("it is not an ELF executable for x86_64");
    std::vector<Elf64_Phdr> segments(header.e_phnum);
    TRY(base::pread_exact(fd,
                          {reinterpret_cast<uint8_t*>(segments.data()), segments.size() * sizeof(Elf64_Phdr)},
                          header.e_phoff));
    LoadedKernel kernel;
    for (const Elf64_Phdr& segment : segments) {
        if (segment.p_type == PT_NOTE && kernel.entry == 0) kernel.entry = TRY(entry_in_notes(fd, segment));
        if (segment.p_type != PT_LOAD) continue;
        uint64_t end;
        if (segment.p_paddr < kHighMemory || !base::checked_add(segment.p_paddr, segment.p_memsz, &end) ||
            segment.p_filesz > segment.p_memsz)
            return not_a_kernel("a segment of it is out of place");
        TRY_CONTEXT(load(memory, fd, segment.p_offset, segment.p_paddr, segment.p_filesz), "load the kernel");
        kernel.end = std::max(kernel.end, end);
    }
    if (kernel.entry == 0) return not_a_kernel("it has no PVH entry point");
    return kernel;
}

// At the end of the memory below the hole.
Result<Module> load_initramfs(const virtio::GuestMemory& memory, const BootImage& image,
                              const LoadedKernel& kernel) {
    struct stat st;
    if (::fstat(image.initramfs.get(), &st) < 0)
        return base::errno_error(ErrorCode::kEngine, "look at the initramfs");
    Module module;
    module.size = static_cast<uint64_t>(st.st_size);
    const uint64_t top = std::min(image.memory_bytes, kHoleStart);
    if (module.size > top || ((top - module.size) & ~(kPage - 1)) < kernel.end)
        return base::make_error(ErrorCode::kEngine,
                                "kernel and initramfs need more than the {} MiB that the machine has; give "
                                "it more memory",
                                image.memory_bytes >> 20);
    module.address = (top - module.size) & ~(kPage - 1);
    TRY_CONTEXT(load(memory, image.initramfs.get(), 0, module.address, module.size), "load the initramfs");
    return module;
}

}  // namespace

Result<BootState> load_boot_image(const virtio::GuestMemory& memory, const BootImage& image) {
    if (image.command_line.size() >= kCommandLineMax)
        return base::make_error(ErrorCode::kInvalidArgument,
                                "the kernel's command line of {} bytes is longer than {}; use fewer devices",
                                image.command_line.size(), kCommandLineMax - 1);
    const LoadedKernel kernel = TRY(load_kernel(memory, image.kernel.get()));
    StartInfo info;
    if (image.initramfs.valid()) {
        TRY(put(memory, kModuleList, TRY(load_initramfs(memory, image, kernel))));
        info.module_count = 1;
        info.module_list = kModuleList;
    }
    uint64_t at = kMemoryMap;
    for (const MemoryRange& range : memory_map(image.memory_bytes)) {
        TRY(put(memory, at, MapEntry{range.address, range.size, range.type, 0}));
        at += sizeof(MapEntry);
        ++info.memory_map_count;
    }
    info.memory_map = kMemoryMap;
    info.command_line = kCommandLine;
    TRY(put(memory, kStartInfo, info));
    const base::Bytes processors = make_mp_table(kMpTable, image.cpus);
    const std::string& line = image.command_line;
    if (!memory.write(kMpTable, processors) ||
        !memory.write(kCommandLine, {reinterpret_cast<const uint8_t*>(line.c_str()), line.size() + 1}))
        return base::make_error(ErrorCode::kEngine, "the machine has no memory below 1 MiB");
    return BootState{kernel.entry, kStartInfo};
}

std::string command_line(size_t devices) {
    std::string line =
        // Quiet first: the early console prints what there is so far when it is named, two exits a letter.
        "quiet console=hvc0 earlyprintk=ttyS0 rdinit=/init "
        // A panic restarts the machine at once and leaves the flag of a warm restart behind.
        "panic=-1 reboot=panic_warm,k";
    for (size_t i = 0; i < devices; ++i)
        line += fmt::format(" virtio_mmio.device=4K@{:#x}:{}", kMmioBase + i * virtio::mmio::kPageSize,
                            kFirstPin + i);
    return line;
}

}  // namespace boxlite::engine::kvm
