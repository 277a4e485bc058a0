// Changing what a box may connect to.
#pragma once

#include "runtime/box_impl.h"

namespace boxlite::runtime {

Result<void> set_network_rules(const BoxImpl& box, const NetworkRules& rules);

}  // namespace boxlite::runtime
