// The content of directories: one block of entries, or a hashed tree (htree) over several. Private to
// ext4_*.cc.
#pragma once

#include <cstdint>
#include <vector>

#include "disk/ext4_library.h"
#include "disk/ext4_writer.h"

namespace boxlite::disk {

struct NamedInode {
    std::string_view name;
    Ino ino = 0;
    uint8_t type = 0;  // EXT2_FT_*
};

using DirectoryBlock = std::array<uint8_t, 4096>;

struct DirectoryContent {
    std::vector<DirectoryBlock> blocks;  // checksums still missing: ext2fs_write_dir_block4() adds them
    bool indexed = false;
};

// Encodes "." and "..", then `entries`, whose order matters only without an index.
// Format: "Directory Entries" of the kernel's ext4 documentation, with metadata_csum.
Result<DirectoryContent> encode_directory(ext2_filsys fs, Ino self, Ino parent,
                                          const std::vector<NamedInode>& entries);

}  // namespace boxlite::disk
