// Role: the network process of a box. Sockets of the internet and pairs, no files, no processes.
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "jail/seccomp_builder.h"

namespace boxlite::jail {

Result<SeccompProgram> netd_policy() {
    SeccompBuilder policy;
    policy.allow({
        "read",          "readv",         "write",          "writev",       "close",
        "dup3",          "bind",          "listen",         "accept",       "accept4",
        "connect",       "getsockname",   "getpeername",    "getsockopt",   "setsockopt",
        "shutdown",      "sendto",        "recvfrom",       "sendmsg",      "recvmsg",
        "sendmmsg",      "recvmmsg",      "epoll_ctl",      "epoll_wait",   "epoll_pwait",
        "epoll_create1", "poll",          "ppoll",          "mmap",         "munmap",
        "mprotect",      "mremap",        "madvise",        "brk",          "futex",
        "getrandom",     "clock_gettime", "gettimeofday",   "clock_getres", "exit",
        "exit_group",    "rt_sigaction",  "rt_sigprocmask", "rt_sigreturn", "restart_syscall",
        "getpid",        "gettid",        "getuid",         "geteuid",      "getgid",
        "getegid",       "sched_yield",   "fstat",
    });
    policy.allow_values("socket", 0, {AF_INET, AF_INET6});
    policy.allow_values("socketpair", 0, {AF_UNIX});
    policy.allow_values("fcntl", 1, {F_GETFL, F_SETFL, F_GETFD, F_SETFD});
    policy.allow_values("ioctl", 1, {FIONREAD, FIONBIO});
    return policy.build();
}

}  // namespace boxlite::jail
