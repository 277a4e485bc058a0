// Images from files: OCI layouts (a directory or a tar archive) and `docker save` archives (with
// manifest.json, or the older layout with "repositories"), compressed or not.
#pragma once

#include <cstdint>
#include <stop_token>
#include <string>
#include <vector>

#include "image/store.h"

namespace boxlite::image {

struct ImportOptions {
    // The name for an image whose archive has none or only a tag; needed only where the archive has none and
    // its file name makes no valid name either. With a tag, it replaces the name of an archive's only image.
    std::string name;
    Platform platform = Platform::host();
    uint64_t max_bytes = uint64_t{64} << 30;  // of unpacked archive content
    std::stop_token stop;
};

// Records every image found and returns them. Nothing is recorded when any image of the archive is broken.
// Names inside an archive are never used as file names. Errors: kNotFound, kImage, kStorage, kStopped,
// kResourceExhausted (max_bytes).
Result<std::vector<StoredImage>> import_images(Store& store, const std::string& path,
                                               const ImportOptions& options = {});

}  // namespace boxlite::image
