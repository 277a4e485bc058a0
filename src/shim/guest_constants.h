// What the supervisor and the agent agree on.
#pragma once

#include <cstdint>

namespace boxlite::shim {

inline constexpr uint32_t kAgentPort = 2695;  // vsock, on the host's side
inline constexpr char kDiskSerial[] = "boxlite-root";

}  // namespace boxlite::shim
