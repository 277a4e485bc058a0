// Roles: the network processes of a box. No files, no processes; sockets of the internet and pairs, or none
// but those that it has.
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "jail/seccomp_builder.h"

namespace boxlite::jail {

namespace {

// What every process needs that has a loop, sockets and memory.
void allow_common(SeccompBuilder& policy) {
    policy.allow({
        "read",
        "readv",
        "write",
        "writev",
        "close",
        "accept4",
        "getsockname",
        "getpeername",
        "getsockopt",
        "setsockopt",
        "shutdown",
        "sendto",
        "recvfrom",
        "sendmsg",
        "recvmsg",
        "epoll_ctl",
        "epoll_wait",
        "epoll_pwait",
        "timerfd_settime",
        "poll",
        "ppoll",
        "mmap",
        "munmap",
        "mprotect",
        "mremap",
        "madvise",
        "brk",
        "futex",
        "getrandom",
        "clock_gettime",
        "gettimeofday",
        "clock_getres",
        "exit",
        "exit_group",
        "rt_sigaction",
        "rt_sigprocmask",
        "rt_sigreturn",
        "restart_syscall",
        "getpid",
        "gettid",
        "getuid",
        "geteuid",
        "getgid",
        "getegid",
        "sched_yield",
        "fstat",
    });
    policy.allow_values("fcntl", 1, {F_GETFL, F_SETFL, F_GETFD, F_SETFD});
    policy.allow_values("ioctl", 1, {FIONREAD, FIONBIO});
}

}  // namespace

Result<SeccompProgram> netd_policy() {
    SeccompBuilder policy;
    allow_common(policy);
    policy.allow({"dup3", "bind", "listen", "accept", "connect", "sendmmsg", "recvmmsg", "epoll_create1",
                  "timerfd_create"});
    policy.allow_values("socket", 0, {AF_INET, AF_INET6});
    policy.allow_values("socketpair", 0, {AF_UNIX});
    policy.allow_values("fcntl", 1, {F_DUPFD_CLOEXEC});
    return policy.build();
}

Result<SeccompProgram> tlsd_policy() {
    SeccompBuilder policy;
    allow_common(policy);
    return policy.build();
}

}  // namespace boxlite::jail
