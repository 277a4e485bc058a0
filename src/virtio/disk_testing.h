// For tests: a disk in memory that fails when it is told to.
#pragma once

#include <algorithm>

#include "base/bytes.h"
#include "disk/block_backend.h"

namespace boxlite::virtio::testing {

class MemoryDisk final : public disk::BlockBackend {
  public:
    explicit MemoryDisk(uint64_t size, bool read_only = false) : content_(size), read_only_(read_only) {}

    base::Bytes& content() { return content_; }
    size_t flushes() const { return flushes_; }
    void fail(bool on) { failing_ = on; }

    Result<void> readv(uint64_t offset, std::span<const iovec> into) override {
        TRY(usable());
        for (const iovec& part : into) {
            std::copy_n(content_.begin() + static_cast<ptrdiff_t>(offset), part.iov_len,
                        static_cast<uint8_t*>(part.iov_base));
            offset += part.iov_len;
        }
        return {};
    }
    Result<void> writev(uint64_t offset, std::span<const iovec> from) override {
        TRY(usable());
        for (const iovec& part : from) {
            std::copy_n(static_cast<const uint8_t*>(part.iov_base), part.iov_len,
                        content_.begin() + static_cast<ptrdiff_t>(offset));
            offset += part.iov_len;
        }
        return {};
    }
    Result<void> discard(uint64_t offset, uint64_t length) override { return write_zeroes(offset, length); }
    Result<void> write_zeroes(uint64_t offset, uint64_t length) override {
        TRY(usable());
        std::fill_n(content_.begin() + static_cast<ptrdiff_t>(offset), length, 0);
        return {};
    }
    Result<void> flush() override {
        TRY(usable());
        ++flushes_;
        return {};
    }
    uint64_t size() const override { return content_.size(); }
    bool read_only() const override { return read_only_; }

  private:
    Result<void> usable() const {
        if (failing_) return base::make_error(ErrorCode::kStorage, "the disk fails, as it was told to");
        return {};
    }

    base::Bytes content_;
    bool read_only_;
    bool failing_ = false;
    size_t flushes_ = 0;
};

}  // namespace boxlite::virtio::testing
