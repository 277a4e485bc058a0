// Role: the guest kernel of the uml engine, with the processes in which its guest programs run. The calls
// were found by tracing it in both of its modes and by reading arch/um/os-Linux.
#include <fcntl.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "jail/seccomp_builder.h"

namespace boxlite::jail {

namespace {

constexpr uint64_t kNewNamespaces = 0x7e020000;  // every CLONE_NEW* that clone(2) takes

// Memory, descriptors that it was given or made itself, time.
void allow_plain(SeccompBuilder& policy) {
    policy.allow({
        "mmap",
        "munmap",
        "mprotect",
        "madvise",
        "brk",
        "memfd_create",
        "fallocate",
        "read",
        "readv",
        "pread64",
        "write",
        "writev",
        "pwrite64",
        "lseek",
        "close",
        "close_range",
        "fstat",
        "dup",
        "dup2",
        "dup3",
        "pipe",
        "pipe2",
        "eventfd2",
        "sendmsg",
        "recvmsg",
        "shutdown",
        "epoll_create",
        "epoll_create1",
        "epoll_ctl",
        "epoll_wait",
        "epoll_pwait",
        "poll",
        "ppoll",
        "clock_gettime",
        "clock_getres",
        "gettimeofday",
        "time",
        "clock_nanosleep",
        "nanosleep",
        "timer_create",
        "timer_settime",
        "timer_gettime",
        "timer_getoverrun",
        "timer_delete",
        "getrandom",
        "uname",
    });
    policy.allow_values("socketpair", 0, {AF_UNIX});
    policy.allow_values("fcntl", 1,
                        {F_GETFL, F_SETFL, F_GETFD, F_SETFD, F_DUPFD, F_DUPFD_CLOEXEC, F_SETOWN, F_SETSIG,
                         F_ADD_SEALS, F_GET_SEALS});
    policy.allow_values("ioctl", 1, {TCGETS, TIOCGWINSZ});
    // By descriptor only.
    policy.allow_if("newfstatat", {SCMP_CMP(3, SCMP_CMP_MASKED_EQ, AT_EMPTY_PATH, AT_EMPTY_PATH)});
}

// Threads, signals, and the processes that guest programs run in.
void allow_processes(SeccompBuilder& policy) {
    policy.allow({
        "rt_sigaction",    "rt_sigprocmask",
        "rt_sigreturn",    "rt_sigpending",
        "rt_sigsuspend",   "rt_sigtimedwait",
        "sigaltstack",     "signalfd4",
        "tgkill",          "rt_tgsigqueueinfo",
        "restart_syscall", "futex",
        "set_robust_list", "rseq",
        "set_tid_address", "arch_prctl",
        "sched_yield",     "getpid",
        "gettid",          "getppid",
        "getpgrp",         "getpgid",
        "setsid",          "wait4",
        "waitid",          "exit",
        "exit_group",      "ptrace",
    });
    // To keep a program's process off its own processor.
    policy.allow({"getcpu", "sched_getaffinity", "sched_setaffinity"});
    policy.allow_if("clone", {SCMP_CMP(0, SCMP_CMP_MASKED_EQ, kNewNamespaces, 0)});
    policy.fail("clone3", ENOSYS);  // its flags are out of sight; libc falls back to clone
    policy.allow_if("kill", {SCMP_CMP(1, SCMP_CMP_NE, SIGABRT)});
    policy.allow_values("prctl", 0, {PR_SET_NAME, PR_SET_PDEATHSIG, PR_SET_NO_NEW_PRIVS});
    policy.allow_values("personality", 0, {ADDR_NO_RANDOMIZE, 0xffffffff});
    policy.allow_if("prlimit64", {SCMP_CMP(2, SCMP_CMP_EQ, 0)});  // to read
    // A file that it holds: the program of its user processes is a memfd.
    policy.allow_values("execveat", 4, {AT_EMPTY_PATH});
    policy.allow_if("seccomp", {SCMP_CMP(0, SCMP_CMP_EQ, SECCOMP_SET_MODE_FILTER),
                                SCMP_CMP(1, SCMP_CMP_MASKED_EQ, ~uint64_t{SECCOMP_FILTER_FLAG_TSYNC}, 0)});
}

}  // namespace

Result<SeccompProgram> uml_kernel_policy() {
    SeccompBuilder policy;
    allow_plain(policy);
    allow_processes(policy);
    return policy.build();
}

}  // namespace boxlite::jail
