// Large files on their way to disk.
#pragma once

#include <cstdint>

namespace boxlite::base {

// Has the host write a growing file to disk piece by piece, so that the sync at its end finds little left.
class WriteBehind {
  public:
    // After `bytes` more have been written to `fd`. A hint: its failure changes nothing.
    void wrote(int fd, uint64_t bytes);

  private:
    uint64_t waiting_ = 0;
};

}  // namespace boxlite::base
