// Captured memory on disk: a sparse file for each of its layers.
#pragma once

#include <string>

#include "base/result.h"
#include "rpc/box.pb.h"

namespace boxlite::runtime {

// What counts of a layer, whose memory is in the file `memory`, into the empty `file` of `bytes`.
Result<void> write_layer_file(int file, int memory, const v1::MemoryLayer& layer, uint64_t bytes);

// sha256, in hex, of the pages that are not all zeroes, each after its offset (64 bits, little endian): the
// same however sparse the file is.
Result<std::string> memory_file_sha256(int file);

}  // namespace boxlite::runtime
