#include "jail/jail_child.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "jail/landlock.h"
#include "jail/walls.h"

namespace boxlite::jail {

namespace {

int write_text(const char* path, const char* text) {
    const int fd = ::open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) return -1;
    const size_t length = ::strlen(text);
    const ssize_t n = ::write(fd, text, length);
    const int saved = errno;
    ::close(fd);
    errno = saved;
    return n == static_cast<ssize_t>(length) ? 0 : -1;
}

class Child {
  public:
    explicit Child(const JailPlan& plan) : plan_(plan) {}

    [[noreturn]] void run() {
        reset_signals();
        // First, so that the parent's death during all this is not missed; again after the identity changes,
        // which clears it.
        (void)::prctl(PR_SET_PDEATHSIG, SIGKILL);
        ::close(plan_.go_write);
        char byte;
        if (::read(plan_.go, &byte, 1) != 1) ::_exit(1);
        if (plan_.user_namespace) must(JailStep::kIdentityMap, map_identity());
        if (plan_.mount_namespace) step(JailStep::kEmptyRoot, enter_empty_root());
        if (plan_.uts_namespace) step(JailStep::kHostName, ::sethostname("box", 3));
        must(JailStep::kDescriptors, arrange_descriptors());
        step(JailStep::kLimits, set_jail_limits(plan_.max_open_files));
        // Where it is not permitted (some containers), the uml kernel runs with random addresses.
        (void)::personality(ADDR_NO_RANDOMIZE);
        drop_bounding_set();
        if (plan_.change_identity) step(JailStep::kIdentity, change_identity(plan_.uid));
        step(JailStep::kCapabilities, drop_capabilities());
        step(JailStep::kDeathSignal, ::prctl(PR_SET_PDEATHSIG, SIGKILL));
        step(JailStep::kNoNewPrivileges, ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
        if (landlock_ >= 0) step(JailStep::kLandlock, landlock_restrict_self(landlock_));
        if (plan_.seccomp)
            step(JailStep::kSeccomp,
                 static_cast<int>(::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, plan_.seccomp)));
        if (plan_.strict && failed_) ::_exit(1);
        step(JailStep::kExec, 0);
        ::syscall(SYS_execveat, binary_, "", plan_.argv, plan_.envp, AT_EMPTY_PATH);
        must(JailStep::kExec, -1);
        ::_exit(1);
    }

  private:
    // Reports errno when `result` is negative.
    void step(JailStep which, int result) {
        const JailStepResult line{which, result < 0 ? errno : 0};
        if (result < 0) failed_ = true;
        (void)!::write(report_ >= 0 ? report_ : plan_.report, &line, sizeof line);
    }
    // A step without which the program does not run.
    void must(JailStep which, int result) {
        step(which, result);
        if (result < 0) ::_exit(1);
    }

    static void reset_signals() {
        struct sigaction action = {};
        action.sa_handler = SIG_DFL;
        for (int number = 1; number < NSIG; ++number) (void)::sigaction(number, &action, nullptr);
        sigset_t none;
        ::sigemptyset(&none);
        (void)::sigprocmask(SIG_SETMASK, &none, nullptr);
    }

    int map_identity() const {
        if (write_text("/proc/self/setgroups", "deny") < 0 && errno != ENOENT) return -1;
        if (write_text("/proc/self/uid_map", plan_.uid_map) < 0) return -1;
        return write_text("/proc/self/gid_map", plan_.gid_map);
    }

    // The named descriptors at their numbers, /dev/null for the standard ones that are not named, our own
    // three above them, and nothing else.
    int arrange_descriptors() {
        int above = plan_.first_free + 3;
        for (size_t i = 0; i < plan_.move_count; ++i)
            if (plan_.moves[i][0] >= above) above = plan_.moves[i][0] + 1;
        for (const int fd : {plan_.report, plan_.binary, plan_.null, plan_.landlock})
            if (fd >= above) above = fd + 1;
        // Out of the way of every number to be used.
        const int report = ::fcntl(plan_.report, F_DUPFD_CLOEXEC, above);
        const int binary = ::fcntl(plan_.binary, F_DUPFD_CLOEXEC, above);
        const int null = ::fcntl(plan_.null, F_DUPFD_CLOEXEC, above);
        const int landlock = plan_.landlock >= 0 ? ::fcntl(plan_.landlock, F_DUPFD_CLOEXEC, above) : -1;
        if (report < 0 || binary < 0 || null < 0 || (plan_.landlock >= 0 && landlock < 0)) return -1;
        const int copies = ::fcntl(null, F_DUPFD_CLOEXEC, above);  // the first of a row of copies
        if (copies < 0) return -1;
        for (size_t i = 0; i < plan_.move_count; ++i)
            if (::dup3(plan_.moves[i][0], copies + 1 + static_cast<int>(i), O_CLOEXEC) < 0) return -1;
        // Every number from 0 to first_free is a target or closed.
        if (close_range(0, plan_.first_free - 1) < 0) return -1;
        for (int fd = 0; fd < 3; ++fd)
            if (::dup2(null, fd) < 0) return -1;
        for (size_t i = 0; i < plan_.move_count; ++i)
            if (::dup2(copies + 1 + static_cast<int>(i), plan_.moves[i][1]) < 0) return -1;
        report_ = plan_.first_free;
        binary_ = plan_.first_free + 1;
        if (::dup3(report, report_, O_CLOEXEC) < 0 || ::dup3(binary, binary_, O_CLOEXEC) < 0) return -1;
        if (landlock >= 0) {
            landlock_ = plan_.first_free + 2;
            if (::dup3(landlock, landlock_, O_CLOEXEC) < 0) return -1;
        }
        return close_range(plan_.first_free + (landlock >= 0 ? 3 : 2), ~0U);
    }
    static int close_range(unsigned first, unsigned last) {
        return static_cast<int>(::syscall(SYS_close_range, first, last, 0));
    }

    const JailPlan& plan_;
    int report_ = -1;
    int binary_ = -1;
    int landlock_ = -1;
    bool failed_ = false;
};

}  // namespace

void run_jailed_child(const JailPlan& plan) {
    Child(plan).run();
}

}  // namespace boxlite::jail
