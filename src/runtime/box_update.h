// Changing what a box is configured as, for its next start and, where it runs, at once. When its supervisor
// refuses, all stays as it was.
#pragma once

#include "runtime/box_impl.h"

namespace boxlite::runtime {

Result<void> set_network_rules(const BoxImpl& box, const NetworkRules& rules);
Result<void> set_memory(const BoxImpl& box, uint32_t mib);

}  // namespace boxlite::runtime
