// Where a backing file is, and whether it may be there.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "disk/qcow2_format.h"

namespace boxlite::disk::qcow2 {

struct BackingFile {
    std::string path;    // absolute, without "." and ".."
    std::string folder;  // that holds it
    std::unique_ptr<BlockIo> io;
};

// Opens for reading the file that an image in `folder` names. It must lie in one of `dirs`, by its path as
// written and without following a symbolic link below that directory; kInvalidArgument otherwise.
// `above` are the paths of the images above: naming one of them is a loop.
Result<BackingFile> open_backing(const Backing& backing, const std::string& folder,
                                 const std::vector<std::string>& dirs, const std::vector<std::string>& above);

// Absolute and without "." and "..", by its letters alone.
std::string absolute_path(const std::string& path);

}  // namespace boxlite::disk::qcow2
