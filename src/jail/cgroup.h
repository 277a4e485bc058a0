// A cgroup for one box: v2 where controllers can be had, else v1.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "jail/jail.h"

namespace boxlite::jail {

class Cgroup {
  public:
    // Makes what the host permits; `report` says what came of each limit. nullptr when there is nothing.
    static std::unique_ptr<Cgroup> create(const CgroupLimits& limits, JailReport& report);
    // Ends and removes what a creator that was killed left in its folders(). `name` is the cgroup's; a folder
    // of another name, or one that is no cgroup, is left alone.
    static void remove_stale(const std::string& name, const std::vector<std::string>& folders);
    Cgroup(const Cgroup&) = delete;
    Cgroup& operator=(const Cgroup&) = delete;
    // Ends what still runs in it, and removes it.
    ~Cgroup();

    Result<void> add(pid_t pid);
    // One for v2, one per controller for v1.
    const std::vector<std::string>& folders() const { return folders_; }

  private:
    Cgroup() = default;
    std::vector<std::string> folders_;
};

}  // namespace boxlite::jail
