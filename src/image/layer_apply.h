// Applies one layer's entries to the root below it: OCI image specification 1.1, "Image Layer Filesystem
// Changeset".
#pragma once

#include <cstdint>

#include "image/layer_root.h"
#include "image/layer_tar.h"

namespace boxlite::image {

// Applies all entries of `archive` as the next layer of `root` and returns how many there were.
//  - an entry replaces what has its path, except that a directory keeps its content and gets new attributes;
//    of entries with the same path the last one counts
//  - ".wh.x" removes x, ".wh..wh..opq" all content of its directory; both only what lower layers put there
//  - a hard link's target must exist within the root and not be a directory
// kImage for entries that break a rule; kResourceExhausted past `max_entries` or when the image is full.
Result<uint64_t> apply_layer(ImageRoot& root, TarReader& archive, uint64_t max_entries);

}  // namespace boxlite::image
