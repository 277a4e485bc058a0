// Boxes that begin as another one is, or was.
#pragma once

#include <memory>
#include <string>

#include "runtime/box_impl.h"

namespace boxlite::runtime {

// A box like `parent` with a disk that begins as `layer`, not started. The caller shares the bases lock.
Result<std::shared_ptr<BoxImpl>> make_child(const BoxImpl& parent, const std::string& layer,
                                            const std::string& name);

// Of machine-id(5).
std::string new_machine_id();

}  // namespace boxlite::runtime
