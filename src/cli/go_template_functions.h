// The functions of Go templates.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/value.h"

namespace boxlite::cli {

bool is_template_function(std::string_view name);
// Go's notion: not false, 0, "", null, or an empty list or map.
bool is_truthy(const Value& value);
Result<Value> call_template_function(std::string_view name, const std::vector<Value>& args);

}  // namespace boxlite::cli
