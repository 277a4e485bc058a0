#include "disk/ext4_format.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "disk/ext4_io.h"

namespace boxlite::disk {

namespace {

constexpr uint64_t kMinSize = uint64_t{16} << 20;
constexpr uint64_t kMaxSize = uint64_t{8} << 40;
constexpr uint64_t kBytesPerInode = 8192;
// Room for the descriptors of groups added by a resize while mounted: 64 blocks are 512 GiB more. Beyond that
// the kernel goes on with meta_bg.
constexpr uint16_t kReservedDescriptorBlocks = 64;

uint32_t journal_blocks(uint64_t blocks) {
    if (blocks < (uint64_t{256} << 20) / kExt4BlockSize) return 1024;  // the least that jbd2 takes: 4 MiB
    if (blocks < (uint64_t{2} << 30) / kExt4BlockSize) return 4096;
    return 8192;  // 32 MiB
}

ext2_super_block parameters(const Ext4Options& options) {
    ext2_super_block super{};
    super.s_rev_level = EXT2_DYNAMIC_REV;
    super.s_log_block_size = 2;
    super.s_log_cluster_size = 2;
    super.s_inode_size = kExt4InodeSize;
    super.s_log_groups_per_flex = 4;
    super.s_errors = EXT2_ERRORS_CONTINUE;
    ext2fs_set_feature_xattr(&super);
    ext2fs_set_feature_dir_index(&super);
    ext2fs_set_feature_resize_inode(&super);
    ext2fs_set_feature_filetype(&super);
    ext2fs_set_feature_extents(&super);
    ext2fs_set_feature_64bit(&super);
    ext2fs_set_feature_flex_bg(&super);
    ext2fs_set_feature_sparse_super(&super);
    ext2fs_set_feature_large_file(&super);
    ext2fs_set_feature_huge_file(&super);
    ext2fs_set_feature_dir_nlink(&super);
    ext2fs_set_feature_extra_isize(&super);
    ext2fs_set_feature_metadata_csum(&super);
    const uint64_t blocks = options.size / kExt4BlockSize;
    ext2fs_blocks_count_set(&super, blocks);
    super.s_inodes_count =
        static_cast<uint32_t>(std::min<uint64_t>(options.size / kBytesPerInode, uint64_t{1} << 31));
    super.s_reserved_gdt_blocks = kReservedDescriptorBlocks;
    return super;
}

// Everything that libext2fs would take from the clock or the random number generator.
void set_identity(ext2_filsys fs, const Ext4Options& options) {
    ext2_super_block& super = *fs->super;
    super.s_checksum_type = EXT2_CRC32C_CHKSUM;
    const auto now = static_cast<uint32_t>(options.timestamp);
    fs->now = now;
    super.s_mkfs_time = super.s_lastcheck = super.s_wtime = now;
    std::copy(options.uuid.begin(), options.uuid.end(), super.s_uuid);
    std::memcpy(super.s_hash_seed, options.hash_seed.data(), sizeof super.s_hash_seed);
    options.label.copy(reinterpret_cast<char*>(super.s_volume_name), sizeof super.s_volume_name);
    ext2fs_init_csum_seed(fs);
}

void set_policy(ext2_filsys fs) {
    ext2_super_block& super = *fs->super;
    super.s_max_mnt_count = -1;
    super.s_checkinterval = 0;
    super.s_default_mount_opts = EXT2_DEFM_XATTR_USER | EXT2_DEFM_ACL;
    super.s_def_hash_version = EXT2_HASH_HALF_MD4;
    super.s_flags &= ~static_cast<uint32_t>(EXT2_FLAGS_SIGNED_HASH);
    super.s_flags |= EXT2_FLAGS_UNSIGNED_HASH;
}

// As the kernel counts them, see ext4_calculate_overhead(): where the two differ, a file system's first mount
// writes the superblock and every copy of it.
void set_overhead(ext2_filsys fs, uint32_t journal) {
    ext2_super_block& super = *fs->super;
    uint32_t overhead = super.s_first_data_block + journal;
    for (dgrp_t group = 0; group < fs->group_desc_count; ++group) {
        overhead += fs->inode_blocks_per_group + 2;  // the two bitmaps
        if (ext2fs_bg_has_super(fs, group))
            overhead += 1 + static_cast<uint32_t>(fs->desc_blocks) + super.s_reserved_gdt_blocks;
    }
    super.s_overhead_clusters = overhead;
}

Result<void> reserve_inodes(ext2_filsys fs) {
    for (ext2_ino_t ino = 1; ino < EXT2_FIRST_INODE(fs->super); ++ino)
        ext2fs_inode_alloc_stats2(fs, ino, +1, ino == EXT2_ROOT_INO);
    ext2fs_mark_ib_dirty(fs);
    return {};
}

}  // namespace

Error ext4_error(ext2_filsys fs, std::string_view what, errcode_t code) {
    if (fs && fs->io && !ext4_io_failure(fs->io).empty())
        return base::make_error(ErrorCode::kStorage, "cannot {}: {}", what, ext4_io_failure(fs->io));
    if (code == EXT2_ET_BLOCK_ALLOC_FAIL || code == EXT2_ET_INODE_ALLOC_FAIL)
        return base::make_error(ErrorCode::kResourceExhausted,
                                "cannot {}: the file system of the image is full; give it a larger disk size",
                                what);
    static const bool messages_loaded = (initialize_ext2_error_table(), true);
    return base::make_error(ErrorCode::kStorage, "cannot {}: {}", what,
                            messages_loaded ? error_message(code) : "");
}

Result<FileSystem> format_ext4(int fd, const Ext4Options& options) {
    if (options.size < kMinSize || options.size > kMaxSize)
        return base::make_error(ErrorCode::kInvalidArgument,
                                "an ext4 image of {} bytes is not possible: choose {} bytes to {} bytes",
                                options.size, kMinSize, kMaxSize);
    if (options.timestamp < 1 || options.timestamp > UINT32_MAX)
        return base::make_error(ErrorCode::kInvalidArgument,
                                "the image's timestamp {} is not between 1 and {}", options.timestamp,
                                UINT32_MAX);
    if (::ftruncate(fd, static_cast<off_t>(options.size)) < 0)
        return base::errno_error(ErrorCode::kStorage, "size the disk image to {} bytes", options.size);

    ext2_super_block super = parameters(options);
    ext2_filsys raw = nullptr;
    EXT4_TRY(
        nullptr, "lay out an ext4 file system",
        ext2fs_initialize(fmt::to_string(fd).c_str(), EXT2_FLAG_64BITS, &super, ext4_io_manager(), &raw));
    FileSystem fs(raw);
    set_identity(raw, options);
    set_policy(raw);
    EXT4_TRY(raw, "place the inode tables", ext2fs_allocate_tables(raw));
    TRY(reserve_inodes(raw));
    EXT4_TRY(raw, "make the resize inode", ext2fs_create_resize_inode(raw));
    ext2fs_journal_params journal{.num_journal_blocks = journal_blocks(ext2fs_blocks_count(raw->super)),
                                  .num_fc_blocks = 0};
    EXT4_TRY(raw, "make the journal",
             ext2fs_add_journal_inode3(raw, &journal, ~0ULL,
                                       EXT2_MKJOURNAL_LAZYINIT | EXT2_MKJOURNAL_NO_MNT_CHECK));
    set_overhead(raw, journal.num_journal_blocks);
    // The file is a hole wherever nothing was written, so the kernel has no inode table left to zero.
    for (dgrp_t group = 0; group < raw->group_desc_count; ++group) {
        ext2fs_bg_flags_set(raw, group, EXT2_BG_INODE_ZEROED);
        ext2fs_group_desc_csum_set(raw, group);
    }
    return fs;
}

}  // namespace boxlite::disk
