#include "base/write_behind.h"

#include <fcntl.h>

namespace boxlite::base {

namespace {

constexpr uint64_t kPiece = uint64_t{8} << 20;

}  // namespace

void WriteBehind::wrote(int fd, uint64_t bytes) {
    waiting_ += bytes;
    if (waiting_ < kPiece) return;
    waiting_ = 0;
    (void)::sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE);
}

}  // namespace boxlite::base
