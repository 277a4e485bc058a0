// A stream socket to listen on, as a user names it.
#pragma once

#include <string>

#include "base/fd.h"

namespace boxlite::cli {

struct Listener {
    base::Fd socket;    // not blocking
    std::string shown;  // with the port that the host chose
    std::string path;   // of a unix socket, for its user to remove; else empty
};

// "PORT" (on 127.0.0.1), "ADDRESS:PORT", "[IPV6]:PORT"; port 0: the host chooses. "unix:/PATH": only for this
// user. Changes the umask for a moment: for a process without other threads.
Result<Listener> listen_on(const std::string& text);

}  // namespace boxlite::cli
