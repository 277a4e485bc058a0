// Where a layer's bytes come from: a stored blob, or one that is still being downloaded.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/fd.h"
#include "base/result.h"

namespace boxlite::image {

// A forward-only stream of one blob as stored (compressed bytes). Used by one thread at a time.
class BlobReader {
  public:
    virtual ~BlobReader() = default;
    // Fills up to buffer.size() bytes and returns how many; waits for at least one. 0 is the end. Whatever
    // was made of earlier bytes must be dropped when a later read fails.
    virtual Result<size_t> read(std::span<uint8_t> buffer) = 0;
    // Whether the end is reported only once the blob's size and digest have been compared, so that nobody
    // has to do so again. Known after the first read.
    virtual bool verifies() const { return false; }
};

// Reads a file, for instance Store::open_blob().
class FileBlobReader : public BlobReader {
  public:
    explicit FileBlobReader(base::Fd fd) : fd_(std::move(fd)) {}
    Result<size_t> read(std::span<uint8_t> buffer) override;

  private:
    base::Fd fd_;
};

}  // namespace boxlite::image
