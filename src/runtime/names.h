// Names of boxes.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace boxlite::runtime {

// ^[a-zA-Z0-9][a-zA-Z0-9._-]*$, 1 to 128 characters.
Result<void> check_name(std::string_view name);

// "brave_otter": an adjective and an animal; with `attempt` > 0 a number follows.
std::string make_name(int attempt);

}  // namespace boxlite::runtime
