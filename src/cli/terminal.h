// The user's terminal.
#pragma once

#include <termios.h>

#include <optional>

#include "boxlite/options.h"

namespace boxlite::cli {

bool is_terminal(int fd);
// Of the terminal on `fd`; nullopt when it is none or does not know.
std::optional<TerminalSize> terminal_size(int fd);

// Passes every key on as it is, for as long as the object lives.
class RawMode {
  public:
    explicit RawMode(int fd);
    RawMode(const RawMode&) = delete;
    RawMode& operator=(const RawMode&) = delete;
    ~RawMode() { leave(); }

    void enter();
    void leave();

  private:
    const int fd_;
    bool known_ = false;
    bool raw_ = false;
    termios saved_{};
};

}  // namespace boxlite::cli
