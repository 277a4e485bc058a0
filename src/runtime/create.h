// Making a box.
#pragma once

#include "boxlite/image.h"
#include "runtime/box_impl.h"

namespace boxlite::runtime {

// The record is written last: after a crash at any moment before it, only a folder is left, which the next
// creation collects.
Result<BoxConfig> create_box(RuntimeImpl& runtime, const BoxOptions& options, const ProgressSink& progress);

}  // namespace boxlite::runtime
