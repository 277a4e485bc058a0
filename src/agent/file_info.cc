#include "agent/file_info.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "agent/root.h"
#include "rpc/utf8.h"

namespace boxlite::agent {

namespace {

constexpr int64_t kNsPerSecond = 1'000'000'000;
constexpr mode_t kModeBits = 07777;

// The path that leads to the very file of an O_PATH descriptor, for calls that take no such descriptor.
std::string magic_path(const base::Fd& fd) {
    return fmt::format("/proc/self/fd/{}", fd.get());
}

v1::FileType type_of(mode_t mode) {
    switch (mode & S_IFMT) {
        case S_IFDIR:
            return v1::DIRECTORY;
        case S_IFLNK:
            return v1::SYMLINK;
        case S_IFCHR:
            return v1::CHAR_DEVICE;
        case S_IFBLK:
            return v1::BLOCK_DEVICE;
        case S_IFIFO:
            return v1::FIFO;
        case S_IFSOCK:
            return v1::SOCKET;
        default:
            return v1::REGULAR;
    }
}

Result<void> add_link_target(const base::Fd& fd, v1::FileInfo& info) {
    char target[PATH_MAX];
    const ssize_t n = ::readlinkat(fd.get(), "", target, sizeof target);
    if (n < 0) return file_error("read a symbolic link", errno);
    info.set_link_target(target, static_cast<size_t>(n));
    return {};
}

// Attributes that come and go between the calls are left out.
Result<void> add_xattrs(const base::Fd& fd, v1::FileInfo& info) {
    const std::string path = magic_path(fd);
    char names[XATTR_LIST_MAX];
    const ssize_t length = ::listxattr(path.c_str(), names, sizeof names);
    if (length < 0) {
        if (errno == ENOTSUP || errno == ENODATA) return {};
        return file_error("list extended attributes", errno);
    }
    for (const char* name = names; name < names + length; name += std::strlen(name) + 1) {
        // The message wants text; no known attribute has another name.
        if (!rpc::is_utf8(name)) continue;
        const ssize_t size = ::getxattr(path.c_str(), name, nullptr, 0);
        if (size < 0) continue;
        std::string value(static_cast<size_t>(size), '\0');
        const ssize_t got = ::getxattr(path.c_str(), name, value.data(), value.size());
        if (got < 0) continue;
        value.resize(static_cast<size_t>(got));
        v1::Xattr* xattr = info.add_xattrs();
        xattr->set_name(name);
        xattr->set_value(std::move(value));
    }
    return {};
}

}  // namespace

Result<v1::FileInfo> file_info(const base::Fd& fd, std::string_view name) {
    struct stat status;
    if (::fstatat(fd.get(), "", &status, AT_EMPTY_PATH) < 0)
        return file_error(fmt::format("look at '{}'", name), errno);
    v1::FileInfo info;
    info.set_name(name.data(), name.size());
    info.set_type(type_of(status.st_mode));
    info.set_mode(status.st_mode & kModeBits);
    info.set_uid(status.st_uid);
    info.set_gid(status.st_gid);
    info.set_size(static_cast<uint64_t>(status.st_size));
    info.set_mtime_ns(status.st_mtim.tv_sec * kNsPerSecond + status.st_mtim.tv_nsec);
    info.set_rdev_major(major(status.st_rdev));
    info.set_rdev_minor(minor(status.st_rdev));
    info.set_inode(status.st_ino);
    info.set_links(static_cast<uint32_t>(status.st_nlink));
    if (info.type() == v1::SYMLINK) TRY(add_link_target(fd, info));
    TRY(add_xattrs(fd, info));
    return info;
}

Result<void> apply_attributes(const base::Fd& fd, const v1::FileInfo& attributes) {
    const std::string path = magic_path(fd);
    if (::fchownat(fd.get(), "", attributes.uid(), attributes.gid(), AT_EMPTY_PATH) < 0)
        return file_error(fmt::format("give it to user {} and group {}", attributes.uid(), attributes.gid()),
                          errno);
    if (attributes.type() != v1::SYMLINK && ::chmod(path.c_str(), attributes.mode() & kModeBits) < 0)
        return file_error(fmt::format("set its mode to {:o}", attributes.mode() & kModeBits), errno);
    for (const v1::Xattr& xattr : attributes.xattrs())
        if (::setxattr(path.c_str(), xattr.name().c_str(), xattr.value().data(), xattr.value().size(), 0) < 0)
            return file_error(fmt::format("set its extended attribute '{}'", xattr.name()), errno);
    if (attributes.mtime_ns() != 0) {
        int64_t seconds = attributes.mtime_ns() / kNsPerSecond;
        int64_t nanoseconds = attributes.mtime_ns() % kNsPerSecond;
        if (nanoseconds < 0) {
            --seconds;
            nanoseconds += kNsPerSecond;
        }
        const timespec times[2] = {{.tv_sec = 0, .tv_nsec = UTIME_OMIT},
                                   {.tv_sec = seconds, .tv_nsec = nanoseconds}};
        if (::utimensat(AT_FDCWD, path.c_str(), times, 0) < 0)
            return file_error("set its modification time", errno);
    }
    return {};
}

}  // namespace boxlite::agent
