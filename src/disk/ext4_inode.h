// One inode in memory and its form on disk. Private to ext4_*.cc.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "disk/ext4_library.h"
#include "disk/ext4_writer.h"

namespace boxlite::disk {

struct FileExtent {
    uint64_t logical = 0;  // first block of the file
    uint64_t physical = 0;
    uint64_t count = 0;
};

struct Inode {
    uint32_t mode = 0;  // 0: free
    uint32_t uid = 0;
    uint32_t gid = 0;
    uint32_t links = 0;
    uint32_t device = 0;  // as i_block[0], or [1] when the old form cannot hold it
    Ino parent = 0;       // of a directory, as is its one entry there
    DirectoryEntry* entry = nullptr;
    bool indexed = false;
    uint64_t size = 0;
    FileTime mtime;
    FileTime atime;
    std::vector<FileExtent> extents;
    std::unique_ptr<DirectoryEntries> entries;
    std::unique_ptr<std::string> target;
    std::unique_ptr<Xattrs> xattrs;

    // Longer targets need a block.
    bool is_fast_symlink() const { return target && target->size() < 60; }
    void add_extent(FileExtent extent);
};

// kInvalidArgument when ext4 cannot hold one of them. Those of other systems, which Linux would not set
// either, are left out.
Result<std::unique_ptr<Xattrs>> check_xattrs(const Xattrs& xattrs);

// Writes the inode to its table, with its extent tree and extended attributes.
Result<void> write_inode(ext2_filsys fs, Ino ino, const Inode& inode);

}  // namespace boxlite::disk
