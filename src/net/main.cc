// boxlite-netd: the network of one box. Started by the box's supervisor, never by hand.
//   3  the box's ethernet frames, a SOCK_SEQPACKET socket
//   4  the supervisor: ttrpc, a stream socket
//   5  boxlite-tlsd, which looks into TLS connections: a SOCK_SEQPACKET socket; not open for a box without
//   6  the host's proxies: a file with a ProxyConfig; not open where there are none
#include <fcntl.h>
#include <signal.h>

#include <cstdio>

#include "base/event_loop.h"
#include "net/proxy_config.h"
#include "net/service.h"
#include "net/stack_memory.h"

namespace boxlite::net {
namespace {

constexpr int kFramesFd = 3, kControlFd = 4, kInterceptorFd = 5, kProxyFd = 6;

Result<void> run() {
    StackMemory::prepare();
    ::signal(SIGPIPE, SIG_IGN);
    // The supervisor decides when it is over; a terminal's signals are not for this process.
    ::signal(SIGINT, SIG_IGN);
    ::signal(SIGHUP, SIG_IGN);
    // Before any other descriptor takes the number.
    const bool intercepts = ::fcntl(kInterceptorFd, F_SETFD, FD_CLOEXEC) == 0;
    Proxies proxies;
    if (::fcntl(kProxyFd, F_SETFD, FD_CLOEXEC) == 0) proxies = TRY(read_proxies(base::Fd(kProxyFd)));
    const auto loop = TRY(base::EventLoop::make());
    base::Fd frames(kFramesFd), control(kControlFd);
    for (const int fd : {kFramesFd, kControlFd})
        if (::fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
            return base::errno_error(ErrorCode::kInternal, "use descriptor {}", fd);
    std::unique_ptr<Interceptor> interceptor;
    if (intercepts) interceptor = TRY(Interceptor::make(*loop, base::Fd(kInterceptorFd)));
    const auto service = TRY(Service::make(*loop, std::move(frames), std::move(control),
                                           std::move(interceptor), std::move(proxies)));
    return loop->run();
}

}  // namespace
}  // namespace boxlite::net

int main() {
    const auto outcome = boxlite::net::run();
    if (outcome.ok()) return 0;
    std::fprintf(stderr, "boxlite-netd: %s\n", outcome.error().message.c_str());
    return 1;
}
