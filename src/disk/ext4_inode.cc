#include "disk/ext4_inode.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstring>

#include "base/bytes.h"
#include "disk/ext4_format.h"

namespace boxlite::disk {

namespace {

constexpr uint64_t kMaxExtentBlocks = 32768;
constexpr size_t kExtentsInInode = 4;

struct DiskTime {
    uint32_t seconds;
    uint32_t extra;
};

// Low 32 bits as a signed number, plus two bits of epoch and the nanoseconds ("Inode Timestamps" of the
// kernel's ext4 documentation).
DiskTime disk_time(const FileTime& time) {
    constexpr int64_t kMin = INT32_MIN;
    constexpr int64_t kMax = (int64_t{3} << 32) + INT32_MAX;
    const int64_t seconds = std::clamp(time.seconds, kMin, kMax);
    const auto low = static_cast<uint32_t>(seconds);
    const int64_t epoch = (seconds - static_cast<int32_t>(low)) >> 32;
    return {low, static_cast<uint32_t>(epoch & EXT4_EPOCH_MASK) | time.nanoseconds << EXT4_EPOCH_BITS};
}

// The root of an extent tree that fits the inode. `extents` has at most four.
void fill_extent_root(ext2_inode_large& out, const std::vector<FileExtent>& extents) {
    ext3_extent_header header{};
    header.eh_magic = EXT3_EXT_MAGIC;
    header.eh_max = kExtentsInInode;
    header.eh_entries = static_cast<uint16_t>(extents.size());
    auto* to = reinterpret_cast<uint8_t*>(out.i_block);
    std::memcpy(to, &header, sizeof header);
    for (const FileExtent& extent : extents) {
        to += sizeof header;
        ext3_extent entry{};
        entry.ee_block = static_cast<uint32_t>(extent.logical);
        entry.ee_len = static_cast<uint16_t>(extent.count);
        entry.ee_start = static_cast<uint32_t>(extent.physical);
        entry.ee_start_hi = static_cast<uint16_t>(extent.physical >> 32);
        static_assert(sizeof entry == sizeof header);
        std::memcpy(to, &entry, sizeof entry);
    }
}

Result<void> write_extent_tree(ext2_filsys fs, Ino ino, ext2_inode_large& out,
                               const std::vector<FileExtent>& extents) {
    ext2_extent_handle_t handle = nullptr;
    EXT4_TRY(fs, "open an extent tree", ext2fs_extent_open2(fs, ino, EXT2_INODE(&out), &handle));
    const std::unique_ptr<ext2_extent_handle, void (*)(ext2_extent_handle*)> closer(handle,
                                                                                    ext2fs_extent_free);
    for (const FileExtent& extent : extents) {
        ext2fs_extent entry{.e_pblk = extent.physical,
                            .e_lblk = extent.logical,
                            .e_len = static_cast<uint32_t>(extent.count),
                            .e_flags = 0};
        EXT4_TRY(fs, "extend an extent tree", ext2fs_extent_insert(handle, EXT2_EXTENT_INSERT_AFTER, &entry));
    }
    return {};
}

ext2_inode_large disk_inode(ext2_filsys fs, const Inode& inode) {
    ext2_inode_large out{};
    out.i_mode = static_cast<uint16_t>(inode.mode);
    out.i_uid = static_cast<uint16_t>(inode.uid);
    ext2fs_set_i_uid_high(out, static_cast<uint16_t>(inode.uid >> 16));
    out.i_gid = static_cast<uint16_t>(inode.gid);
    ext2fs_set_i_gid_high(out, static_cast<uint16_t>(inode.gid >> 16));
    out.i_size = static_cast<uint32_t>(inode.size);
    out.i_size_high = static_cast<uint32_t>(inode.size >> 32);
    out.i_links_count = static_cast<uint16_t>(inode.links);
    out.i_extra_isize = sizeof out - EXT2_GOOD_OLD_INODE_SIZE;
    const DiskTime mtime = disk_time(inode.mtime);
    out.i_mtime = mtime.seconds;
    out.i_mtime_extra = mtime.extra;
    const DiskTime atime = disk_time(inode.atime);
    out.i_atime = atime.seconds;
    out.i_atime_extra = atime.extra;
    out.i_ctime = out.i_crtime = static_cast<uint32_t>(fs->now);
    if (inode.indexed) out.i_flags |= EXT2_INDEX_FL;
    return out;
}

bool has_prefix(std::string_view text, std::string_view prefix) {
    return text.substr(0, prefix.size()) == prefix;
}

bool is_acl(std::string_view name) {
    return name == "system.posix_acl_access" || name == "system.posix_acl_default";
}

// Whether libext2fs and the kernel understand `value`: a version and entries of 8 bytes
// (linux/posix_acl_xattr.h).
bool acl_is_well_formed(std::string_view value) {
    if (value.size() < 12 || value.size() % 8 != 4 || base::load_le<uint32_t>(value.data()) != 2)
        return false;
    for (size_t at = 4; at < value.size(); at += 8) {
        const auto tag = base::load_le<uint16_t>(value.data() + at);
        const auto permissions = base::load_le<uint16_t>(value.data() + at + 2);
        if (tag == 0 || tag > 0x20 || (tag & (tag - 1)) != 0 || permissions > 7) return false;
    }
    return true;
}

Result<void> write_xattrs(ext2_filsys fs, Ino ino, const Xattrs& xattrs) {
    ext2_xattr_handle* raw = nullptr;
    EXT4_TRY(fs, "open extended attributes", ext2fs_xattrs_open(fs, ino, &raw));
    const auto close = [](ext2_xattr_handle* handle) { ext2fs_xattrs_close(&handle); };
    const std::unique_ptr<ext2_xattr_handle, decltype(close)> handle(raw, close);
    for (const auto& [name, value] : xattrs) {
        const errcode_t code = ext2fs_xattr_set(raw, name.c_str(), value.data(), value.size());
        if (code == EXT2_ET_EA_NO_SPACE)
            return base::make_error(
                ErrorCode::kInvalidArgument,
                "the extended attributes of one file are larger than ext4's block of {} bytes",
                kExt4BlockSize);
        EXT4_TRY(fs, fmt::format("set extended attribute '{}'", name), code);
    }
    return {};
}

}  // namespace

void Inode::add_extent(FileExtent extent) {
    if (!extents.empty()) {
        FileExtent& last = extents.back();
        if (last.logical + last.count == extent.logical && last.physical + last.count == extent.physical) {
            const uint64_t taken = std::min(extent.count, kMaxExtentBlocks - last.count);
            last.count += taken;
            extent = {extent.logical + taken, extent.physical + taken, extent.count - taken};
        }
    }
    while (extent.count > 0) {
        const uint64_t taken = std::min(extent.count, kMaxExtentBlocks);
        extents.push_back({extent.logical, extent.physical, taken});
        extent = {extent.logical + taken, extent.physical + taken, extent.count - taken};
    }
}

Result<std::unique_ptr<Xattrs>> check_xattrs(const Xattrs& xattrs) {
    std::unique_ptr<Xattrs> kept;
    for (const auto& [name, value] : xattrs) {
        if (!has_prefix(name, "user.") && !has_prefix(name, "trusted.") && !has_prefix(name, "security.") &&
            !is_acl(name))
            continue;
        if (name.size() > kMaxNameBytes || name.back() == '.' || name.find('\0') != std::string::npos)
            return base::make_error(
                ErrorCode::kInvalidArgument,
                "extended attribute name '{}' is not valid: it is empty, longer than {} bytes "
                "or holds a NUL",
                name, kMaxNameBytes);
        if (value.size() > kExt4BlockSize)
            return base::make_error(ErrorCode::kInvalidArgument,
                                    "extended attribute '{}' has {} bytes, ext4 stores at most {}", name,
                                    value.size(), kExt4BlockSize);
        if (is_acl(name) && !acl_is_well_formed(value))
            return base::make_error(ErrorCode::kInvalidArgument, "extended attribute '{}' is not a POSIX ACL",
                                    name);
        if (!kept) kept = std::make_unique<Xattrs>();
        kept->emplace_back(name, value);
    }
    return kept;
}

Result<void> write_inode(ext2_filsys fs, Ino ino, const Inode& inode) {
    ext2_inode_large out = disk_inode(fs, inode);
    uint64_t blocks = 0;
    for (const FileExtent& extent : inode.extents) blocks += extent.count;
    EXT4_TRY(fs, "count the blocks of a file", ext2fs_iblk_set(fs, EXT2_INODE(&out), blocks));

    const bool by_library = inode.extents.size() > kExtentsInInode;
    if (inode.is_fast_symlink()) {
        inode.target->copy(reinterpret_cast<char*>(out.i_block), inode.target->size());
    } else if (S_ISCHR(inode.mode) || S_ISBLK(inode.mode)) {
        const bool old_form = inode.device <= 0xffff;
        out.i_block[old_form ? 0 : 1] = inode.device;
    } else if (S_ISREG(inode.mode) || S_ISDIR(inode.mode) || S_ISLNK(inode.mode)) {
        out.i_flags |= EXT4_EXTENTS_FL;
        fill_extent_root(out, by_library ? std::vector<FileExtent>{} : inode.extents);
    }
    EXT4_TRY(fs, "write an inode", ext2fs_write_inode_full(fs, ino, EXT2_INODE(&out), sizeof out));
    if (by_library) {
        TRY(write_extent_tree(fs, ino, out, inode.extents));
        EXT4_TRY(fs, "write an inode", ext2fs_write_inode_full(fs, ino, EXT2_INODE(&out), sizeof out));
    }
    if (inode.xattrs) TRY(write_xattrs(fs, ino, *inode.xattrs));
    return {};
}

}  // namespace boxlite::disk
