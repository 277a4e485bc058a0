// Blocks of the image: who owns them, and file content on its way to them. Private to ext4_*.cc.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/write_behind.h"
#include "disk/ext4_library.h"

namespace boxlite::disk {

struct BlockRun {
    uint64_t start = 0;
    uint64_t count = 0;
};

class BlockStore {
  public:
    // Both must outlive the object.
    BlockStore(int fd, ext2_filsys fs);

    // Between one and `wanted` adjacent free blocks, marked as used; in ascending order as long as nothing
    // wraps around. kResourceExhausted when the file system is full.
    Result<BlockRun> allocate(uint64_t wanted);
    void release(BlockRun run);

    // Writes whole blocks. Small neighbouring writes are gathered into large ones, so the file is complete
    // only after finish().
    Result<void> write(uint64_t start, std::span<const uint8_t> data);
    // Also gives the host back what released blocks had occupied.
    Result<void> finish();

  private:
    Result<void> flush();
    Result<void> write_now(uint64_t start, std::span<const uint8_t> data);
    void punch_released();

    int fd_;
    ext2_filsys fs_;
    uint64_t cursor_;
    std::vector<uint8_t> pending_;
    uint64_t pending_start_ = 0;  // block
    std::vector<BlockRun> released_;
    base::WriteBehind write_behind_;
};

}  // namespace boxlite::disk
