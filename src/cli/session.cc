#include "cli/session.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <optional>
#include <thread>

#include "base/bytes.h"
#include "base/fd.h"
#include "base/log.h"
#include "cli/terminal.h"

namespace boxlite::cli {

namespace {

constexpr size_t kChunk = size_t{256} << 10;
constexpr char kDetachFirst = 0x10;   // ^P
constexpr char kDetachSecond = 0x11;  // ^Q
constexpr int kPatience = 3;

// Finds ^P ^Q in what is typed. A ^P is held back until the next key shows what it was.
class DetachKeys {
  public:
    // Turns `input` into what is to be sent; true when the sequence is complete.
    bool filter(std::string& input) {
        std::string out;
        for (const char c : input) {
            if (held_ && c == kDetachSecond) {
                held_ = false;
                input = out;
                return true;
            }
            if (held_) out += kDetachFirst;
            held_ = c == kDetachFirst;
            if (!held_) out += c;
        }
        input = std::move(out);
        return false;
    }

  private:
    bool held_ = false;
};

class Session {
  public:
    Session(Execution execution, const SessionOptions& options)
        : execution_(std::move(execution)), options_(options) {}

    Result<SessionEnd> run() {
        // Before any thread is made: all of them inherit the mask, so signals arrive here alone.
        signals_ = TRY(take_signals());
        stop_ = TRY(base::make_eventfd());
        finished_ = TRY(base::make_eventfd());
        std::optional<RawMode> raw;
        if (options_.terminal) {
            raw.emplace(STDIN_FILENO);
            resize();
        }
        std::jthread out([this] { pump_output(Stream::kStdout, STDOUT_FILENO); });
        std::jthread err([this] { pump_output(Stream::kStderr, STDERR_FILENO); });
        std::jthread wait([this] { wait_for_program(); });
        std::jthread in;
        if (options_.forward_stdin) in = std::jthread([this] { pump_input(); });

        watch(raw);
        end_.detached = detached_;
        end_.broken_pipe = broken_pipe_;
        // What happens to a program whose output nobody takes any more.
        if (broken_pipe_) (void)execution_.signal(SIGPIPE);
        execution_.disconnect();
        ring(stop_);
        for (std::jthread* thread : {&out, &err, &wait, &in})
            if (thread->joinable()) thread->join();
        if (end_.detached || end_.broken_pipe) return end_;
        end_.status = TRY(*std::move(status_));
        if (output_error_) return *output_error_;
        return end_;
    }

  private:
    static Result<base::Fd> take_signals() {
        sigset_t set;
        sigemptyset(&set);
        for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH, SIGTSTP})
            sigaddset(&set, number);
        ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
        base::Fd fd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
        if (!fd.valid()) return base::errno_error(ErrorCode::kInternal, "receive signals");
        return fd;
    }

    static void ring(const base::Fd& bell) {
        const uint64_t one = 1;
        (void)!::write(bell.get(), &one, sizeof one);
    }

    void pump_output(Stream stream, int fd) {
        for (;;) {
            auto chunk = execution_.read(stream, kChunk);
            if (!chunk.ok()) {
                base::log_debug("output ended", {{"error", chunk.error().message}});
                // What a disconnection or the box's end means, the program's status tells.
                if (chunk.error().code != ErrorCode::kStopped && chunk.error().code != ErrorCode::kPortal)
                    set_output_error(std::move(chunk).error());
                break;
            }
            if (chunk->empty()) break;
            if (!base::write_all(fd, base::as_bytes(*chunk)).ok()) {
                // Standard error is only for people; without standard output there is nobody to work for.
                if (stream == Stream::kStdout) broken_pipe_ = true;
                break;
            }
        }
        if (--running_ == 0 || broken_pipe_) ring(finished_);
    }

    void set_output_error(Error error) {
        const std::scoped_lock lock(output_error_mutex_);
        if (!output_error_) output_error_ = std::move(error);
    }

    void wait_for_program() {
        status_ = execution_.wait();
        if (--running_ == 0 || !status_->ok()) ring(finished_);
    }

    void pump_input() {
        DetachKeys keys;
        for (;;) {
            pollfd entries[] = {{STDIN_FILENO, POLLIN, 0}, {stop_.get(), POLLIN, 0}};
            if (::poll(entries, 2, -1) < 0 && errno != EINTR) return;
            if (entries[1].revents) return;
            if (!entries[0].revents) continue;
            std::string data(kChunk, '\0');
            const ssize_t n = ::read(STDIN_FILENO, data.data(), data.size());
            if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
            if (n <= 0) {
                (void)execution_.close_stdin();
                return;
            }
            data.resize(static_cast<size_t>(n));
            if (options_.terminal && options_.may_detach && keys.filter(data)) {
                detached_ = true;
                ring(finished_);
                return;
            }
            // The program no longer reads: what is left of the input is nobody's.
            if (!data.empty() && !execution_.write(data).ok()) return;
        }
    }

    // The thread that started the session: signals, until there is nothing more to do.
    void watch(std::optional<RawMode>& raw) {
        for (;;) {
            pollfd entries[] = {{signals_.get(), POLLIN, 0}, {finished_.get(), POLLIN, 0}};
            if (::poll(entries, 2, -1) < 0 && errno != EINTR) return;
            if (entries[1].revents) break;
            signalfd_siginfo info;
            while (::read(signals_.get(), &info, sizeof info) == sizeof info)
                on_signal(static_cast<int>(info.ssi_signo), raw);
        }
    }

    void on_signal(int number, std::optional<RawMode>& raw) {
        if (number == SIGWINCH) {
            if (options_.terminal) resize();
            return;
        }
        if (number == SIGTSTP) {
            if (raw) raw->leave();
            ::raise(SIGSTOP);
            if (raw) raw->enter();
            if (options_.terminal) resize();
            return;
        }
        const bool insistent = number == SIGINT || number == SIGTERM;
        ignored_ = insistent ? ignored_ + 1 : 0;
        (void)(ignored_ >= kPatience ? execution_.kill() : execution_.signal(number));
    }

    void resize() {
        if (const auto size = terminal_size(STDIN_FILENO)) (void)execution_.resize(*size);
    }

    Execution execution_;
    const SessionOptions options_;
    base::Fd signals_, stop_, finished_;
    std::atomic<int> running_ = 3;
    std::atomic<bool> detached_ = false;
    std::atomic<bool> broken_pipe_ = false;
    int ignored_ = 0;
    std::mutex output_error_mutex_;
    std::optional<Error> output_error_;
    std::optional<Result<ExitStatus>> status_;
    SessionEnd end_;
};

}  // namespace

Result<SessionEnd> run_session(Execution execution, const SessionOptions& options) {
    return Session(std::move(execution), options).run();
}

}  // namespace boxlite::cli
