// A disk whose bytes are a file's bytes, such as an ext4 base image.
#pragma once

#include <memory>
#include <string>

#include "base/fd.h"
#include "disk/block_backend.h"
#include "disk/block_io.h"

namespace boxlite::disk {

class RawFile final : public BlockBackend {
  public:
    // Regular files only; a symbolic link as the last part of `path` is refused. The file is locked
    // (flock, shared when read only) until the object goes: kInvalidState when it is in use.
    static Result<std::unique_ptr<RawFile>> open(const std::string& path, bool read_only);

    // On an already opened file.
    static Result<std::unique_ptr<RawFile>> on(std::unique_ptr<BlockIo> io, bool read_only);

    Result<void> readv(uint64_t offset, std::span<const iovec> into) override;
    Result<void> writev(uint64_t offset, std::span<const iovec> from) override;
    Result<void> discard(uint64_t offset, uint64_t length) override;
    Result<void> write_zeroes(uint64_t offset, uint64_t length) override;
    Result<void> flush() override;
    uint64_t size() const override { return size_; }
    bool read_only() const override { return read_only_; }

  private:
    RawFile(std::unique_ptr<BlockIo> io, uint64_t size, bool read_only)
        : io_(std::move(io)), size_(size), read_only_(read_only), unsynced_(!read_only) {}
    Result<void> check_change(uint64_t offset, uint64_t length) const;

    std::unique_ptr<BlockIo> io_;
    uint64_t size_;
    bool read_only_;
    bool unsynced_;  // also at the start: another process may have left bytes that are not on disk
};

}  // namespace boxlite::disk
