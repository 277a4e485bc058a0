#include "agent/child.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "agent/late_mounts.h"
#include "agent/raw.h"

// Sanitizers keep state per thread and per stack, which this code has none of.
#define NO_SANITIZE __attribute__((no_sanitize("address", "undefined", "thread")))

namespace boxlite::agent {

namespace {

constexpr mode_t kUmask = 022;
constexpr mode_t kDirectoryMode = 0755;
constexpr long kJoined = CLONE_NEWNS | CLONE_NEWCGROUP;

[[noreturn]] NO_SANITIZE void give_up(const ChildPlan& plan, ChildStep step, long error) {
    const ChildFailure failure{step, static_cast<int32_t>(-error)};
    raw::call(SYS_write, plan.status_fd, &failure, sizeof failure);
    for (;;) raw::call(SYS_exit_group, 127);
}

NO_SANITIZE void enter_container(const ChildPlan& plan) {
    if (plan.kind == ChildPlan::Kind::kMember) {
        if (const long error = raw::call(SYS_setns, plan.namespaces_fd, kJoined); error < 0)
            give_up(plan, ChildStep::kNamespaces, error);
        return;
    }
    if (const long error = raw::call(SYS_setns, plan.namespaces_fd, CLONE_NEWNS); error < 0)
        give_up(plan, ChildStep::kNamespaces, error);
    if (const long error = raw::call(SYS_unshare, CLONE_NEWCGROUP); error < 0)
        give_up(plan, ChildStep::kNamespaces, error);
    if (const long error = mount_late(plan.privileged); error < 0) give_up(plan, ChildStep::kMounts, error);
}

// The descriptors of `plan` are all above 2, so no dup3 overwrites one that is still to come.
NO_SANITIZE void take_stdio(const ChildPlan& plan) {
    raw::call(SYS_setsid);
    for (int fd = 0; fd < 3; ++fd)
        if (const long error = raw::call(SYS_dup3, plan.stdio[static_cast<size_t>(fd)], fd, 0); error < 0)
            give_up(plan, ChildStep::kTerminal, error);
    if (plan.terminal)
        if (const long error = raw::call(SYS_ioctl, 0, TIOCSCTTY, 0); error < 0)
            give_up(plan, ChildStep::kTerminal, error);
    // Everything else goes at exec, the status pipe with it.
    if (const long error = raw::call(SYS_close_range, 3u, ~0u, CLOSE_RANGE_CLOEXEC); error < 0)
        give_up(plan, ChildStep::kTerminal, error);
}

// mkdir -p of an absolute path, one component at a time. What is made belongs to the user; what exists is
// followed wherever it leads inside the container.
NO_SANITIZE long make_directory(const ChildPlan& plan) {
    long dir = raw::call(SYS_open, "/", O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
    const char* at = plan.directory.c_str();
    char name[256];
    for (;;) {
        while (*at == '/') ++at;
        if (!*at) return raw::call(SYS_fchdir, dir);
        size_t length = 0;
        for (; at[length] && at[length] != '/'; ++length) {
            if (length + 1 >= sizeof name) return -ENAMETOOLONG;
            name[length] = at[length];
        }
        name[length] = '\0';
        at += length;
        const long made = raw::call(SYS_mkdirat, dir, name, kDirectoryMode);
        if (made < 0 && made != -EEXIST) return made;
        const long next = raw::call(SYS_openat, dir, name,
                                    O_RDONLY | O_DIRECTORY | O_CLOEXEC | (made == 0 ? O_NOFOLLOW : 0), 0);
        if (next < 0) return next;
        if (made == 0)
            if (const long error = raw::call(SYS_fchown, next, plan.user.uid, plan.user.gid); error < 0)
                return error;
        raw::call(SYS_close, dir);
        dir = next;
    }
}

NO_SANITIZE void enter_directory(const ChildPlan& plan) {
    long error = raw::call(SYS_chdir, plan.directory.c_str());
    if (error == -ENOENT) error = make_directory(plan);
    if (error < 0) give_up(plan, ChildStep::kDirectory, error);
}

// Root gets what the bounding set leaves it at exec; everybody else loses all by becoming another user.
NO_SANITIZE void drop_privileges(const ChildPlan& plan) {
    const CapabilitySet dropped = plan.bounding & ~plan.capabilities;
    for (unsigned capability = 0; capability < 64 && dropped >> capability; ++capability) {
        if (!(dropped >> capability & 1)) continue;
        const long error = raw::call(SYS_prctl, PR_CAPBSET_DROP, capability, 0, 0, 0);
        if (error == -EINVAL) break;  // past the kernel's last one
        if (error < 0) give_up(plan, ChildStep::kUser, error);
    }
    const User& user = plan.user;
    if (const long error = raw::call(SYS_setgroups, user.groups.size(), user.groups.data()); error < 0)
        give_up(plan, ChildStep::kUser, error);
    if (user.gid != 0)
        if (const long error = raw::call(SYS_setresgid, user.gid, user.gid, user.gid); error < 0)
            give_up(plan, ChildStep::kUser, error);
    if (user.uid != 0)
        if (const long error = raw::call(SYS_setresuid, user.uid, user.uid, user.uid); error < 0)
            give_up(plan, ChildStep::kUser, error);
    if (plan.no_new_privileges)
        if (const long error = raw::call(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); error < 0)
            give_up(plan, ChildStep::kUser, error);
}

NO_SANITIZE void clear_signal_mask() {
    const uint64_t none = 0;
    raw::call(SYS_rt_sigprocmask, SIG_SETMASK, &none, nullptr, sizeof none);
}

// As execvp(3): a candidate that is not there or may not be executed gives way to the next one.
[[noreturn]] NO_SANITIZE void execute(const ChildPlan& plan) {
    long error = -ENOENT;
    for (const std::string& path : plan.candidates) {
        const long failed =
            raw::call(SYS_execve, path.c_str(), plan.argv_pointers.data(), plan.env_pointers.data());
        if (failed == -EACCES)
            error = failed;
        else if (failed != -ENOENT && failed != -ENOTDIR)
            give_up(plan, ChildStep::kProgram, failed);
    }
    give_up(plan, ChildStep::kProgram, error);
}

// PID 1 needs to signal everybody and nothing else.
NO_SANITIZE void keep_only_kill() {
    __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
    const __user_cap_data_struct data[2] = {
        {.effective = 1u << CAP_KILL, .permitted = 1u << CAP_KILL, .inheritable = 0},
        {.effective = 0, .permitted = 0, .inheritable = 0}};
    raw::call(SYS_capset, &header, data);
}

// Until nobody is left in the pid namespace but us. Those whose parent is the agent are reaped by it, and
// we are not told: hence the short naps, at most until the agent's patience ends.
NO_SANITIZE void outlive_everybody() {
    raw::call(SYS_kill, -1, SIGTERM);
    uint64_t child_signal = uint64_t{1} << (SIGCHLD - 1);
    const timespec nap{.tv_sec = 0, .tv_nsec = 10'000'000};
    for (;;) {
        while (raw::call(SYS_wait4, -1, nullptr, WNOHANG, nullptr) > 0) {
        }
        if (raw::call(SYS_kill, -1, 0) == -ESRCH) return;
        raw::call(SYS_rt_sigtimedwait, &child_signal, nullptr, &nap, sizeof child_signal);
    }
}

}  // namespace

void ChildPlan::prepare() {
    for (std::string& argument : argv) argv_pointers.push_back(argument.data());
    argv_pointers.push_back(nullptr);
    for (std::string& variable : env) env_pointers.push_back(variable.data());
    env_pointers.push_back(nullptr);
}

NO_SANITIZE void run_program(void* argument) {
    const ChildPlan& plan = *static_cast<const ChildPlan*>(argument);
    enter_container(plan);
    take_stdio(plan);
    raw::call(SYS_umask, kUmask);
    enter_directory(plan);
    drop_privileges(plan);
    clear_signal_mask();
    execute(plan);
}

NO_SANITIZE void run_idle_init(void* argument) {
    const ChildPlan& plan = *static_cast<const ChildPlan*>(argument);
    enter_container(plan);
    take_stdio(plan);
    keep_only_kill();
    raw::call(SYS_prctl, PR_SET_NAME, "init", 0, 0, 0);
    // Tells the agent that PID 1 is there.
    raw::call(SYS_close_range, 3u, ~0u, 0);
    const uint64_t waited = uint64_t{1} << (SIGCHLD - 1) | uint64_t{1} << (SIGTERM - 1);
    for (;;) {
        const long signal = raw::call(SYS_rt_sigtimedwait, &waited, nullptr, nullptr, sizeof waited);
        if (signal == SIGTERM) {
            outlive_everybody();
            for (;;) raw::call(SYS_exit_group, 0);
        }
        while (raw::call(SYS_wait4, -1, nullptr, WNOHANG, nullptr) > 0) {
        }
    }
}

}  // namespace boxlite::agent
