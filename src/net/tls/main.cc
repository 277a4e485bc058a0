// boxlite-tlsd: looks into the TLS connections of one box that need it, and has the values of the box's
// secrets. It has no network and no files: connections are handed to it, open. Started by the box's
// supervisor, never by hand.
//   3  the supervisor: ttrpc, a stream socket
//   4  boxlite-netd: a SOCK_SEQPACKET socket
//   5  a listening unix socket for those who bring the values
#include <fcntl.h>
#include <signal.h>

#include <cstdio>

#include "base/event_loop.h"
#include "net/tls/service.h"

namespace boxlite::net::tls {
namespace {

constexpr int kControlFd = 3, kNetdFd = 4, kSecretsFd = 5;

Result<void> run() {
    ::signal(SIGPIPE, SIG_IGN);
    // The supervisor decides when it is over; a terminal's signals are not for this process.
    ::signal(SIGINT, SIG_IGN);
    ::signal(SIGHUP, SIG_IGN);
    const auto loop = TRY(base::EventLoop::make());
    base::Fd control(kControlFd), netd(kNetdFd), secrets(kSecretsFd);
    for (const int fd : {kControlFd, kNetdFd, kSecretsFd})
        if (::fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
            return base::errno_error(ErrorCode::kInternal, "use descriptor {}", fd);
    const auto service = TRY(Service::make(*loop, std::move(control), std::move(netd), std::move(secrets)));
    return loop->run();
}

}  // namespace
}  // namespace boxlite::net::tls

int main() {
    const auto outcome = boxlite::net::tls::run();
    if (outcome.ok()) return 0;
    std::fprintf(stderr, "boxlite-tlsd: %s\n", outcome.error().message.c_str());
    return 1;
}
