// Which devices the processes of an unprivileged container may open. Making nodes is allowed (CAP_MKNOD is
// among the default capabilities); what a node leads to is decided here.
#pragma once

#include "base/fd.h"

namespace boxlite::agent {

// Restricts everything in the cgroup2 directory `cgroup`, for good, to the devices that Docker allows: null,
// zero, full, random, urandom, tty, console and pseudo terminals.
Result<void> filter_devices(const base::Fd& cgroup);

}  // namespace boxlite::agent
