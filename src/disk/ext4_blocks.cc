#include "disk/ext4_blocks.h"

#include <fcntl.h>

#include <algorithm>

#include "base/fd.h"
#include "disk/ext4_format.h"

namespace boxlite::disk {

namespace {

constexpr size_t kPendingBytes = size_t{1} << 20;
constexpr size_t kDirectBytes = size_t{128} << 10;  // from here on a copy costs more than a system call

}  // namespace

BlockStore::BlockStore(int fd, ext2_filsys fs) : fd_(fd), fs_(fs), cursor_(fs->super->s_first_data_block) {
    pending_.reserve(kPendingBytes);
}

Result<BlockRun> BlockStore::allocate(uint64_t wanted) {
    const uint64_t last = ext2fs_blocks_count(fs_->super) - 1;
    blk64_t start = 0;
    errcode_t code = ENOENT;
    if (cursor_ <= last) code = ext2fs_find_first_zero_block_bitmap2(fs_->block_map, cursor_, last, &start);
    if (code == ENOENT) {
        cursor_ = fs_->super->s_first_data_block;
        code = ext2fs_find_first_zero_block_bitmap2(fs_->block_map, cursor_, last, &start);
    }
    if (code == ENOENT) code = EXT2_ET_BLOCK_ALLOC_FAIL;
    EXT4_TRY(fs_, "allocate blocks", code);

    blk64_t end = std::min<uint64_t>(start + wanted - 1, last);  // last wanted block
    blk64_t used = 0;
    if (ext2fs_find_first_set_block_bitmap2(fs_->block_map, start, end, &used) == 0) end = used - 1;
    const uint64_t count = end - start + 1;
    ext2fs_block_alloc_stats_range(fs_, start, static_cast<blk_t>(count), +1);
    cursor_ = end + 1;
    return BlockRun{start, count};
}

void BlockStore::release(BlockRun run) {
    ext2fs_block_alloc_stats_range(fs_, run.start, static_cast<blk_t>(run.count), -1);
    released_.push_back(run);
}

Result<void> BlockStore::write(uint64_t start, std::span<const uint8_t> data) {
    const bool adjoins = start == pending_start_ + pending_.size() / kExt4BlockSize;
    if (!adjoins || pending_.size() + data.size() > kPendingBytes) TRY(flush());
    if (pending_.empty() && data.size() >= kDirectBytes) return write_now(start, data);
    if (pending_.empty()) pending_start_ = start;
    pending_.insert(pending_.end(), data.begin(), data.end());
    return {};
}

Result<void> BlockStore::flush() {
    if (pending_.empty()) return {};
    TRY(write_now(pending_start_, pending_));
    pending_.clear();
    return {};
}

Result<void> BlockStore::write_now(uint64_t start, std::span<const uint8_t> data) {
    TRY(base::pwrite_all(fd_, data, start * kExt4BlockSize));
    write_behind_.wrote(fd_, data.size());
    return {};
}

void BlockStore::punch_released() {
    std::sort(released_.begin(), released_.end(),
              [](const BlockRun& a, const BlockRun& b) { return a.start < b.start; });
    for (size_t i = 0; i < released_.size();) {
        uint64_t start = released_[i].start;
        uint64_t end = start + released_[i].count;
        for (++i; i < released_.size() && released_[i].start <= end; ++i)
            end = std::max(end, released_[i].start + released_[i].count);
        while (start < end) {  // parts may have been allocated again
            blk64_t used = end;
            if (ext2fs_find_first_set_block_bitmap2(fs_->block_map, start, end - 1, &used) != 0) used = end;
            if (used > start)
                // Saves space only: where the host's file system cannot do it, nothing is lost.
                (void)::fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                  static_cast<off_t>(start * kExt4BlockSize),
                                  static_cast<off_t>((used - start) * kExt4BlockSize));
            if (used == end) break;
            blk64_t free = end;
            if (ext2fs_find_first_zero_block_bitmap2(fs_->block_map, used, end - 1, &free) != 0) free = end;
            start = free;
        }
    }
    released_.clear();
}

Result<void> BlockStore::finish() {
    TRY(flush());
    punch_released();
    return {};
}

}  // namespace boxlite::disk
