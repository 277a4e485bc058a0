/* Run in the jail by the tests: tries what a taken-over guest kernel might, and prints "<what> <errno>" for
 * each, 0 for success. Static, like the kernel. Arguments: pid of the test, a TCP port and an abstract unix
 * socket name that the test listens on. "wait" instead: says so and waits to be killed. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

static void say(const char* what, long result) {
    char line[128];
    const int n = snprintf(line, sizeof line, "%s %d\n", what, result < 0 ? errno : 0);
    if (write(1, line, (size_t)n) != n) _exit(9);
}

static void say_number(const char* what, long number) {
    char line[128];
    const int n = snprintf(line, sizeof line, "%s %ld\n", what, number);
    if (write(1, line, (size_t)n) != n) _exit(9);
}

static long raw(long number, long a, long b, long c, long d) {
    return syscall(number, a, b, c, d, 0, 0);
}

static void files(void) {
    say("open-passwd", open("/etc/passwd", O_RDONLY));
    say("open-root", open("/", O_RDONLY | O_DIRECTORY));
    say("open-proc", open("/proc/self/status", O_RDONLY));
    say("create-file", open("/planted", O_WRONLY | O_CREAT, 0600));
    say("make-directory", mkdir("/planted", 0700));
    say("make-device", mknod("/planted", S_IFCHR | 0600, 1 << 8 | 3));
    say("run-program", raw(SYS_execve, (long)"/bin/sh", 0, 0, 0));
    say("mount", mount("none", "/", "tmpfs", 0, ""));
    say("chroot", chroot("/"));
}

static void network(const char* port, const char* name) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in host = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
    host.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    say("connect-tcp", fd < 0 ? -1 : connect(fd, (struct sockaddr*)&host, sizeof host));
    fd = socket(AF_UNIX, SOCK_STREAM, 0);
    struct sockaddr_un path = {.sun_family = AF_UNIX};
    strncpy(path.sun_path + 1, name, sizeof path.sun_path - 2);
    const socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
    say("connect-abstract", fd < 0 ? -1 : connect(fd, (struct sockaddr*)&path, length));
    say("socket-packet", socket(AF_PACKET, SOCK_RAW, 0));
}

static void processes(pid_t outside) {
    say("signal-outside", kill(outside, 0));
    say("ptrace-outside", ptrace(PTRACE_ATTACH, outside, 0, 0));
    char byte;
    struct iovec local = {&byte, 1}, remote = {(void*)files, 1};
    say("read-outside", process_vm_readv(outside, &local, 1, &remote, 1, 0));
    say("priority-outside", setpriority(PRIO_PROCESS, (id_t)outside, 0));
    say("nest-mount-namespace", unshare(CLONE_NEWNS));
    say("become-root", setresuid(0, 0, 0));
    const struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    const struct __user_cap_data_struct all[2] = {{1u << CAP_SYS_ADMIN, 1u << CAP_SYS_ADMIN, 0}};
    say("take-capability", raw(SYS_capset, (long)&header, (long)all, 0, 0));
    const struct rlimit core = {RLIM_INFINITY, RLIM_INFINITY};
    say("raise-limit", setrlimit(RLIMIT_CORE, &core));
    say("nest-user-namespace", unshare(CLONE_NEWUSER)); /* last: it would change the answers above */
}

static void kernel(void) {
    say("add-key", raw(SYS_add_key, (long)"user", (long)"x", (long)"y", 1));
    say("keyctl", raw(SYS_keyctl, 0, -4, 1, 0));
    say("bpf", raw(SYS_bpf, 0, 0, 0, 0));
    say("perf-event", raw(SYS_perf_event_open, 0, 0, -1, -1));
    say("io-uring", raw(SYS_io_uring_setup, 1, 0, 0, 0));
    say("userfaultfd", raw(SYS_userfaultfd, 0, 0, 0, 0));
    say("port-io", raw(SYS_iopl, 3, 0, 0, 0));
    say("module", raw(SYS_init_module, 0, 0, 0, 0));
    say("set-time", raw(SYS_settimeofday, 0, 0, 0, 0));
    say("other-personality", personality(0x0400000) < 0 ? -1 : 0);
}

/* What the uml kernel needs. */
static void needs(void) {
    say("memfd", memfd_create("x", 0));
    int pair[2];
    say("socketpair", socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    say("fixed-addresses", personality(ADDR_NO_RANDOMIZE) == ADDR_NO_RANDOMIZE ? 0 : -1);
    const pid_t child = fork();
    if (child == 0) {
        if (ptrace(PTRACE_TRACEME, 0, 0, 0) < 0) _exit(errno);
        kill(getpid(), SIGSTOP);
        _exit(0);
    }
    int status = 0;
    const int stopped = child > 0 && waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status);
    if (child > 0 && !stopped) errno = WEXITSTATUS(status);
    say("ptrace-child", stopped ? ptrace(PTRACE_CONT, child, 0, 0) : -1);
    if (stopped) waitpid(child, &status, 0);
}

static void state(void) {
    for (int fd = 0; fd < 4096; ++fd)
        if (fcntl(fd, F_GETFD) >= 0) say_number("fd", fd);
    say_number("pid", getpid());
    say_number("uid", (long)getauxval(AT_UID));
    say_number("gid", (long)getauxval(AT_GID));
    say_number("no-new-privileges", prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
    struct utsname names;
    uname(&names);
    say_number("named-box", strcmp(names.nodename, "box") == 0);
    struct rlimit core;
    getrlimit(RLIMIT_CORE, &core);
    say_number("core-limit", (long)core.rlim_max);
}

/* Forks that succeed before one fails, at most 64. */
static void fill_with_processes(void) {
    int made = 0;
    while (made < 64) {
        const pid_t child = fork();
        if (child < 0) break;
        if (child == 0) {
            raise(SIGSTOP);
            _exit(0);
        }
        ++made;
    }
    say_number("forks", made);
}

int main(int argc, char** argv) {
    if (argc == 2 && strcmp(argv[1], "wait") == 0) {
        say_number("waiting", 0);
        for (;;) pause();
    }
    if (argc == 2 && strcmp(argv[1], "abort") == 0) {
        kill(getpid(), SIGABRT);
        say("abort", -1);
        return 127;
    }
    if (argc == 2 && strcmp(argv[1], "fork") == 0) {
        fill_with_processes();
        return 0;
    }
    if (argc != 4) return 2;
    state();
    needs();
    files();
    network(argv[2], argv[3]);
    processes((pid_t)atoi(argv[1]));
    kernel();
    return 0;
}
