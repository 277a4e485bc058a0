// Roles: the threads of a supervisor that guests talk to, each inside what the whole process may do.
#include <linux/kvm.h>
#include <sys/prctl.h>

#include "jail/seccomp_builder.h"

namespace boxlite::jail {

namespace {

// Memory of its own, locks, the time, its log and the removal of old ones.
void allow_any_thread(SeccompBuilder& policy) {
    policy.allow({"mmap",          "munmap",          "mremap",
                  "mprotect",      "madvise",         "brk",
                  "futex",         "sched_yield",     "exit",
                  "exit_group",    "gettid",          "getpid",
                  "clock_gettime", "gettimeofday",    "clock_nanosleep",
                  "rt_sigreturn",  "rt_sigaction",    "rt_sigprocmask",
                  "sigaltstack",   "restart_syscall", "set_robust_list",
                  "rseq",          "getrandom",       "read",
                  "write",         "writev",          "close",
                  "fstat",         "newfstatat",      "openat",
                  "lseek",         "tgkill",          "getdents64",
                  "unlinkat"});
}

}  // namespace

Result<SeccompProgram> vcpu_thread_policy() {
    SeccompBuilder policy(SCMP_ACT_TRAP);
    allow_any_thread(policy);
    policy.allow({"rt_sigtimedwait"});
    // Of what KVM can do: enter the guest, and send its interrupts elsewhere.
    constexpr uint64_t kSetGsiRouting = 0x4008ae6a;
    policy.allow_values("ioctl", 1, {KVM_RUN, kSetGsiRouting});
    return policy.build();
}

Result<SeccompProgram> device_thread_policy() {
    SeccompBuilder policy(SCMP_ACT_TRAP);
    allow_any_thread(policy);
    policy.allow(
        {"readv",        "pread64",  "preadv",     "preadv2",         "pwrite64",       "pwritev",
         "pwritev2",     "fsync",    "fdatasync",  "sync_file_range", "fallocate",      "ftruncate",
         "fcntl",        "dup",      "statx",      "epoll_ctl",       "epoll_wait",     "epoll_pwait",
         "epoll_pwait2", "poll",     "ppoll",      "eventfd2",        "timerfd_create", "timerfd_settime",
         "socketpair",   "recvfrom", "recvmsg",    "recvmmsg",        "sendto",         "sendmsg",
         "sendmmsg",     "shutdown", "getsockopt", "setsockopt",      "prctl"});
    return policy.build();
}

}  // namespace boxlite::jail
