#include "agent/rootfs.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "agent/root.h"
#include "base/bytes.h"
#include "base/fd.h"

namespace boxlite::agent {

namespace {

constexpr unsigned long kQuiet = MS_NOSUID | MS_NODEV | MS_NOEXEC;
constexpr uint64_t kDefaultShm = uint64_t{64} << 20;

Result<void> mount_at(const char* type, const char* target, unsigned long flags, const char* options) {
    if (::mount(type, target, type, flags, options) == 0) return {};
    if (errno == ENOENT && ::mkdir(target, 0755) == 0 && ::mount(type, target, type, flags, options) == 0)
        return {};
    return base::errno_error(ErrorCode::kInternal, "mount {} on the container's {}", type, target);
}

struct Device {
    const char* path;
    unsigned major;
    unsigned minor;
};
constexpr Device kDevices[] = {
    {"/dev/null", 1, 3},   {"/dev/zero", 1, 5},    {"/dev/full", 1, 7},
    {"/dev/random", 1, 8}, {"/dev/urandom", 1, 9}, {"/dev/tty", 5, 0},
};
struct Link {
    const char* path;
    const char* target;
};
constexpr Link kLinks[] = {
    {"/dev/ptmx", "pts/ptmx"},          {"/dev/fd", "/proc/self/fd"},       {"/dev/stdin", "/proc/self/fd/0"},
    {"/dev/stdout", "/proc/self/fd/1"}, {"/dev/stderr", "/proc/self/fd/2"},
};

Result<void> make_devices() {
    TRY(mount_at("tmpfs", "/dev", MS_NOSUID | MS_STRICTATIME, "mode=755,size=65536k"));
    for (const Device& device : kDevices)
        if (::mknod(device.path, S_IFCHR | 0666, makedev(device.major, device.minor)) < 0)
            return base::errno_error(ErrorCode::kInternal, "make the container's {}", device.path);
    return {};
}

// What a privileged container finds in /dev: every device of the machine.
Result<void> show_devices() {
    return mount_at("devtmpfs", "/dev", MS_NOSUID, "mode=755");
}

Result<void> fill_dev(const v1::ContainerSpec& spec) {
    TRY(spec.privileged() ? show_devices() : make_devices());
    for (const Link& link : kLinks) {
        // devtmpfs is the machine's one and has some of these already.
        if (spec.privileged()) ::unlink(link.path);
        if (::symlink(link.target, link.path) < 0)
            return base::errno_error(ErrorCode::kInternal, "make the container's {}", link.path);
    }
    TRY(mount_at("devpts", "/dev/pts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620,gid=5"));
    TRY(mount_at("mqueue", "/dev/mqueue", kQuiet, nullptr));
    return {};
}

Result<void> mount_shm(const v1::ContainerSpec& spec) {
    const std::string options =
        fmt::format("mode=1777,size={}", spec.shm_bytes() ? spec.shm_bytes() : kDefaultShm);
    return mount_at("tmpfs", "/dev/shm", kQuiet, options.c_str());
}

// The existing file that `path` leads to, or a new empty one: something to mount on.
Result<void> make_mount_point(const Root& root, const std::string& path) {
    const auto opened = root.open(path, O_WRONLY | O_CREAT | O_NONBLOCK | O_NOCTTY, 0644);
    if (opened) return {};
    // A directory on the way is missing, perhaps behind a dangling link.
    const Root::Place place = TRY(root.place(path, true));
    char target[PATH_MAX];
    const ssize_t length = ::readlinkat(place.dir.get(), place.name.c_str(), target, sizeof target);
    const std::string_view link(target, length > 0 ? static_cast<size_t>(length) : 0);
    const std::string folder = path.substr(0, path.rfind('/') + 1);
    if (!link.empty())
        TRY(root.place(link.starts_with('/') ? std::string(link) : folder + std::string(link), true));
    TRY(root.open(path, O_WRONLY | O_CREAT | O_NONBLOCK | O_NOCTTY, 0644));
    return {};
}

struct EtcFile {
    const char* name;
    std::string text;
};

// Puts files of ours over those in /etc. They live in a small tmpfs that is mounted only for as long as it
// takes: the single files keep it alive.
Result<void> cover_etc_files(const Root& root, const std::vector<EtcFile>& files) {
    if (files.empty()) return {};
    constexpr const char* kWorkshop = "/dev/shm";  // an empty directory until mount_shm()
    TRY(mount_at("tmpfs", kWorkshop, MS_NOSUID | MS_NODEV, "mode=755,size=1m"));
    for (const EtcFile& file : files) {
        const std::string source = fmt::format("{}/{}", kWorkshop, file.name);
        const std::string target = fmt::format("/etc/{}", file.name);
        {
            const base::Fd fd = TRY(base::open_file(source, O_WRONLY | O_CREAT | O_EXCL, 0644));
            TRY(base::write_all(fd.get(), base::as_bytes(file.text)));
        }
        if (::mount(source.c_str(), target.c_str(), nullptr, MS_BIND, nullptr) == 0) continue;
        if (errno == ENOENT) {
            TRY_CONTEXT(make_mount_point(root, target), "cannot make a place for the container's " + target);
            if (::mount(source.c_str(), target.c_str(), nullptr, MS_BIND, nullptr) == 0) continue;
        }
        return base::errno_error(ErrorCode::kInternal, "cover the container's {}", target);
    }
    if (::umount2(kWorkshop, MNT_DETACH) < 0)
        return base::errno_error(ErrorCode::kInternal, "unmount {}", kWorkshop);
    return {};
}

}  // namespace

std::string hosts_file(const v1::ContainerSpec& spec) {
    std::string text = "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n";
    for (const v1::HostEntry& entry : spec.hosts())
        text += fmt::format("{}\t{}\n", entry.address(), entry.name());
    if (!spec.hostname().empty())
        text +=
            fmt::format("{}\t{}\n", spec.address().empty() ? "127.0.1.1" : spec.address(), spec.hostname());
    return text;
}

std::string resolver_file(const v1::ContainerSpec& spec) {
    std::string text;
    for (const std::string& server : spec.dns_servers()) text += fmt::format("nameserver {}\n", server);
    if (spec.dns_search_size() > 0) {
        text += "search";
        for (const std::string& domain : spec.dns_search()) text += " " + domain;
        text += "\n";
    }
    return text;
}

Result<void> enter_rootfs(const std::string& root, const v1::ContainerSpec& spec) {
    // The initramfs cannot be pivoted away from: the new root is moved over it instead, and nothing below it
    // can be reached, since ".." of the topmost root is itself.
    if (::chdir(root.c_str()) < 0 || ::mount(".", "/", nullptr, MS_MOVE, nullptr) < 0 || ::chroot(".") < 0 ||
        ::chdir("/") < 0)
        return base::errno_error(ErrorCode::kInternal, "make '{}' the container's root", root);
    const Root top(TRY(base::open_file("/", O_PATH | O_DIRECTORY)));
    TRY(fill_dev(spec));
    if (::mkdir("/dev/shm", 0755) < 0 && errno != EEXIST)
        return base::errno_error(ErrorCode::kInternal, "make the container's /dev/shm");
    std::vector<EtcFile> files;
    if (!spec.hostname().empty()) files.push_back({"hostname", spec.hostname() + "\n"});
    if (!spec.hostname().empty() || spec.hosts_size() > 0) files.push_back({"hosts", hosts_file(spec)});
    if (spec.dns_servers_size() > 0) files.push_back({"resolv.conf", resolver_file(spec)});
    TRY(cover_etc_files(top, files));
    TRY(mount_shm(spec));
    TRY(mount_at("sysfs", "/sys", spec.privileged() ? kQuiet : kQuiet | MS_RDONLY, nullptr));
    if (::mkdir("/proc", 0755) < 0 && errno != EEXIST)
        return base::errno_error(ErrorCode::kInternal, "make the container's /proc");
    return {};
}

}  // namespace boxlite::agent
