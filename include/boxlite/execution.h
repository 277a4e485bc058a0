// A running or finished program of a box: an exec, or the box's main process.
//
//   auto run = box.exec({.argv = {"sh", "-c", "cat"}}).value();
//   run.write("hello\n"); run.close_stdin();
//   while (!(chunk = run.read(Stream::kStdout).value()).empty()) use(chunk);
//   ExitStatus status = run.wait().value();
//
// Thread safety: every call may be made from any thread at any time. One thread per stream is the intended
// use: a blocked read() or write() holds back nobody else. Data are bytes; nothing is decoded.
// Both directions are bounded: a reader that rests stops the program's writes, not anyone's memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "boxlite/options.h"
#include "boxlite/result.h"

namespace boxlite {

enum class Stream { kStdout, kStderr };

struct ExitStatus {
    int code = 0;    // valid when signal is 0
    int signal = 0;  // the signal that ended the process, else 0
    bool timed_out = false;
    bool oom_killed = false;

    // As a shell reports it: the code, or 128 + signal.
    int shell_code() const { return signal ? 128 + signal : code; }
};

class ExecutionImpl;

// A handle; copies refer to the same execution. Dropping the last handle of an exec whose program still runs
// leaves the program alone and closes its pipes.
class Execution {
  public:
    static constexpr size_t kMaxChunk = size_t{1} << 20;

    explicit Execution(std::shared_ptr<ExecutionImpl> impl) : impl_(std::move(impl)) {}

    const std::string& id() const;

    // Blocks until bytes are there and returns at most `max_bytes` (at most kMaxChunk); empty means end of
    // stream. With a terminal, stderr ends at once.
    Result<std::string> read(Stream stream, size_t max_bytes = size_t{64} << 10);

    // Blocks until the program's pipe has taken every byte. kStopped when the program no longer reads.
    Result<void> write(std::string_view data);
    // End of file for the program. On a terminal nothing is closed: write "\x04" instead.
    Result<void> close_stdin();

    // Blocks until the program has ended. May be called any number of times.
    Result<ExitStatus> wait();

    // kNotFound when the program has ended.
    Result<void> signal(int number);
    Result<void> kill();
    Result<void> resize(TerminalSize size);

    // Every read, write and wait on this handle and its copies, under way or to come, fails with kStopped.
    // The program goes on, with its pipes as they are.
    void disconnect();

  private:
    std::shared_ptr<ExecutionImpl> impl_;
};

}  // namespace boxlite
