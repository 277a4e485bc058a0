// A kernel for tests: an ELF executable of one segment, with the note that names its PVH entry point.
#pragma once

#include <elf.h>

#include "base/bytes.h"

namespace boxlite::engine::kvm {

inline constexpr uint64_t kTestingLoadAddress = 0x100000;

struct TestingKernelHead {
    Elf64_Ehdr elf{};
    Elf64_Phdr load{};
    Elf64_Phdr note_segment{};
    Elf64_Nhdr note{4, 4, 18};  // XEN_ELFNOTE_PHYS32_ENTRY
    char note_name[4] = {'X', 'e', 'n', 0};
    uint32_t note_entry = kTestingLoadAddress;
};

inline TestingKernelHead testing_kernel_head(uint64_t code_size) {
    TestingKernelHead head;
    std::memcpy(head.elf.e_ident, ELFMAG, SELFMAG);
    head.elf.e_ident[EI_CLASS] = ELFCLASS64;
    head.elf.e_machine = EM_X86_64;
    head.elf.e_phoff = offsetof(TestingKernelHead, load);
    head.elf.e_phentsize = sizeof(Elf64_Phdr);
    head.elf.e_phnum = 2;
    head.load.p_type = PT_LOAD;
    head.load.p_offset = sizeof head;
    head.load.p_paddr = kTestingLoadAddress;
    head.load.p_filesz = head.load.p_memsz = code_size;
    head.note_segment.p_type = PT_NOTE;
    head.note_segment.p_offset = offsetof(TestingKernelHead, note);
    head.note_segment.p_filesz = sizeof head - offsetof(TestingKernelHead, note);
    return head;
}

inline base::Bytes testing_kernel(const TestingKernelHead& head, base::ByteView code) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(&head);
    base::Bytes file(bytes, bytes + sizeof head);
    file.insert(file.end(), code.begin(), code.end());
    return file;
}

inline base::Bytes testing_kernel(base::ByteView code) {
    return testing_kernel(testing_kernel_head(code.size()), code);
}

}  // namespace boxlite::engine::kvm
