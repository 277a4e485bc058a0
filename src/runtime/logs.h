// The kept output of a box's main process, read from a running supervisor or from its file.
#pragma once

#include <functional>

#include "runtime/box_impl.h"

namespace boxlite::runtime {

Result<void> read_logs(const BoxImpl& box, const LogOptions& options,
                       const std::function<bool(const LogEntry&)>& sink);

}  // namespace boxlite::runtime
