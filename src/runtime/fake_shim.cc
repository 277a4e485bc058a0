// A supervisor without a machine, for tests of everything that looks at supervisors from outside. It behaves
// as boxlite-shim promises; the box's name says what goes wrong:
//   no-greeting    ends before its first word          refuses        reports an error instead of "ok"
//   boot-fails     WaitReady fails, then it ends       ignores-stop   answers Stop, but never ends
//   dies-at-exec   is gone as soon as an exec starts
#include <signal.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>

#include "base/event_loop.h"
#include "base/file.h"
#include "rpc/box.pb.h"
#include "rpc/channel.h"
#include "rpc/sized.h"
#include "shim/output_log.h"

namespace {

using namespace boxlite;

class FakeShim {
  public:
    FakeShim(base::EventLoop& loop, v1::BoxSpec spec) : loop_(loop), spec_(std::move(spec)) {}

    Result<void> start() {
        if (spec_.name() == "no-greeting") ::_exit(3);
        if (spec_.name() == "refuses")
            return base::make_error(ErrorCode::kResourceExhausted, "no room for a machine");
        lock_.emplace(TRY(base::FileLock::try_acquire(spec_.box_dir() + "/lock")));
        auto log = TRY(shim::OutputLog::create(spec_.box_dir() + "/logs/output.log"));
        for (int i = 1; i <= 5; ++i)
            TRY(log.append(i == 4 ? 1 : 0, i, base::as_bytes(fmt::format("line {}\n", i))));
        log_.emplace(std::move(log));
        listener_ = TRY(base::listen_unix(spec_.box_dir() + "/shim.sock"));
        TRY(loop_.watch(listener_.get(), EPOLLIN, [this](uint32_t) { accept(); }));
        if (spec_.detach()) return {};
        return loop_.watch(STDIN_FILENO, EPOLLIN | EPOLLRDHUP, [this](uint32_t) {
            loop_.unwatch(STDIN_FILENO);
            end(0, "the process that started the box has ended", false);
        });
    }

  private:
    void accept() {
        base::Fd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
        if (!socket.valid()) return;
        auto channel = rpc::Channel::make(
            loop_, std::move(socket),
            [this](const rpc::RequestView& request, rpc::Responder responder) {
                handle(request, std::move(responder));
            },
            nullptr);
        if (channel.ok()) clients_.push_back(std::move(channel).value());
    }

    void handle(const rpc::RequestView& request, rpc::Responder responder) {
        if (request.method == "Inspect") return responder.reply(status());
        if (request.method == "WaitReady") {
            if (spec_.name() != "boot-fails") return responder.reply(status());
            responder.fail(base::make_error(ErrorCode::kEngine, "the guest kernel panicked"));
            return end(0, "the guest kernel panicked", true);
        }
        if (request.method == "Stop") {
            responder.reply(v1::Empty());
            if (spec_.name() != "ignores-stop") end(7, "stopped on request", false);
            return;
        }
        if (request.method == "Start" && spec_.name() == "dies-at-exec") ::raise(SIGKILL);
        if (request.method == "Start") return responder.reply(v1::StartResponse());
        if (request.method == "Read") return read(std::move(responder));
        if (request.method == "ReadLog") return read_log(request, std::move(responder));
        responder.fail(base::make_error(ErrorCode::kUnsupported, "not faked: {}", request.method));
    }

    // What a program says: "abcdef" to who asks first, its end to the others.
    void read(rpc::Responder responder) {
        v1::ReadResponse response;
        if (!std::exchange(has_read_, true)) response.set_data("abcdef");
        responder.reply(response);
    }

    void read_log(const rpc::RequestView& request, rpc::Responder responder) {
        v1::ReadLogRequest message;
        (void)message.ParseFromArray(request.payload.data(), static_cast<int>(request.payload.size()));
        const auto slice = log_->read(message.offset(), 20);
        v1::ReadLogResponse response;
        for (const shim::LogRecord& record : slice->records) {
            v1::LogChunk* chunk = response.add_chunks();
            chunk->set_stream(static_cast<v1::Stream>(record.stream));
            chunk->set_time_ns(record.time_ns);
            chunk->set_data(record.data);
        }
        response.set_next_offset(slice->next);
        responder.reply(response);
    }

    v1::BoxStatus status() const {
        v1::BoxStatus status;
        status.set_state("running");
        status.set_shim_pid(::getpid());
        status.set_kernel("6.0-fake");
        status.add_jail("none");
        return status;
    }

    void end(int code, const std::string& reason, bool failed) {
        const std::string record =
            fmt::format(R"({{"code": {}, "signal": 0, "reason": "{}", "failed": {}, "finished_at": 42}})",
                        code, reason, failed);
        (void)base::write_file_atomically(spec_.box_dir() + "/exit.json", base::as_bytes(record));
        loop_.post([this] { loop_.stop(); });
    }

    base::EventLoop& loop_;
    v1::BoxSpec spec_;
    bool has_read_ = false;
    std::optional<base::FileLock> lock_;
    std::optional<shim::OutputLog> log_;
    base::Fd listener_;
    std::vector<std::shared_ptr<rpc::Channel>> clients_;
};

Result<void> run() {
    v1::BoxSpec spec;
    uint8_t first = 0;
    TRY(base::read_exact(STDIN_FILENO, {&first, 1}));
    TRY(rpc::read_sized(STDIN_FILENO, first, UINT32_MAX, spec));
    auto loop = TRY(base::EventLoop::make());
    FakeShim shim(*loop, std::move(spec));
    const auto started = shim.start();
    constexpr int kChangeLockFd = 3;
    ::close(kChangeLockFd);
    const std::string line =
        started.ok()
            ? "ok\n"
            : fmt::format("error {} {}\n", static_cast<int>(started.error().code), started.error().message);
    TRY(base::write_all(STDOUT_FILENO, base::as_bytes(line)));
    TRY(Result<void>(started));
    return loop->run();
}

}  // namespace

int main() {
    ::signal(SIGPIPE, SIG_IGN);
    const auto outcome = run();
    if (!outcome.ok()) std::fprintf(stderr, "fake_shim: %s\n", outcome.error().message.c_str());
    return outcome.ok() ? 0 : 1;
}
