#include "agent/late_mounts.h"

#include <sys/mount.h>

#include <array>
#include <cerrno>
#include <cstddef>

#include "agent/raw.h"

#define NO_SANITIZE __attribute__((no_sanitize("address", "undefined", "thread")))

namespace boxlite::agent {

namespace {

constexpr unsigned long kQuiet = MS_NOSUID | MS_NODEV | MS_NOEXEC;

// As Docker has them.
constexpr std::array kMasked = {
    "/proc/acpi",       "/proc/asound",        "/proc/interrupts",  "/proc/kcore",
    "/proc/keys",       "/proc/latency_stats", "/proc/sched_debug", "/proc/scsi",
    "/proc/timer_list", "/proc/timer_stats",   "/sys/firmware",     "/sys/devices/virtual/powercap",
};
constexpr std::array kReadOnly = {"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"};

NO_SANITIZE long mount(const char* source, const char* target, const char* type, unsigned long flags,
                       const char* data = nullptr) {
    return raw::call(SYS_mount, source, target, type, flags, data);
}

// A file becomes /dev/null, a directory an empty one.
NO_SANITIZE long mask(const char* path) {
    long error = mount("/dev/null", path, nullptr, MS_BIND);
    if (error == -ENOTDIR) error = mount("tmpfs", path, "tmpfs", MS_RDONLY | kQuiet, "size=0");
    return error == -ENOENT ? 0 : error;
}

NO_SANITIZE long make_read_only(const char* path) {
    long error = mount(path, path, nullptr, MS_BIND | MS_REC);
    if (error == 0) error = mount(nullptr, path, nullptr, MS_BIND | MS_REMOUNT | MS_RDONLY | kQuiet);
    return error == -ENOENT ? 0 : error;
}

}  // namespace

NO_SANITIZE long mount_late(bool privileged) {
    if (const long error = mount("proc", "/proc", "proc", kQuiet); error < 0) return error;
    const unsigned long access = privileged ? 0 : MS_RDONLY;
    const long mounted = mount("cgroup", "/sys/fs/cgroup", "cgroup2", kQuiet | access);
    // EBUSY: it is there already, from a PID 1 whose program could not be executed.
    if (mounted < 0 && mounted != -EBUSY) return mounted;
    if (privileged) return 0;
    for (const char* path : kMasked)
        if (const long error = mask(path); error < 0) return error;
    for (const char* path : kReadOnly)
        if (const long error = make_read_only(path); error < 0) return error;
    return 0;
}

}  // namespace boxlite::agent
