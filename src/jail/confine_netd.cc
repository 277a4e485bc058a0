#include "jail/confine_netd.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <system_error>

#include "base/file.h"
#include "jail/landlock.h"
#include "jail/seccomp.h"
#include "jail/walls.h"

namespace boxlite::jail {

namespace {

struct Namespace {
    int flag;
    const char* name;
};
constexpr Namespace kNamespaces[] = {{CLONE_NEWUSER, "user namespace"},     {CLONE_NEWNS, "mnt namespace"},
                                     {CLONE_NEWIPC, "ipc namespace"},       {CLONE_NEWUTS, "uts namespace"},
                                     {CLONE_NEWCGROUP, "cgroup namespace"}, {CLONE_NEWNET, "net namespace"}};

class Steps {
  public:
    void note(const char* what, int result) {
        if (result >= 0)
            report.applied.emplace_back(what);
        else
            report.missing.push_back({what, std::error_code(errno, std::generic_category()).message()});
    }
    JailReport report;
};

int write_text(const char* path, const std::string& text) {
    const base::Fd fd(::open(path, O_WRONLY | O_CLOEXEC));
    return fd.valid() && ::write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size())
               ? 0
               : -1;
}

int map_identity(uid_t uid, gid_t gid) {
    if (write_text("/proc/self/setgroups", "deny") < 0 && errno != ENOENT) return -1;
    if (write_text("/proc/self/uid_map", fmt::format("65534 {} 1\n", uid)) < 0) return -1;
    return write_text("/proc/self/gid_map", fmt::format("65534 {} 1\n", gid));
}

// Root needs no user namespace for the others; where root may not have them, and for everyone else, one makes
// them possible.
unsigned enter_namespaces(bool keep_network, Steps& steps) {
    unsigned all = 0;
    for (const Namespace& ns : kNamespaces)
        if (!keep_network || ns.flag != CLONE_NEWNET) all |= static_cast<unsigned>(ns.flag);
    const uid_t uid = ::geteuid();
    const gid_t gid = ::getegid();
    unsigned got = 0;
    const unsigned without_user = all & ~static_cast<unsigned>(CLONE_NEWUSER);
    if (uid == 0 && ::unshare(static_cast<int>(without_user)) == 0)
        got = without_user;
    else if (::unshare(static_cast<int>(all)) == 0)
        got = all;
    const int error = errno;
    for (const Namespace& ns : kNamespaces) {
        if (keep_network && ns.flag == CLONE_NEWNET) continue;
        if (ns.flag == CLONE_NEWUSER && uid == 0 && !(got & CLONE_NEWUSER)) continue;
        errno = error;
        steps.note(ns.name, got & static_cast<unsigned>(ns.flag) ? 0 : -1);
    }
    if (got & CLONE_NEWUSER) steps.note("identity map", map_identity(uid, gid));
    return got;
}

}  // namespace

Result<JailReport> confine_netd(const NetdConfinement& confinement) {
    const SeccompProgram policy = TRY(confinement.network ? netd_policy() : tlsd_policy());
    rlimit files{};
    uint64_t max_files = confinement.max_open_files;
    if (::getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_max != RLIM_INFINITY)
        max_files = std::min<uint64_t>(max_files, files.rlim_max);
    auto ruleset =
        make_landlock_ruleset({}, confinement.network ? LandlockScope::kNetwork : LandlockScope::kNothing);

    Steps steps;
    const bool root = ::geteuid() == 0;
    const unsigned namespaces = enter_namespaces(confinement.network, steps);
    if (namespaces & CLONE_NEWNS) steps.note("empty root", enter_empty_root());
    steps.note("resource limits", set_jail_limits(max_files));
    drop_bounding_set();
    if (root && !(namespaces & CLONE_NEWUSER)) steps.note("own user", change_identity(confinement.uid));
    steps.note("no capabilities", drop_capabilities());
    steps.note("no new privileges", ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    steps.note("not dumpable", ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0));
    if (ruleset.ok())
        steps.note("Landlock", landlock_restrict_self(ruleset->get()));
    else
        steps.report.missing.push_back({"Landlock", ruleset.error().message});
    if (auto applied = apply_seccomp(policy); applied.ok())
        steps.report.applied.emplace_back("seccomp");
    else
        steps.report.missing.push_back({"seccomp", applied.error().message});
    if (confinement.strict && !steps.report.missing.empty())
        return base::make_error(ErrorCode::kUnsupported, "cannot confine the network process: {}: {}",
                                steps.report.missing.front().what, steps.report.missing.front().why);
    return std::move(steps.report);
}

}  // namespace boxlite::jail
