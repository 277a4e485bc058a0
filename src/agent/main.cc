// boxlite-agent: PID 1 of a box's machine. Connects to the shim over vsock, serves it, and switches the
// machine off when the connection ends.
//
//   boxlite-agent              as /init of the initramfs
//   boxlite-agent --serve-fd N serves on an inherited, connected stream socket and exits at its end; the
//                              machine is left as it is. For trying the services out on a host, as root
//                              under `unshare --mount --pid --uts --ipc --fork`.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>

#include "agent/guest.h"
#include "agent/machine.h"

namespace boxlite::agent {
namespace {

// The console, where the shim looks for the cause of a failed boot.
void complain(const Error& error) {
    dprintf(STDERR_FILENO, "boxlite-agent: %s\n", error.message.c_str());
}

// Standard input, output and error are never free numbers: what a child gets lies above them.
void occupy_stdio() {
    for (;;) {
        const int fd = ::open("/dev/null", O_RDWR | O_CLOEXEC);
        if (fd < 0 || fd > STDERR_FILENO) {
            if (fd >= 0) ::close(fd);
            return;
        }
    }
}

void prepare_process() {
    occupy_stdio();
    ::umask(0);
    // Blocked rather than ignored: children start with an empty mask and default actions.
    sigset_t all;
    sigfillset(&all);
    ::sigprocmask(SIG_SETMASK, &all, nullptr);
}

// Serves one host after another: a machine that goes on from a snapshot has lost the connection that it had
// and finds its new supervisor at the same place. `dial` gives none when there is no other host.
class Server {
  public:
    Server(base::EventLoop& loop, std::function<Result<base::Fd>()> dial)
        : loop_(loop), guest_(loop), dial_(std::move(dial)) {}

    Result<void> serve(base::Fd stream) {
        channel_ = TRY(rpc::Channel::make(
            loop_, std::move(stream),
            [this](const rpc::RequestView& request, rpc::Responder responder) {
                guest_.dispatch(request, std::move(responder));
            },
            // Not from inside the channel that ends.
            [this](const Error&) { loop_.post([this] { lost(); }); }));
        return {};
    }

  private:
    void lost() {
        guest_.host_lost();
        if (!guest_.left()) {
            auto stream = dial_();
            if (stream && serve(std::move(stream).value())) return;
        }
        guest_.abandon([this] { loop_.stop(); });
    }

    base::EventLoop& loop_;
    Guest guest_;
    std::function<Result<base::Fd>()> dial_;
    std::shared_ptr<rpc::Channel> channel_;
};

Result<void> serve(base::Fd stream, std::function<Result<base::Fd>()> dial) {
    const auto loop = TRY(base::EventLoop::make());
    Server server(*loop, std::move(dial));
    TRY(server.serve(std::move(stream)));
    return loop->run();
}

Result<void> run_machine() {
    TRY(prepare_machine());
    return serve(TRY(connect_to_host()), connect_to_host);
}

Error no_other_host() {
    return {ErrorCode::kPortal, "the host has closed the connection"};
}

std::optional<int> parse_fd(const char* text) {
    int fd = 0;
    const char* end = text + std::strlen(text);
    const auto [at, error] = std::from_chars(text, end, fd);
    if (error != std::errc() || at != end || fd <= STDERR_FILENO) return std::nullopt;
    return fd;
}

int run(int argc, char** argv) {
    if (argc == 3 && std::strcmp(argv[1], "--serve-fd") == 0) {
        const auto fd = parse_fd(argv[2]);
        if (!fd || ::fcntl(*fd, F_SETFD, FD_CLOEXEC) < 0) {
            complain({ErrorCode::kInvalidArgument, "--serve-fd wants the number of an open socket above 2"});
            return 2;
        }
        prepare_process();
        const auto served = serve(base::Fd(*fd), [] { return Result<base::Fd>(no_other_host()); });
        if (!served) complain(served.error());
        return served ? 0 : 1;
    }
    if (::getpid() != 1) {
        complain(
            {ErrorCode::kInvalidArgument, "this program is a machine's PID 1; see --serve-fd in its source"});
        return 2;
    }
    prepare_process();
    if (const auto done = run_machine(); !done) complain(done.error());
    power_off();
}

}  // namespace
}  // namespace boxlite::agent

int main(int argc, char** argv) {
    return boxlite::agent::run(argc, argv);
}
