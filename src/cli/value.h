// What the CLI prints: a tree of values whose members keep their order.
#pragma once

#include <nlohmann/json.hpp>

namespace boxlite::cli {

using Value = nlohmann::ordered_json;

}  // namespace boxlite::cli
