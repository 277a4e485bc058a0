// Bases: the immutable ext4 file systems under boxes' disks, one for each set of layers (and size, for disks
// that are smaller than usual), built once.
// Thread safe, and safe for any number of processes: those that need the same base wait for the first.
#pragma once

#include <string>

#include "base/file.h"
#include "boxlite/image.h"
#include "image/store.h"
#include "runtime/runtime_impl.h"

namespace boxlite::runtime {

// A file system cannot shrink, and one that must grow costs time at the first start: most boxes take this
// size.
inline constexpr uint64_t kUsualDiskGb = 10;

std::string base_path(const Home& home, const std::string& base);
// Held while a base is being built.
std::string base_lock_path(const Home& home, const std::string& base);

// An image with its base, which stays while this lives even if nothing else needs it.
struct PreparedImage {
    image::StoredImage stored;
    std::string base;  // the name of its file: the chain id's hex digits, with "-<n>g" for a small one
    base::FileLock lease;
};

// Finds the image, or fetches it when the policy says so; builds its base when it is missing, while the
// layers are arriving. `name` is a reference, an id, or "base" for the image that BoxLite brings along.
Result<PreparedImage> prepare_image(RuntimeImpl& runtime, const std::string& name, PullPolicy policy,
                                    uint64_t disk_gb, const ProgressSink& progress);

// The base of an image that is in the store.
Result<PreparedImage> prepare_stored(RuntimeImpl& runtime, image::StoredImage stored, uint64_t disk_gb,
                                     const ProgressSink& progress);

}  // namespace boxlite::runtime
