// `boxlite network tunnel`: connections to a port inside a box, on standard input and output or on an address
// that this process listens on.
#pragma once

#include <string>

#include "boxlite/box.h"

namespace boxlite::cli {

// One connection, which is this process's standard streams. Returns the exit code when the box's side ends.
Result<int> tunnel_standard_streams(Box& box, uint16_t port);

// Opens a connection for each that comes to `address` ("PORT", "ADDRESS:PORT" or "unix:/PATH"), whose actual
// form is printed. Ends only by SIGINT or SIGTERM, whose default action follows, or with an error. Changes
// the calling process's signal mask.
Result<int> tunnel_listener(Box& box, uint16_t port, const std::string& address);

}  // namespace boxlite::cli
