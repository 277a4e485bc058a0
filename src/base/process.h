// Starting other programs and waiting for them.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/fd.h"

namespace boxlite::base {

struct ExitStatus {
    int code = 0;    // valid when signal is 0
    int signal = 0;  // the signal that ended the process, else 0
    // As a shell reports it: the code, or 128 + signal.
    int shell_code() const { return signal ? 128 + signal : code; }
};

// What the child gets. Descriptors not listed are closed by their close-on-exec flag.
struct SpawnOptions {
    std::vector<std::string> argv;                // argv[0] is looked up on PATH if it has no slash
    std::optional<std::vector<std::string>> env;  // nullopt: the caller's environment
    std::vector<std::pair<int, int>> fds;         // {caller's descriptor, number in the child}
    bool new_session = false;
};

// A child process, known by pidfd so that a recycled pid is never signalled. Not reaped on destruction:
// call wait(), or let init have it.
class Process {
  public:
    static Result<Process> spawn(const SpawnOptions& options);
    // A child that was started in another way; `pidfd` is its pidfd.
    static Process adopt(pid_t pid, Fd pidfd) { return {pid, std::move(pidfd)}; }

    pid_t pid() const { return pid_; }
    int pidfd() const { return pidfd_.get(); }  // readable when the process has ended
    Result<ExitStatus> wait();
    // nullopt when the time is up and the process is still there.
    Result<std::optional<ExitStatus>> wait_for(std::chrono::milliseconds budget);
    Result<void> signal(int number) const;

  private:
    Process(pid_t pid, Fd pidfd) : pid_(pid), pidfd_(std::move(pidfd)) {}
    pid_t pid_;
    Fd pidfd_;
};

struct CommandOutput {
    ExitStatus status;
    std::string out;
    std::string err;
};

// Runs a program to its end with `input` on stdin. Output past `limit` bytes each is dropped.
Result<CommandOutput> run_command(const std::vector<std::string>& argv, std::string_view input = {},
                                  size_t limit = size_t{16} << 20,
                                  std::chrono::milliseconds budget = std::chrono::minutes(2));

}  // namespace boxlite::base
