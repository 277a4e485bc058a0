// A seccomp policy for the threads of one kind, and what became of it.
// Thread safety: enter() any thread; note() once they have entered.
#pragma once

#include <mutex>
#include <string>

#include "jail/seccomp.h"

namespace boxlite::jail {

class ThreadRole {
  public:
    // `what`: of the role, for instance "device threads".
    ThreadRole(std::string what, SeccompProgram program, bool strict)
        : threads_(std::move(what)),
          what_("seccomp of " + threads_),
          program_(std::move(program)),
          strict_(strict) {}

    // Closes the calling thread in, for which the object stays. What the host does not give is an error in
    // strict mode, else noted.
    Result<void> enter();
    void note(JailReport& report) const;

  private:
    const std::string threads_;
    const std::string what_;
    const SeccompProgram program_;
    const bool strict_;
    std::mutex mutex_;
    std::string missing_;  // why
};

}  // namespace boxlite::jail
