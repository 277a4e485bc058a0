// Published ports as text: [ADDRESS:][HOST]:BOX[/tcp|udp], or BOX alone; HOST and BOX may be ranges of the
// same length, and an IPv6 address is put into brackets.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "boxlite/options.h"

namespace boxlite::runtime {

// What a user wrote: one mapping for each port of a range. kInvalidArgument.
Result<std::vector<PortMapping>> parse_ports(std::string_view text);

// One mapping in its full form, "127.0.0.1:8080:80/tcp".
std::string to_text(const PortMapping& port);

}  // namespace boxlite::runtime
