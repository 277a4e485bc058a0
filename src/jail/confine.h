// The supervisor's own confinement, once it has started everything that it starts.
#pragma once

#include <string>
#include <vector>

#include "jail/jail.h"

namespace boxlite::jail {

struct ShimConfinement {
    // Files and folders, each with all below it. Everything else that is not open already is out of reach.
    std::vector<std::string> read_write;
    std::vector<std::string> read_only;
    // Cgroup::folders() of its processes, so that it can still end and remove them.
    std::vector<std::string> cgroups;
    // A process group that it may stop and continue; 0: none.
    pid_t stoppable_group = 0;
    bool strict = false;
};

// For this process, for good: no_new_privs, not dumpable, Landlock, and the shim's seccomp policy for all
// of its threads. Afterwards it starts threads but no processes, and has no sockets but unix ones.
// Landlock holds for the calling thread and those that it starts from now on, so call this on the main
// thread before any other exists; threads that exist already are reported as missing.
// Errors: kNotFound for a path that is not there; kUnsupported in strict mode.
Result<JailReport> confine_shim(const ShimConfinement& confinement);

}  // namespace boxlite::jail
