// The file under a disk image: the few calls that disk formats make on it, behind an interface so that
// tests can record them and make them fail.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/fd.h"

namespace boxlite::disk {

class BlockIo {
  public:
    virtual ~BlockIo() = default;

    // Fills everything; bytes past the end of the file are zeroes.
    virtual Result<void> readv(uint64_t offset, std::span<const iovec> into) = 0;
    // Writes everything, growing the file when needed.
    virtual Result<void> writev(uint64_t offset, std::span<const iovec> from) = 0;
    // The range reads as zeroes; the file keeps its size. The host gets the room back if it can.
    virtual Result<void> zero(uint64_t offset, uint64_t length) = 0;
    // Like zero(), but may do nothing where the host cannot free room.
    virtual Result<void> punch(uint64_t offset, uint64_t length) = 0;
    // Everything written before survives a crash of the host. Sticky: after one failure it and every
    // change fail, because the kernel forgets which pages it could not write.
    virtual Result<void> sync() = 0;
    virtual Result<uint64_t> size() = 0;
    virtual Result<uint64_t> allocated() = 0;  // bytes of host storage in use

    Result<void> read(uint64_t offset, std::span<uint8_t> into) {
        const iovec one{into.data(), into.size()};
        return readv(offset, {&one, 1});
    }
    Result<void> write(uint64_t offset, std::span<const uint8_t> from) {
        const iovec one{const_cast<uint8_t*>(from.data()), from.size()};
        return writev(offset, {&one, 1});
    }
};

// A regular file. `name` is for messages. Fails for anything else than a regular file.
Result<std::unique_ptr<BlockIo>> make_file_io(base::Fd fd, std::string name);

// Opens without following a link in the last place, checks that it is a regular file and locks it.
// `dir` -1: `path` is as for open(2), else relative to that directory.
Result<std::unique_ptr<BlockIo>> open_file_io(int dir, const std::string& path, bool read_only);

// Walks over a vector of memory in pieces.
class IovCursor {
  public:
    explicit IovCursor(std::span<const iovec> iov) : iov_(iov) {}
    // The next `length` bytes, appended to `out`. Precondition: so many are left.
    void take(uint64_t length, std::vector<iovec>& out);
    // Sets the next `length` bytes to zero. Same precondition.
    void take_zeroes(uint64_t length);

  private:
    std::span<const iovec> iov_;
    size_t index_ = 0;
    size_t used_ = 0;  // of iov_[index_]
};

// Total length; nullopt when the sum does not fit.
std::optional<uint64_t> iov_length(std::span<const iovec> iov);

// kInvalidArgument unless [offset, offset + length) lies inside `size`.
Result<void> check_range(uint64_t offset, uint64_t length, uint64_t size);

}  // namespace boxlite::disk
