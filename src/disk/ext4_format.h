// Making an empty ext4 file system. Private to ext4_*.cc.
#pragma once

#include "disk/ext4_library.h"
#include "disk/ext4_writer.h"

namespace boxlite::disk {

inline constexpr uint32_t kExt4BlockSize = 4096;
inline constexpr uint32_t kExt4InodeSize = 256;

// Sizes the file behind `fd` and lays out an ext4 file system on it, in memory until ext2fs_flush2().
// The reserved inodes are in use, the root directory has no content yet.
Result<FileSystem> format_ext4(int fd, const Ext4Options& options);

}  // namespace boxlite::disk
