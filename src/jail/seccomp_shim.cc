// Role: a box's supervisor once its other processes run. Which files it reaches is Landlock's matter.
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "jail/seccomp_builder.h"

namespace boxlite::jail {

namespace {

void allow_files(SeccompBuilder& policy) {
    policy.allow({
        "read",         "readv",        "pread64",
        "preadv",       "preadv2",      "write",
        "writev",       "pwrite64",     "pwritev",
        "pwritev2",     "open",         "openat",
        "openat2",      "close",        "close_range",
        "lseek",        "stat",         "lstat",
        "fstat",        "newfstatat",   "statx",
        "statfs",       "fstatfs",      "access",
        "faccessat",    "faccessat2",   "getdents64",
        "readlink",     "readlinkat",   "getcwd",
        "mkdir",        "mkdirat",      "rmdir",
        "unlink",       "unlinkat",     "rename",
        "renameat",     "renameat2",    "link",
        "linkat",       "symlink",      "symlinkat",
        "mknod",        "mknodat",      "truncate",
        "ftruncate",    "fallocate",    "fsync",
        "fdatasync",    "syncfs",       "sync_file_range",
        "fadvise64",    "flock",        "chmod",
        "fchmod",       "fchmodat",     "chown",
        "lchown",       "fchown",       "fchownat",
        "utimensat",    "umask",        "copy_file_range",
        "sendfile",     "splice",       "tee",
        "fcntl",        "ioctl",        "dup",
        "dup2",         "dup3",         "setxattr",
        "lsetxattr",    "fsetxattr",    "getxattr",
        "lgetxattr",    "fgetxattr",    "listxattr",
        "llistxattr",   "flistxattr",   "removexattr",
        "lremovexattr", "fremovexattr",
    });
}

void allow_sockets_and_events(SeccompBuilder& policy) {
    policy.allow({
        "socketpair",
        "bind",
        "listen",
        "accept",
        "accept4",
        "connect",
        "getsockname",
        "getpeername",
        "getsockopt",
        "setsockopt",
        "shutdown",
        "sendto",
        "recvfrom",
        "sendmsg",
        "recvmsg",
        "sendmmsg",
        "recvmmsg",
        "pipe",
        "pipe2",
        "eventfd2",
        "signalfd4",
        "timerfd_create",
        "timerfd_settime",
        "timerfd_gettime",
        "epoll_create",
        "epoll_create1",
        "epoll_ctl",
        "epoll_wait",
        "epoll_pwait",
        "epoll_pwait2",
        "poll",
        "ppoll",
        "select",
        "pselect6",
        "inotify_init1",
        "inotify_add_watch",
        "inotify_rm_watch",
    });
    policy.allow_values("socket", 0, {AF_UNIX});
}

void allow_memory_and_threads(SeccompBuilder& policy) {
    policy.allow({
        "mmap",
        "munmap",
        "mprotect",
        "mremap",
        "madvise",
        "mincore",
        "msync",
        "mlock",
        "mlock2",
        "munlock",
        "brk",
        "memfd_create",
        "membarrier",
        "userfaultfd",
        "futex",
        "set_robust_list",
        "get_robust_list",
        "rseq",
        "set_tid_address",
        "arch_prctl",
        "sched_yield",
        "sched_getaffinity",
        "sched_setaffinity",
        "sched_getparam",
        "sched_getscheduler",
        "getcpu",
        "getpriority",
        "setpriority",
        "exit",
        "exit_group",
        "restart_syscall",
        "rt_sigaction",
        "rt_sigprocmask",
        "rt_sigreturn",
        "rt_sigpending",
        "rt_sigsuspend",
        "rt_sigtimedwait",
        "sigaltstack",
        "pidfd_send_signal",
        "wait4",
        "waitid",
    });
    // Its own threads, and what it holds a pidfd of.
    policy.allow_if("tgkill", {SCMP_CMP(0, SCMP_CMP_EQ, static_cast<uint64_t>(::getpid()))});
    // Threads, not processes.
    policy.allow_if("clone", {SCMP_CMP(0, SCMP_CMP_MASKED_EQ, CLONE_THREAD, CLONE_THREAD)});
    policy.fail("clone3", ENOSYS);  // its flags are out of sight; libc falls back to clone
}

void allow_system(SeccompBuilder& policy) {
    // Its threads close themselves in further.
    policy.allow_values("seccomp", 0, {SECCOMP_SET_MODE_FILTER});
    policy.allow({
        "getpid",       "gettid",    "getppid",       "getpgrp",       "getpgid",         "getsid",
        "getuid",       "geteuid",   "getgid",        "getegid",       "getgroups",       "getresuid",
        "getresgid",    "uname",     "sysinfo",       "getrusage",     "times",           "getrlimit",
        "prlimit64",    "getrandom", "clock_gettime", "clock_getres",  "clock_nanosleep", "nanosleep",
        "gettimeofday", "time",      "timer_create",  "timer_settime", "timer_gettime",   "timer_getoverrun",
        "timer_delete", "capget",
    });
    policy.allow_values("prctl", 0,
                        {PR_SET_NAME, PR_GET_NAME, PR_GET_DUMPABLE, PR_GET_NO_NEW_PRIVS, PR_SET_TIMERSLACK,
                         PR_SET_PDEATHSIG, PR_SET_VMA, PR_CAPBSET_READ, PR_GET_SECCOMP});
}

}  // namespace

Result<SeccompProgram> shim_policy(pid_t stoppable_group) {
    SeccompBuilder policy;
    for (const int signal : {SIGSTOP, SIGCONT})
        if (stoppable_group > 0)
            policy.allow_if("kill",
                            {SCMP_CMP(0, SCMP_CMP_MASKED_EQ, 0xffffffff,
                                      static_cast<uint64_t>(static_cast<uint32_t>(-stoppable_group))),
                             SCMP_CMP(1, SCMP_CMP_MASKED_EQ, 0xffffffff, static_cast<uint64_t>(signal))});
    allow_files(policy);
    allow_sockets_and_events(policy);
    allow_memory_and_threads(policy);
    allow_system(policy);
    return policy.build();
}

}  // namespace boxlite::jail
