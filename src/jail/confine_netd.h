// The confinement of a box's network processes: they are linked dynamically, and so close themselves in once
// they are loaded.
#pragma once

#include "jail/jail.h"

namespace boxlite::jail {

struct NetdConfinement {
    uid_t uid = 65534;  // when the caller is root; see box_uid()
    uint64_t max_open_files = 65536;
    bool strict = false;
    bool network = true;  // false: none, but the connections that it is handed; see tlsd_policy()
};

// For this process, which has one thread, for good: namespaces where the host gives them (user for an
// ordinary user; mount, ipc, uts, cgroup; the network is the host's, or none), an empty root, an own
// identity, no capabilities, limits, no_new_privs, Landlock, the seccomp policy of its role. What is not
// there is reported; kUnsupported in strict mode.
Result<JailReport> confine_netd(const NetdConfinement& confinement);

}  // namespace boxlite::jail
