// Making a box.
#pragma once

#include "boxlite/image.h"
#include "runtime/box_impl.h"

namespace boxlite::runtime {

Result<void> check_memory(uint32_t mib);

// The record is written last: after a crash at any moment before it, only a folder is left, which the next
// creation collects.
Result<BoxConfig> create_box(RuntimeImpl& runtime, const BoxOptions& options, const ProgressSink& progress);

// The same for a box whose configuration is known; `name` empty: one is made up. `make_disk` gets the path.
Result<BoxConfig> add_box(RuntimeImpl& runtime, BoxConfig config, const std::string& name,
                          const std::function<Result<void>(const std::string&)>& make_disk);

}  // namespace boxlite::runtime
