#include "cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

namespace boxlite::cli {

bool is_terminal(int fd) {
    return ::isatty(fd) == 1;
}

std::optional<TerminalSize> terminal_size(int fd) {
    winsize size{};
    if (::ioctl(fd, TIOCGWINSZ, &size) < 0 || size.ws_row == 0 || size.ws_col == 0) return std::nullopt;
    return TerminalSize{size.ws_row, size.ws_col};
}

RawMode::RawMode(int fd) : fd_(fd) {
    known_ = ::tcgetattr(fd_, &saved_) == 0;
    enter();
}

void RawMode::enter() {
    if (!known_ || raw_) return;
    termios raw = saved_;
    ::cfmakeraw(&raw);
    raw_ = ::tcsetattr(fd_, TCSADRAIN, &raw) == 0;
}

void RawMode::leave() {
    if (!raw_) return;
    ::tcsetattr(fd_, TCSADRAIN, &saved_);
    raw_ = false;
}

}  // namespace boxlite::cli
