// Layers: disks as they were when a box was captured, immutable. Boxes and snapshots
// stand on them, and so do other layers; a layer that nothing stands on goes.
#pragma once

#include <string>

#include "runtime/runtime_impl.h"

namespace boxlite::runtime {

// Of a file that no layer has.
std::string new_layer_name();
std::string layer_path(const Home& home, const std::string& layer);

// Whether another disk can stand on `disk`: only so many can be opened at once. kResourceExhausted otherwise.
Result<void> check_depth(const Home& home, const std::string& disk);

// Gives `disk`, which nobody uses, another link as `layer`, and puts an empty disk on top of it in its place.
// After a crash at any moment the disk is the old one or the new one. The caller shares the bases lock.
Result<void> freeze_disk(const Home& home, const std::string& disk, const std::string& layer);

// A new disk at `path` that begins as `layer`. The caller shares the bases lock.
Result<void> make_disk_on(const Home& home, const std::string& layer, const std::string& path);

// Where `layer` stands on many others it is written anew, to stand on the image alone: a disk on top of it
// would be slow otherwise, and at last could not be opened. It reads as before, also to those who have it
// open. What it costs is the room of what was written since the image. An error is logged and changes
// nothing. The caller shares the bases lock.
void shorten_chain(const Home& home, const std::string& layer);

// Removes the layers that no disk of a box and no snapshot needs. The caller holds the bases lock alone.
void collect_unused_layers(const Home& home);

}  // namespace boxlite::runtime
