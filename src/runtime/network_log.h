// What a box's network did, read from the files that its supervisor writes: a JSON object a line.
#pragma once

#include <functional>

#include "runtime/box_impl.h"

namespace boxlite::runtime {

Result<void> read_network_log(const BoxImpl& box, const LogOptions& options,
                              const std::function<bool(const FlowRecord&)>& sink);

}  // namespace boxlite::runtime
