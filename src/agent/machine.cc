#include "agent/machine.h"

#include <fcntl.h>
#include <linux/random.h>
#include <linux/vm_sockets.h>
#include <net/if.h>
#include <sys/io.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstddef>
#include <ctime>
#include <memory>

#include "agent/small_file.h"
#include "base/bytes.h"

namespace boxlite::agent {

namespace {

constexpr const char* kCgroups = "/cgroup";
constexpr int64_t kNsPerSecond = 1'000'000'000;
constexpr uint16_t kSleepPort = 0x600;
constexpr uint8_t kSleepOff = 0x34;
constexpr size_t kMinEntropy = 32;
constexpr size_t kMaxEntropy = 512;

struct Mount {
    const char* type;
    const char* target;
    const char* options;
};
constexpr Mount kMounts[] = {
    {"proc", "/proc", nullptr},
    {"sysfs", "/sys", nullptr},
    {"cgroup2", kCgroups, "nsdelegate,memory_recursiveprot"},
};

// As Docker sets them for every container.
struct Sysctl {
    const char* path;
    std::string_view value;
};
constexpr Sysctl kSysctls[] = {
    {"/proc/sys/net/ipv4/ip_unprivileged_port_start", "0"},
    {"/proc/sys/net/ipv4/ping_group_range", "0 2147483647"},
};

void raise_limit(int resource, rlim_t value) {
    const rlimit limit{.rlim_cur = value, .rlim_max = value};
    ::setrlimit(resource, &limit);
}

}  // namespace

Result<void> prepare_machine() {
    for (const Mount& mount : kMounts) {
        ::mkdir(mount.target, 0755);
        if (::mount(mount.type, mount.target, mount.type, MS_NOSUID | MS_NODEV | MS_NOEXEC, mount.options) <
            0)
            return base::errno_error(ErrorCode::kInternal, "mount {}", mount.target);
    }
    raise_limit(RLIMIT_NOFILE, 1048576);
    raise_limit(RLIMIT_NPROC, RLIM_INFINITY);
    raise_limit(RLIMIT_CORE, RLIM_INFINITY);
    for (const Sysctl& sysctl : kSysctls) {
        const base::Fd fd(::open(sysctl.path, O_WRONLY | O_CLOEXEC));
        if (fd.valid()) (void)!::write(fd.get(), sysctl.value.data(), sysctl.value.size());
    }
    return bring_up_loopback();
}

Result<base::Fd> connect_to_host() {
    base::Fd fd(::socket(AF_VSOCK, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!fd.valid()) return base::errno_error(ErrorCode::kPortal, "make a vsock socket");
    sockaddr_vm address{};
    address.svm_family = AF_VSOCK;
    address.svm_cid = VMADDR_CID_HOST;
    address.svm_port = kAgentPort;
    int result;
    do result = ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
    while (result < 0 && errno == EINTR);
    if (result < 0)
        return base::errno_error(ErrorCode::kPortal, "connect to the host on vsock port {}", kAgentPort);
    return fd;
}

Result<void> set_clock(int64_t realtime_ns) {
    const timespec time{.tv_sec = realtime_ns / kNsPerSecond, .tv_nsec = realtime_ns % kNsPerSecond};
    if (realtime_ns < 0 || ::clock_settime(CLOCK_REALTIME, &time) < 0)
        return base::errno_error(ErrorCode::kInvalidArgument, "set the clock to {} ns", realtime_ns);
    return {};
}

Result<void> add_entropy(std::string_view bytes) {
    if (bytes.size() < kMinEntropy || bytes.size() > kMaxEntropy)
        return base::make_error(ErrorCode::kInvalidArgument,
                                "{} bytes of entropy were sent; {} to {} are wanted", bytes.size(),
                                kMinEntropy, kMaxEntropy);
    const base::Fd fd = TRY(base::open_file("/dev/urandom", O_WRONLY));
    alignas(rand_pool_info) char buffer[sizeof(rand_pool_info) + kMaxEntropy];
    auto* info = reinterpret_cast<rand_pool_info*>(buffer);
    info->entropy_count = static_cast<int>(bytes.size() * 8);
    info->buf_size = static_cast<int>(bytes.size());
    std::memcpy(buffer + offsetof(rand_pool_info, buf), bytes.data(), bytes.size());
    const int result = ::ioctl(fd.get(), RNDADDENTROPY, info);
    ::explicit_bzero(buffer, sizeof buffer);
    if (result < 0) return base::errno_error(ErrorCode::kInternal, "feed the random number generator");
    return {};
}

Result<void> reseed() {
    const base::Fd fd = TRY(base::open_file("/dev/urandom", O_WRONLY));
    if (::ioctl(fd.get(), RNDRESEEDCRNG) < 0)
        return base::errno_error(ErrorCode::kInternal, "reseed the random number generator");
    return {};
}

Result<void> bring_up_loopback() {
    const base::Fd fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (!fd.valid()) return base::errno_error(ErrorCode::kInternal, "make a socket");
    ifreq request{};
    std::memcpy(request.ifr_name, "lo", 3);
    request.ifr_flags = IFF_UP | IFF_RUNNING;
    if (::ioctl(fd.get(), SIOCSIFFLAGS, &request) < 0)
        return base::errno_error(ErrorCode::kInternal, "bring up the loopback interface");
    return {};
}

Result<base::Fd> open_cgroups() {
    return base::open_file(kCgroups, O_RDONLY | O_DIRECTORY);
}

v1::GuestStats read_stats(int cgroup, const std::string& disk) {
    constexpr uint64_t kNsPerUs = 1000;
    v1::GuestStats stats;
    stats.set_cpu_ns(number_after(read_small_file(cgroup, "cpu.stat"), "usage_usec ") * kNsPerUs);
    stats.set_memory_bytes(number_after(read_small_file(cgroup, "memory.current"), ""));
    stats.set_processes(number_after(read_small_file(cgroup, "pids.current"), ""));
    stats.set_memory_limit(memory_bytes());
    struct statfs usage;
    if (::statfs(disk.c_str(), &usage) == 0) {
        const auto block = static_cast<uint64_t>(usage.f_bsize);
        stats.set_disk_total_bytes(usage.f_blocks * block);
        stats.set_disk_used_bytes((usage.f_blocks - usage.f_bfree) * block);
    }
    return stats;
}

std::string kernel_release() {
    utsname names;
    return ::uname(&names) == 0 ? names.release : "";
}

uint64_t memory_bytes() {
    struct sysinfo info;
    return ::sysinfo(&info) == 0 ? uint64_t{info.totalram} * info.mem_unit : 0;
}

void power_off() {
    ::sync();
    // A machine of the kvm engine has no ACPI: it is turned off through a port, which others do not have.
    if (::ioperm(kSleepPort, 1, 1) == 0) outb(kSleepOff, kSleepPort);
    ::reboot(RB_POWER_OFF);
    // Not reached by PID 1 of a machine.
    for (;;) ::pause();
}

}  // namespace boxlite::agent
