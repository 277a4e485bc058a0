// Both ends of a new process's standard streams: pipes, or a terminal of the container.
#pragma once

#include <array>
#include <vector>

#include "agent/container.h"
#include "agent/messages.h"
#include "agent/user.h"
#include "base/fd.h"

namespace boxlite::agent {

struct Stdio {
    std::vector<base::Fd> owned;  // the child's ends; the agent closes them after the clone
    std::array<int, 3> child = {-1, -1, -1};
    // The agent's ends, non-blocking. On a terminal, `in` and `out` are its master and `err` is invalid.
    base::Fd in;
    base::Fd out;
    base::Fd err;
};

// `with_input` false: standard input is /dev/null and `in` invalid.
Result<Stdio> make_pipes(bool with_input);

// A new terminal in the container's /dev/pts, reached by descriptors alone, so that nothing which the
// container mounts or links can take its place. It belongs to `user`.
Result<Stdio> make_terminal(const Container& container, const v1::Tty& size, const User& user);

Result<void> resize_terminal(int master, const v1::Tty& size);

}  // namespace boxlite::agent
