// Capability names and the sets that containers get. capabilities(7).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace boxlite::agent {

// Bit n is capability n of <linux/capability.h>.
using CapabilitySet = uint64_t;

inline constexpr CapabilitySet kAllCapabilities = ~CapabilitySet{0};

// The fourteen that Docker gives by default.
extern const CapabilitySet kDefaultCapabilities;

// `base` with `add` and without `drop`. Names in any case, with or without "CAP_"; "ALL" stands for every
// capability, and single names then correct it. kInvalidArgument for an unknown name.
Result<CapabilitySet> capability_set(CapabilitySet base, const std::vector<std::string>& add,
                                     const std::vector<std::string>& drop);

// Leaves the calling thread, and what it starts from now on, at most `set` to gain.
Result<void> limit_bounding_set(CapabilitySet set);

}  // namespace boxlite::agent
