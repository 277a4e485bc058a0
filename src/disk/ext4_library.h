// libext2fs for C++: its headers, and its error numbers as errors. Private to ext4_*.cc.
#pragma once

#include <ext2fs/ext2_fs.h>
#include <ext2fs/ext2fs.h>
#include <ext2fs/ext3_extents.h>

#include <memory>
#include <string_view>

#include "base/result.h"

namespace boxlite::disk {

struct FileSystemCloser {
    void operator()(ext2_filsys fs) const { ext2fs_free(fs); }
};
// Freed without being written; ext2fs_flush2() is what makes it a file system.
using FileSystem = std::unique_ptr<struct_ext2_filsys, FileSystemCloser>;

// What libext2fs failed at. ENOSPC of the host and a full image are told apart.
Error ext4_error(ext2_filsys fs, std::string_view what, errcode_t code);

}  // namespace boxlite::disk

// Returns the error of a libext2fs call from the enclosing function.
#define EXT4_TRY(fs, what, expression)                                               \
    do {                                                                             \
        if (const errcode_t ext4_code_ = (expression); ext4_code_ != 0) [[unlikely]] \
            return ::boxlite::disk::ext4_error(fs, what, ext4_code_);                \
    } while (false)
