// A chain of overlays made one.
#pragma once

#include "disk/qcow2.h"

namespace boxlite::disk {

// Makes a new image at `to` that reads as the one at `from` and stands on what is at the bottom of its chain,
// with nothing in between. Durable when it returns; after an error there is nothing at `to`. The two must be
// in folders from which the name of the bottom image leads to the same file. `from` may be in use for
// reading.
Result<void> flatten_qcow2(const std::string& from, const std::string& to,
                           const std::vector<std::string>& backing_dirs);

}  // namespace boxlite::disk
