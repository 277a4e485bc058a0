// The network process's own confinement: it is linked dynamically, and so closes itself in once it is loaded.
#pragma once

#include "jail/jail.h"

namespace boxlite::jail {

struct NetdConfinement {
    uid_t uid = 65534;  // when the caller is root; see box_uid()
    uint64_t max_open_files = 65536;
    bool strict = false;
};

// For this process, which has one thread, for good: namespaces where the host gives them (user for an
// ordinary user; mount, ipc, uts, cgroup; the network is the host's), an empty root, an own identity, no
// capabilities, limits, no_new_privs, Landlock, the netd seccomp policy. What is not there is reported;
// kUnsupported in strict mode.
Result<JailReport> confine_netd(const NetdConfinement& confinement);

}  // namespace boxlite::jail
