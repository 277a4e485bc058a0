#include "agent/disk.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <charconv>
#include <memory>

#include "agent/small_file.h"
#include "base/bytes.h"

// EXT4_IOC_RESIZE_FS; no installed header has it. linux/Documentation/filesystems/ext4/
#define BOXLITE_EXT4_IOC_RESIZE_FS _IOW('f', 16, uint64_t)

namespace boxlite::agent {

namespace {

constexpr const char* kNode = "/dev/root";
// No background writes to tables that are not used yet: an idle box stays idle and its disk small.
constexpr const char* kOptions = "errors=remount-ro,noinit_itable";

// Of the ext4 superblock: https://docs.kernel.org/filesystems/ext4/globals.html
constexpr off_t kSuperblock = 1024;
constexpr size_t kBlocksLow = 0x4, kLogBlockSize = 0x18, kMagic = 0x38, kIncompatible = 0x60,
                 kBlocksHigh = 0x150;
constexpr uint16_t kExt4Magic = 0xef53;
constexpr uint32_t k64Bit = 0x80;

struct Geometry {
    uint64_t block_size = 0;
    uint64_t blocks = 0;
};

Result<Geometry> read_geometry(const base::Fd& device) {
    uint8_t superblock[1024];
    TRY(base::pread_exact(device.get(), superblock, kSuperblock));
    if (base::load_le<uint16_t>(superblock + kMagic) != kExt4Magic)
        return base::make_error(ErrorCode::kStorage, "the box's disk holds no ext4 file system");
    const uint32_t shift = base::load_le<uint32_t>(superblock + kLogBlockSize);
    if (shift > 6) return base::make_error(ErrorCode::kStorage, "the box's disk has a damaged superblock");
    Geometry geometry{.block_size = uint64_t{1024} << shift,
                      .blocks = base::load_le<uint32_t>(superblock + kBlocksLow)};
    if (base::load_le<uint32_t>(superblock + kIncompatible) & k64Bit)
        geometry.blocks |= uint64_t{base::load_le<uint32_t>(superblock + kBlocksHigh)} << 32;
    return geometry;
}

Result<void> grow(const std::string& target, const Geometry& geometry, const base::Fd& device,
                  uint64_t disk_bytes) {
    uint64_t device_bytes = 0;
    if (::ioctl(device.get(), BLKGETSIZE64, &device_bytes) < 0)
        return base::errno_error(ErrorCode::kStorage, "read the size of the box's disk");
    uint64_t blocks = std::min(disk_bytes, device_bytes) / geometry.block_size;
    if (blocks <= geometry.blocks) return {};
    const base::Fd mounted = TRY(base::open_file(target, O_RDONLY | O_DIRECTORY));
    if (::ioctl(mounted.get(), BOXLITE_EXT4_IOC_RESIZE_FS, &blocks) < 0)
        return base::errno_error(ErrorCode::kStorage, "grow the box's file system to {} bytes",
                                 blocks * geometry.block_size);
    return {};
}

Result<uint64_t> parse_device(const std::string& text) {
    unsigned major = 0;
    unsigned minor = 0;
    const char* end = text.data() + text.size();
    const auto first = std::from_chars(text.data(), end, major);
    if (first.ec == std::errc() && first.ptr < end && *first.ptr == ':' &&
        std::from_chars(first.ptr + 1, end, minor).ec == std::errc())
        return uint64_t{makedev(major, minor)};
    return base::make_error(ErrorCode::kInternal, "'{}' is not a device number", text);
}

}  // namespace

Result<uint64_t> find_disk(const std::string& serial, const std::string& sys_block) {
    const std::unique_ptr<DIR, int (*)(DIR*)> dir(::opendir(sys_block.c_str()), ::closedir);
    if (!dir) return base::errno_error(ErrorCode::kInternal, "read '{}'", sys_block);
    std::string seen;
    while (const dirent* entry = ::readdir(dir.get())) {
        const std::string name = entry->d_name;
        if (!name.starts_with("vd")) continue;
        // The kernel adds no newline to the serial, but may one day.
        std::string found = read_small_file(AT_FDCWD, (sys_block + "/" + name + "/serial").c_str());
        while (found.ends_with('\n')) found.pop_back();
        if (found == serial)
            return parse_device(read_small_file(AT_FDCWD, (sys_block + "/" + name + "/dev").c_str()));
        seen += fmt::format(" {}='{}'", name, found);
    }
    return base::make_error(ErrorCode::kNotFound, "the machine has no disk with the serial '{}'; it has:{}",
                            serial, seen.empty() ? " none" : seen);
}

Result<void> mount_disk(uint64_t device, const std::string& target, uint64_t disk_bytes) {
    ::unlink(kNode);
    if (::mknod(kNode, S_IFBLK | 0600, device) < 0)
        return base::errno_error(ErrorCode::kInternal, "make a node for the box's disk");
    const base::Fd fd = TRY(base::open_file(kNode, O_RDONLY));
    const Geometry geometry = TRY(read_geometry(fd));
    if (::mkdir(target.c_str(), 0700) < 0 && errno != EEXIST)
        return base::errno_error(ErrorCode::kInternal, "make '{}'", target);
    if (::mount(kNode, target.c_str(), "ext4", MS_RELATIME, kOptions) < 0)
        return base::errno_error(ErrorCode::kStorage, "mount the box's disk");
    return grow(target, geometry, fd, disk_bytes);
}

static Result<void> control_disk(const std::string& target, unsigned long request, const char* what) {
    const base::Fd fd = TRY(base::open_file(target, O_RDONLY | O_DIRECTORY));
    if (::ioctl(fd.get(), request, 0) < 0) return base::errno_error(ErrorCode::kStorage, "{}", what);
    return {};
}

Result<void> freeze_disk(const std::string& target) {
    return control_disk(target, FIFREEZE, "freeze the box's disk");
}

Result<void> thaw_disk(const std::string& target) {
    return control_disk(target, FITHAW, "thaw the box's disk");
}

Result<void> leave_disk(const std::string& target) {
    if (::umount2(target.c_str(), 0) == 0 || errno == EINVAL || errno == ENOENT) return {};
    const base::Fd fd = TRY(base::open_file(target, O_RDONLY | O_DIRECTORY));
    if (::syncfs(fd.get()) < 0 || ::ioctl(fd.get(), FIFREEZE, 0) < 0)
        return base::errno_error(ErrorCode::kStorage, "leave the box's disk clean");
    return {};
}

}  // namespace boxlite::agent
