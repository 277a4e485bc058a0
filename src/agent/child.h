// What a new process of the container does between clone and exec. It runs in the agent's memory, beside
// the agent, so it makes raw system calls only and reads a plan that stays as it is until the process has
// exec'ed or ended.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "agent/capability.h"
#include "agent/user.h"

namespace boxlite::agent {

enum class ChildStep : int32_t {
    kNamespaces = 1,  // joining or making them
    kMounts,          // of PID 1: proc, cgroup, masked paths
    kTerminal,        // session, terminal, descriptors
    kDirectory,       // the working directory
    kUser,            // user, groups, capabilities
    kProgram,         // no candidate could be executed
};

// Sent through the status pipe when a step fails. A pipe that closes empty tells that the program runs.
struct ChildFailure {
    ChildStep step = ChildStep::kProgram;
    int32_t error = 0;  // errno
};

struct ChildPlan {
    enum class Kind { kMember, kInit, kIdleInit };
    Kind kind = Kind::kMember;
    int namespaces_fd = -1;  // kMember: PID 1's pidfd; else the container's mount namespace
    bool privileged = false;
    int status_fd = -1;  // write end
    std::array<int, 3> stdio = {-1, -1, -1};
    bool terminal = false;  // stdio[0] becomes the controlling terminal
    std::string directory;
    User user;
    CapabilitySet capabilities = 0;
    CapabilitySet bounding = kAllCapabilities;  // of the thread that starts it
    bool no_new_privileges = false;
    std::vector<std::string> candidates;  // paths to try, in order
    std::vector<std::string> argv;
    std::vector<std::string> env;

    // Filled by prepare(): pointers into the above.
    std::vector<char*> argv_pointers;
    std::vector<char*> env_pointers;
    pid_t pid_inside = 0;  // set by the kernel: the pid in the container's pid namespace

    void prepare();
};

// Entry points for raw::clone3; the argument is a ChildPlan. They do not return.
void run_program(void* plan);
// PID 1 of a container without a main process: reaps, and on SIGTERM sends it to everyone and ends when
// all have gone. For a child that does not share memory.
void run_idle_init(void* plan);

}  // namespace boxlite::agent
