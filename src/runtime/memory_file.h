// A captured memory as one sparse file.
#pragma once

#include <string>

#include "runtime/capture.h"

namespace boxlite::runtime {

// All layers of `machine`, each over those before it, into the empty `file` of `bytes`.
Result<void> write_memory_file(int file, const CapturedMachine& machine, uint64_t bytes);

// sha256, in hex, of the pages that are not all zeroes, each after its offset (64 bits, little endian): the
// same however sparse the file is.
Result<std::string> memory_file_sha256(int file);

}  // namespace boxlite::runtime
