#include "jail/walls.h"

#include <linux/capability.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <initializer_list>

namespace boxlite::jail {

namespace {

constexpr int kLastCapability = 63;
constexpr rlim_t kStackBytes = rlim_t{8} << 20;

}  // namespace

int enter_empty_root() {
    constexpr unsigned long kFlags = MS_NOSUID | MS_NODEV | MS_NOEXEC;
    if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) < 0) return -1;
    const char* place = nullptr;
    for (const char* folder : {"/tmp", "/proc", "/dev"})
        if (!place && ::mount("none", folder, "tmpfs", kFlags, "size=4k,nr_inodes=2,mode=555") == 0)
            place = folder;
    if (!place || ::chdir(place) < 0) return -1;
    if (::syscall(SYS_pivot_root, ".", ".") < 0) return -1;
    if (::umount2(".", MNT_DETACH) < 0 || ::chdir("/") < 0) return -1;
    return ::mount(nullptr, "/", nullptr, MS_REMOUNT | MS_RDONLY | kFlags, "size=4k,nr_inodes=2,mode=555");
}

int set_jail_limits(rlim_t max_open_files) {
    // A core size of 1 also keeps the kernel from starting a core dump helper (core(5)).
    const rlimit core{1, 1}, none{0, 0}, files{max_open_files, max_open_files};
    rlimit stack;
    if (::getrlimit(RLIMIT_STACK, &stack) < 0) return -1;
    if (stack.rlim_max == RLIM_INFINITY || stack.rlim_max >= kStackBytes) stack.rlim_cur = kStackBytes;
    if (::setrlimit(RLIMIT_CORE, &core) < 0 || ::setrlimit(RLIMIT_MEMLOCK, &none) < 0) return -1;
    if (::setrlimit(RLIMIT_MSGQUEUE, &none) < 0 || ::setrlimit(RLIMIT_STACK, &stack) < 0) return -1;
    return ::setrlimit(RLIMIT_NOFILE, &files);
}

void drop_bounding_set() {
    for (int capability = 0; capability <= kLastCapability; ++capability)
        (void)::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
}

// System calls and not libc's wrappers, which would signal the threads of our parent.
int change_identity(uid_t uid) {
    if (::syscall(SYS_setgroups, 0, nullptr) < 0) return -1;
    if (::syscall(SYS_setresgid, uid, uid, uid) < 0) return -1;
    return static_cast<int>(::syscall(SYS_setresuid, uid, uid, uid));
}

int drop_capabilities() {
    (void)::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    const __user_cap_data_struct none[2] = {};
    return static_cast<int>(::syscall(SYS_capset, &header, none));
}

}  // namespace boxlite::jail
