// Completion scripts, made from the table of commands.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace boxlite::cli {

// `shell` is bash, zsh or fish.
Result<std::string> completion_script(std::string_view shell);

}  // namespace boxlite::cli
