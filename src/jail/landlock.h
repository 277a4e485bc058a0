// Landlock: rules that a process puts on itself about files, TCP and its surroundings
// (kernel documentation: userspace-api/landlock).
#pragma once

#include <string>
#include <vector>

#include "base/fd.h"

namespace boxlite::jail {

// The host's version of the interface; 0 when there is none. errno says why in that case.
int landlock_version();

enum class LandlockAccess {
    kExecute,        // of one file
    kRead,           // files and directories
    kReadWrite,      // and everything else but devices' creation
    kRemoveFolders,  // of empty folders in this one
};

struct LandlockRule {
    int fd;  // a file or a directory with all below it; O_PATH is enough
    LandlockAccess access;
};

enum class LandlockScope {
    kNothing,
    kSignals,  // signals to processes outside
    kNetwork,  // TCP
};

// Everything that the host's version can deny is denied but for the rules and what is in `scope`: files, TCP
// bind and connect, abstract unix sockets of processes outside, and signals to those.
// kUnsupported when there is no Landlock.
Result<base::Fd> make_landlock_ruleset(const std::vector<LandlockRule>& rules, LandlockScope scope);

// For the calling thread and what it starts; needs no_new_privs. Async-signal-safe; errno on -1.
int landlock_restrict_self(int ruleset);

}  // namespace boxlite::jail
