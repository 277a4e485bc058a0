// Files with holes.
#pragma once

#include <functional>

#include "base/bytes.h"
#include "base/result.h"

namespace boxlite::base {

// Calls `use` with each piece of data of `file` between two offsets, in order, in whole pages of 4 KiB and at
// most 1 MiB at once. Holes are passed over; what is shown may still be all zeroes.
Result<void> for_each_data(int file, uint64_t from, uint64_t to,
                           const std::function<Result<void>(uint64_t at, ByteView data)>& use);

}  // namespace boxlite::base
