// The box's disk: found, mounted, grown, and left clean at the end.
#pragma once

#include <cstdint>
#include <string>

#include "base/fd.h"

namespace boxlite::agent {

// The block device number of the virtio-blk disk with that serial. `sys_block` is /sys/block.
// kNotFound when there is none.
Result<uint64_t> find_disk(const std::string& serial, const std::string& sys_block);

// Mounts the ext4 file system on block device `device` at `target`, which is made, and grows it to
// `disk_bytes` when it is smaller and the device is large enough.
Result<void> mount_disk(uint64_t device, const std::string& target, uint64_t disk_bytes);

// From freeze to thaw everything that was written is on the disk, and writers wait.
Result<void> freeze_disk(const std::string& target);
Result<void> thaw_disk(const std::string& target);

// Unmounts it. When somebody still holds it, it is synced and frozen instead: clean, and safe to switch off.
Result<void> leave_disk(const std::string& target);

}  // namespace boxlite::agent
