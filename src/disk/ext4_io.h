// libext2fs's door to the image file: a cache of 4 KiB pages that is written back in long, sorted runs.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>

#include "disk/ext4_library.h"

namespace boxlite::disk {

// To be passed to libext2fs with the decimal number of an open descriptor as the device's name. The
// descriptor stays the caller's and must outlive the file system handle.
io_manager ext4_io_manager();

// The message of the last failed system call on this channel, or "" when none failed: libext2fs carries
// only a number.
const std::string& ext4_io_failure(io_channel channel);

}  // namespace boxlite::disk
