#include "cli/network_tunnel.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <list>
#include <thread>

#include "base/bytes.h"
#include "cli/listener.h"
#include "cli/output.h"

namespace boxlite::cli {

namespace {

constexpr size_t kChunk = size_t{256} << 10;

// From the box until its side ends.
Result<void> pump_out(Tunnel& tunnel, int fd) {
    for (;;) {
        const std::string data = TRY(tunnel.read(kChunk));
        if (data.empty()) return {};
        TRY(base::write_all(fd, base::as_bytes(data)));
    }
}

// To the box, until the end of `fd`, or `stop` (a descriptor, or -1) can be read.
Result<void> pump_in(Tunnel& tunnel, int fd, int stop) {
    std::string data(kChunk, '\0');
    for (;;) {
        pollfd entries[] = {{fd, POLLIN, 0}, {stop, POLLIN, 0}};
        if (::poll(entries, 2, -1) < 0 && errno != EINTR)
            return base::errno_error(ErrorCode::kInternal, "wait for input");
        if (entries[1].revents) return {};
        if (!entries[0].revents) continue;
        const ssize_t n = ::read(fd, data.data(), data.size());
        if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (n < 0) return base::errno_error(ErrorCode::kNetwork, "read the tunnel's input");
        if (n == 0) return tunnel.close_write();
        TRY(tunnel.write(std::string_view(data).substr(0, static_cast<size_t>(n))));
    }
}

// An accepted connection and its tunnel, each way in a thread of its own.
class Relay {
  public:
    Relay(Box box, uint16_t port, base::Fd socket)
        : box_(std::move(box)), port_(port), socket_(std::move(socket)) {
        thread_ = std::jthread([this] { run(); });
    }
    bool done() const { return done_; }

  private:
    void run() {
        if (auto tunnel = box_.tunnel(port_); tunnel.ok())
            carry(*tunnel);
        else
            print_error(tunnel.error().message);
        ::shutdown(socket_.get(), SHUT_RDWR);
        done_ = true;
    }

    void carry(Tunnel& tunnel) {
        std::jthread in([this, &tunnel] {
            // Its peer has gone in the middle: so does the box's.
            if (const auto sent = pump_in(tunnel, socket_.get(), -1);
                !sent.ok() && sent.error().code != ErrorCode::kInvalidState)
                tunnel.disconnect();
        });
        // Half of the connection may go on: some programs read on after they have said all.
        const bool ended = pump_out(tunnel, socket_.get()).ok();
        ::shutdown(socket_.get(), ended ? SHUT_WR : SHUT_RDWR);
    }

    Box box_;
    const uint16_t port_;
    base::Fd socket_;
    std::atomic<bool> done_ = false;
    std::jthread thread_;
};

Result<base::Fd> take_end_signals() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
    base::Fd fd(::signalfd(-1, &set, SFD_CLOEXEC));
    if (!fd.valid()) return base::errno_error(ErrorCode::kInternal, "receive signals");
    return fd;
}

// As if it had not been caught. What the other threads carry ends with the process.
void end_by(int number) {
    ::signal(number, SIG_DFL);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, number);
    ::raise(number);
    ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

}  // namespace

Result<int> tunnel_standard_streams(Box& box, uint16_t port) {
    Tunnel tunnel = TRY(box.tunnel(port));
    const base::Fd stop = TRY(base::make_eventfd());
    std::jthread in([&] {
        // A program that takes no more may still have something to say.
        (void)pump_in(tunnel, STDIN_FILENO, stop.get());
    });
    const auto received = pump_out(tunnel, STDOUT_FILENO);
    tunnel.disconnect();
    const uint64_t one = 1;
    (void)!::write(stop.get(), &one, sizeof one);
    in.join();
    if (received.ok()) return 0;
    if (received.error().code == ErrorCode::kStorage) return kExitBrokenPipe;
    return received.error();
}

Result<int> tunnel_listener(Box& box, uint16_t port, const std::string& address) {
    // Told here, rather than to everyone who connects.
    if (TRY(box.info()).status != BoxStatus::kRunning)
        return base::make_error(ErrorCode::kStopped,
                                "box '{}' is not running; start it with `boxlite start {}`", box.name(),
                                box.name());
    // Before any thread is made: all of them inherit the mask, so the signals arrive here alone.
    const base::Fd signals = TRY(take_end_signals());
    const Listener listener = TRY(listen_on(address));
    std::list<Relay> relays;
    (void)write_out(listener.shown + "\n");
    for (;;) {
        pollfd entries[] = {{signals.get(), POLLIN, 0}, {listener.socket.get(), POLLIN, 0}};
        if (::poll(entries, 2, -1) < 0 && errno != EINTR)
            return base::errno_error(ErrorCode::kInternal, "wait for connections");
        if (signalfd_siginfo info;
            entries[0].revents && ::read(signals.get(), &info, sizeof info) == sizeof info) {
            if (!listener.path.empty()) ::unlink(listener.path.c_str());
            end_by(static_cast<int>(info.ssi_signo));
        }
        relays.remove_if([](const Relay& relay) { return relay.done(); });
        base::Fd socket(::accept4(listener.socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
        if (socket.valid()) relays.emplace_back(box, port, std::move(socket));
    }
}

}  // namespace boxlite::cli
