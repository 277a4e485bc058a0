// The supervisors that this process started: it reaps them when they have ended and holds the lifelines of
// those that are to end with it. Thread safe.
#pragma once

#include <map>
#include <mutex>
#include <string>

#include "runtime/supervisor.h"

namespace boxlite::runtime {

class Children {
  public:
    Children() = default;
    Children(const Children&) = delete;
    Children& operator=(const Children&) = delete;
    // Lets go of every lifeline.
    ~Children();

    void adopt(const std::string& box_id, Launched child);
    // Collects those that have ended, so that they are no zombies of the application.
    void reap();

  private:
    std::mutex mutex_;
    std::multimap<std::string, Launched> children_;
};

}  // namespace boxlite::runtime
