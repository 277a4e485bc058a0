// What is in a folder of the home.
#pragma once

#include <string>
#include <vector>

namespace boxlite::runtime {

// Names that do not begin with a dot, in no order. A folder that is not there has none.
std::vector<std::string> names_in(const std::string& folder);

}  // namespace boxlite::runtime
