// Connects this process's standard streams, terminal and signals with a program in a box, until it ends.
#pragma once

#include "base/result.h"
#include "boxlite/execution.h"

namespace boxlite::cli {

struct SessionOptions {
    bool forward_stdin = false;
    bool terminal = false;  // raw mode, window size; the program runs on a terminal of its own
    // With a terminal, ^P ^Q leaves the program running.
    bool may_detach = false;
};

struct SessionEnd {
    bool detached = false;
    // Standard output's reader went away.
    bool broken_pipe = false;
    ExitStatus status;
};

// Without a terminal, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 go to the program; the third
// SIGINT or SIGTERM in a row kills it, for one that pays no heed. Changes the calling process's signal mask
// for good.
Result<SessionEnd> run_session(Execution execution, const SessionOptions& options);

}  // namespace boxlite::cli
