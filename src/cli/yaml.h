// YAML 1.2 in block style, of values that JSON can hold.
#pragma once

#include <string>

#include "cli/value.h"

namespace boxlite::cli {

// Ends with a newline.
std::string to_yaml(const Value& value);

}  // namespace boxlite::cli
