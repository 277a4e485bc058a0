// An append-only log file of bounded size: when it is full it becomes <path>.1, in place of the one before.
// Not thread safe.
#pragma once

#include <string>

#include "base/bytes.h"
#include "base/fd.h"

namespace boxlite::shim {

class RotatingFile {
  public:
    // Starts empty: what an earlier run left is removed. `max_bytes` is the size of each of the two files.
    static Result<RotatingFile> create(const std::string& path, uint64_t max_bytes);

    // Data larger than a whole file is refused. A full host disk loses the data and says so.
    Result<void> append(base::ByteView data);

    // Total ever appended, and the oldest position that can still be read.
    uint64_t end() const { return current_start_ + current_size_; }
    uint64_t start() const { return older_start_; }

    // Reads at a position in [start(), end()); never across the border of the two files.
    Result<size_t> read(uint64_t position, std::span<uint8_t> out) const;

  private:
    RotatingFile(std::string path, uint64_t max_bytes, base::Fd current)
        : path_(std::move(path)), max_bytes_(max_bytes), current_(std::move(current)) {}
    Result<void> rotate();

    std::string path_;
    uint64_t max_bytes_;
    base::Fd current_;
    base::Fd older_;
    uint64_t current_start_ = 0;
    uint64_t current_size_ = 0;
    uint64_t older_start_ = 0;
};

}  // namespace boxlite::shim
