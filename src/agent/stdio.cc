#include "agent/stdio.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

namespace boxlite::agent {

namespace {

constexpr gid_t kTtyGroup = 5;

Result<void> make_nonblocking(const base::Fd& fd) {
    if (::fcntl(fd.get(), F_SETFL, O_NONBLOCK) < 0)
        return base::errno_error(ErrorCode::kInternal, "change a pipe's blocking mode");
    return {};
}

// A pipe whose write end is the child's stream `number`; the read end is ours.
Result<base::Fd> output_pipe(Stdio& stdio, size_t number) {
    base::FdPair pipe = TRY(base::make_pipe());
    TRY(make_nonblocking(pipe.first));
    stdio.child[number] = pipe.second.get();
    stdio.owned.push_back(std::move(pipe.second));
    return std::move(pipe.first);
}

}  // namespace

Result<Stdio> make_pipes(bool with_input) {
    Stdio stdio;
    if (with_input) {
        base::FdPair pipe = TRY(base::make_pipe());
        TRY(make_nonblocking(pipe.second));
        stdio.in = std::move(pipe.second);
        stdio.owned.push_back(std::move(pipe.first));
    } else {
        stdio.owned.push_back(TRY(base::open_file("/dev/null", O_RDONLY)));
    }
    stdio.child[0] = stdio.owned.back().get();
    stdio.out = TRY(output_pipe(stdio, 1));
    stdio.err = TRY(output_pipe(stdio, 2));
    return stdio;
}

Result<Stdio> make_terminal(const Container& container, const v1::Tty& size, const User& user) {
    Stdio stdio;
    stdio.out.reset(::openat(container.terminals_fd(), "ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK));
    if (!stdio.out.valid())
        return base::errno_error(ErrorCode::kInternal, "open a terminal in the container");
    const int locked = 0;
    if (::ioctl(stdio.out.get(), TIOCSPTLCK, &locked) < 0)
        return base::errno_error(ErrorCode::kInternal, "unlock a terminal");
    base::Fd peer(::ioctl(stdio.out.get(), TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC));
    if (!peer.valid()) return base::errno_error(ErrorCode::kInternal, "open the far side of a terminal");
    if (::fchown(peer.get(), user.uid, kTtyGroup) < 0)
        return base::errno_error(ErrorCode::kInternal, "give a terminal to user {}", user.uid);
    TRY(resize_terminal(stdio.out.get(), size));
    stdio.in = TRY(stdio.out.duplicate());
    stdio.child.fill(peer.get());
    stdio.owned.push_back(std::move(peer));
    return stdio;
}

Result<void> resize_terminal(int master, const v1::Tty& size) {
    winsize window{};
    window.ws_row = static_cast<unsigned short>(std::min(size.rows(), 0xffffu));
    window.ws_col = static_cast<unsigned short>(std::min(size.cols(), 0xffffu));
    if (::ioctl(master, TIOCSWINSZ, &window) < 0)
        return base::errno_error(ErrorCode::kInternal, "resize a terminal");
    return {};
}

}  // namespace boxlite::agent
