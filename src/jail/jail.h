// Starting a program that may do nothing but what it was handed: the guest kernel of the uml engine, which
// a guest may have taken over.
//
// What is applied, each part where the host gives it: namespaces (user for an ordinary user; mount, pid,
// ipc, uts, net, cgroup), an empty read-only root, an identity without rights on the host, no
// capabilities, resource limits, no_new_privs, Landlock, a seccomp allow-list, a cgroup. A part that is
// not there is named in the report with its reason; with `strict` it is an error.
//
// Thread safety: spawn_jailed() may be called on any thread, of a process with any number of threads. The
// child dies with the *thread* that called it, so that must be one that lives as long as the child.
#pragma once

#include <linux/filter.h>
#include <sys/types.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/process.h"

namespace boxlite::jail {

// What confines a process, in words of `inspect`, for instance "pid namespace".
struct JailReport {
    struct Missing {
        std::string what;
        std::string why;
    };
    std::vector<std::string> applied;
    std::vector<Missing> missing;
};

// A compiled seccomp filter (see jail/seccomp.h).
using SeccompProgram = std::vector<sock_filter>;

struct CgroupLimits {
    std::string name;         // of the new cgroup, letters, digits, '-' and '_'; empty: no cgroup
    uint64_t memory_max = 0;  // bytes, 0: no limit
    uint64_t pids_max = 0;    // processes and threads, 0: no limit
    // A file that gets the path of each cgroup, a line each, before it is made, so that a kill at any moment
    // leaves none that cannot be found (see Cgroup::remove_stale). Empty: none.
    std::string note;
};

struct JailOptions {
    SeccompProgram seccomp;  // empty: none, and reported as missing
    CgroupLimits cgroup;
    // Of the process when the caller is root; see box_uid(). An ordinary user's process has the user's own
    // identity on the host, and none inside its user namespace.
    uid_t uid = 65534;
    uint64_t max_open_files = 65536;  // lowered to the host's hard limit
    bool strict = false;
};

// A cgroup of our own, removed with its processes when the object goes.
class Cgroup;

struct JailedProcess {
    JailedProcess(base::Process process, std::unique_ptr<Cgroup> cgroup, JailReport report);
    JailedProcess(JailedProcess&&) noexcept;
    ~JailedProcess();

    base::Process process;
    std::unique_ptr<Cgroup> cgroup;  // null when there is none; keep it until the process has ended
    JailReport report;
};

struct JailedProgram {
    int binary = -1;  // a static executable; its file must be executable for `uid` when the caller is root
    std::vector<std::string> argv;
    std::vector<std::string> env;
    // {caller's descriptor, number in the child}. Standard descriptors that are not named are /dev/null;
    // every other one is closed.
    std::vector<std::pair<int, int>> fds;
};

// Returns when the program runs, with address space randomisation off (the uml kernel starts itself again
// otherwise). It is process 1 of its pid namespace: a signal that it sends itself and does not handle does
// nothing there. Errors: kInvalidArgument; kUnsupported in strict mode, naming what is missing; kEngine.
Result<JailedProcess> spawn_jailed(const JailedProgram& program, const JailOptions& options);

// A user id for a box, the same at every call, in a range that distributions leave free
// (0x70000000 to 0x70ffffff).
uid_t box_uid(std::string_view box_id);

}  // namespace boxlite::jail
