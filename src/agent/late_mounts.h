// The mounts that only the container's PID 1 can make, since they show the pid and cgroup namespaces of
// whoever makes them; and the paths that are hidden or read-only in an unprivileged container, which lie
// mostly in those mounts.
#pragma once

namespace boxlite::agent {

// Runs in the child, with raw system calls only. 0, or -errno of the mount that failed.
long mount_late(bool privileged);

}  // namespace boxlite::agent
