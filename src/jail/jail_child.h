// What a jailed child does between clone and exec. It may share its parent's memory with threads that no
// longer exist, so it only makes system calls, on data that was prepared before.
#pragma once

#include <linux/filter.h>
#include <sys/resource.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace boxlite::jail {

enum class JailStep : uint8_t {
    kIdentityMap,  // of the user namespace
    kEmptyRoot,
    kHostName,
    kDescriptors,
    kLimits,
    kIdentity,  // of root's child on the host
    kCapabilities,
    kDeathSignal,
    kNoNewPrivileges,
    kLandlock,
    kSeccomp,
    kExec,  // success: all is done and the program is about to run
    kCount,
};

// One step's outcome, as the child writes it to its parent.
struct JailStepResult {
    JailStep step;
    int32_t error;  // errno, 0 for success
};

struct JailPlan {
    int go = -1;        // reads one byte here before it begins; end of file: the parent is gone
    int go_write = -1;  // the parent's end of it
    int report = -1;    // JailStepResults; closed by exec
    int binary = -1;
    int null = -1;                    // /dev/null
    int landlock = -1;                // ruleset, -1 for none
    const int (*moves)[2] = nullptr;  // descriptors: from, to
    size_t move_count = 0;
    int first_free = 3;  // above every `to`
    char* const* argv = nullptr;
    char* const* envp = nullptr;
    bool user_namespace = false;
    bool mount_namespace = false;
    bool uts_namespace = false;
    bool change_identity = false;
    uid_t uid = 0;
    const char* uid_map = nullptr;
    const char* gid_map = nullptr;
    rlim_t max_open_files = 0;
    const sock_fprog* seccomp = nullptr;
    bool strict = false;  // do not run the program when a step failed
};

[[noreturn]] void run_jailed_child(const JailPlan& plan);

}  // namespace boxlite::jail
