// Single walls of a jail, for the calling process. Async-signal-safe: they make system calls only. -1 with
// errno when the host does not permit one.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

namespace boxlite::jail {

// In a mount namespace of its own: a tmpfs with nothing in it becomes the root, and the old one goes with all
// below it.
int enter_empty_root();

// No core dump, no locked memory, no message queues, a stack of the usual size.
int set_jail_limits(rlim_t max_open_files);

// Without the right to do it there is no capability to lose, so this does not fail.
void drop_bounding_set();

// Also gives up all groups. Of the calling thread.
int change_identity(uid_t uid);

// Of the calling thread.
int drop_capabilities();

}  // namespace boxlite::jail
