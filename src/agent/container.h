// The container: the namespaces, cgroup and root directory in which the image's processes run, beside an
// agent that stays outside of all but the UTS and IPC ones.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>

#include "agent/capable_thread.h"
#include "agent/child.h"
#include "agent/messages.h"
#include "agent/root.h"
#include "base/fd.h"

namespace boxlite::agent {

// A process that has been started and may still fail to become its program.
struct Launched {
    pid_t pid = 0;  // in the agent's pid namespace; a child of the agent
    base::Fd pidfd;
    base::Fd status;  // readable: empty end of file when the program runs, else a ChildFailure
    std::unique_ptr<ChildPlan> plan;  // both must live until then
    std::unique_ptr<uint8_t[]> stack;
};

// The error that a failed start is reported with: kNotFound, kExecution (there, but not executable),
// kInvalidArgument (user, working directory) or kInternal.
Error start_error(const ChildFailure& failure, const ChildPlan& plan);

class Container {
  public:
    // Builds the container on `root`, a mount of the agent's. The caller is single threaded and, from here
    // on, in the container's UTS and IPC namespaces, not dumpable and, unless the container is privileged,
    // without capabilities beyond the usual ones to gain. `cgroups` is the top of a cgroup2 hierarchy.
    static Result<std::unique_ptr<Container>> create(const std::string& root, const v1::ContainerSpec& spec,
                                                     const base::Fd& cgroups);

    const Root& root() const { return root_; }
    bool privileged() const { return privileged_; }
    // The container's own cgroup directory.
    int cgroup_fd() const { return cgroup_.get(); }
    // The pseudo terminal file system, /dev/pts.
    int terminals_fd() const { return terminals_.get(); }

    // The container goes on under another host name and, where it has an /etc/machine-id, another of those.
    Result<void> rename(const std::string& hostname, const std::string& machine_id) const;

    // Starts PID 1: `plan` of kind kInit or kIdleInit. Its namespaces end with it.
    Result<Launched> start_init(std::unique_ptr<ChildPlan> plan);
    // To be called once PID 1 runs: further processes join it.
    Result<void> adopt_init(const Launched& init);
    // Starts another process beside PID 1, of kind kMember.
    Result<Launched> start_member(std::unique_ptr<ChildPlan> plan);
    bool has_init() const { return init_pidfd_.valid(); }

    // Whether the kernel's out-of-memory killer has struck in this container once more than was claimed
    // before. False where it is not counted.
    bool claim_oom_kill();

  private:
    Container(Root root, bool privileged) : root_(std::move(root)), privileged_(privileged) {}
    Result<Launched> launch(std::unique_ptr<ChildPlan> plan, uint64_t flags) const;
    Result<void> limit_capabilities();
    uint64_t oom_kills() const;

    Root root_;
    bool privileged_;
    std::unique_ptr<CapableThread> capable_;  // where this one's bounding set has been limited
    base::Fd mount_namespace_;
    base::Fd terminals_;
    base::Fd cgroup_;
    base::Fd init_pidfd_;
    uint64_t claimed_oom_kills_ = 0;
};

}  // namespace boxlite::agent
