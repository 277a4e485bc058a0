// Large files on their way to disk.
#pragma once

#include <cstdint>
#include <memory>

namespace boxlite::base {

// Syncs a growing file from time to time beside its writer, so that the sync at its end finds little left to
// do.
class WriteBehind {
  public:
    WriteBehind();
    // Waits for a sync that goes on.
    ~WriteBehind();
    WriteBehind(WriteBehind&&) noexcept;
    WriteBehind& operator=(WriteBehind&&) noexcept;

    // After `bytes` more have been written to `fd`, which stays open as long as this lives. A hint: its
    // failure changes nothing.
    void wrote(int fd, uint64_t bytes);

  private:
    class Syncer;
    std::unique_ptr<Syncer> syncer_;  // from the first piece on
    uint64_t waiting_ = 0;
};

}  // namespace boxlite::base
