#include "disk/block_io.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/falloc.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

namespace boxlite::disk {

namespace {

ErrorCode code_for(int errnum) {
    return errnum == ENOSPC || errnum == EDQUOT || errnum == EFBIG ? ErrorCode::kResourceExhausted
                                                                   : ErrorCode::kStorage;
}

// What is left of a vector after `done` bytes of it were transferred.
void drop_front(std::vector<iovec>& iov, uint64_t done) {
    size_t whole = 0;
    while (whole < iov.size() && done >= iov[whole].iov_len) done -= iov[whole++].iov_len;
    iov.erase(iov.begin(), iov.begin() + static_cast<ptrdiff_t>(whole));
    if (done > 0) {
        iov[0].iov_base = static_cast<uint8_t*>(iov[0].iov_base) + done;
        iov[0].iov_len -= done;
    }
}

class FileIo final : public BlockIo {
  public:
    FileIo(base::Fd fd, std::string name) : fd_(std::move(fd)), name_(std::move(name)) {}

    Result<void> readv(uint64_t offset, std::span<const iovec> into) override {
        return transfer(offset, into, ::preadv, "read");
    }

    Result<void> writev(uint64_t offset, std::span<const iovec> from) override {
        TRY(usable());
        return transfer(offset, from, ::pwritev, "write");
    }

    Result<void> zero(uint64_t offset, uint64_t length) override {
        if (length == 0) return {};
        TRY(usable());
        if (punch_hole(offset, length) == 0) return {};
        if (errno != EOPNOTSUPP && errno != ENOSYS) return failed("write zeroes to", offset, length);
        // Zeroes must not make the file longer, since punching a hole does not.
        const uint64_t end = TRY(size());
        static const std::vector<uint8_t> zeroes(size_t{256} << 10);
        while (length > 0 && offset < end) {
            const uint64_t n = std::min({length, end - offset, uint64_t{zeroes.size()}});
            TRY(write(offset, {zeroes.data(), static_cast<size_t>(n)}));
            offset += n;
            length -= n;
        }
        return {};
    }

    Result<void> punch(uint64_t offset, uint64_t length) override {
        if (length == 0) return {};
        TRY(usable());
        if (punch_hole(offset, length) == 0 || errno == EOPNOTSUPP || errno == ENOSYS) return {};
        return failed("free", offset, length);
    }

    Result<void> sync() override {
        TRY(usable());
        int result;
        do result = ::fdatasync(fd_.get());
        while (result < 0 && errno == EINTR);
        if (result == 0) return {};
        sync_error_ = Error::from_errno(code_for(errno), fmt::format("sync '{}'", name_), errno);
        return *sync_error_;
    }

    Result<uint64_t> size() override {
        struct stat st;
        if (::fstat(fd_.get(), &st) < 0) return errno_error_here("look at");
        return static_cast<uint64_t>(st.st_size);
    }

    Result<uint64_t> allocated() override {
        struct stat st;
        if (::fstat(fd_.get(), &st) < 0) return errno_error_here("look at");
        return static_cast<uint64_t>(st.st_blocks) * 512;
    }

  private:
    using Call = ssize_t (*)(int, const iovec*, int, off_t);

    Result<void> transfer(uint64_t offset, std::span<const iovec> iov, Call call, const char* verb) {
        std::vector<iovec> rest;  // used only when one call does not do it
        bool whole = true;
        uint64_t left = 0;
        for (const iovec& v : iov) left += v.iov_len;
        while (left > 0) {
            const std::span<const iovec> now = whole ? iov : std::span<const iovec>(rest);
            const ssize_t n =
                call(fd_.get(), now.data(), static_cast<int>(std::min<size_t>(now.size(), IOV_MAX)),
                     static_cast<off_t>(offset));
            if (n < 0 && errno == EINTR) continue;
            if (n < 0) return failed(verb, offset, left);
            offset += static_cast<uint64_t>(n);
            left -= static_cast<uint64_t>(n);
            if (left == 0) break;
            if (whole) rest.assign(iov.begin(), iov.end());
            whole = false;
            drop_front(rest, static_cast<uint64_t>(n));
            if (n > 0) continue;
            IovCursor(rest).take_zeroes(left);  // end of file
            break;
        }
        return {};
    }

    int punch_hole(uint64_t offset, uint64_t length) {
        int result;
        do
            result = ::fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                 static_cast<off_t>(offset), static_cast<off_t>(length));
        while (result < 0 && errno == EINTR);
        return result;
    }

    Result<void> usable() const {
        if (sync_error_) return *sync_error_;
        return {};
    }

    Error failed(const char* verb, uint64_t offset, uint64_t length) const {
        const int errnum = errno;
        return Error::from_errno(
            code_for(errnum), fmt::format("{} {} bytes at {} of '{}'", verb, length, offset, name_), errnum);
    }

    Error errno_error_here(const char* verb) const {
        const int errnum = errno;
        return Error::from_errno(ErrorCode::kStorage, fmt::format("{} '{}'", verb, name_), errnum);
    }

    base::Fd fd_;
    std::string name_;
    std::optional<Error> sync_error_;
};

}  // namespace

Result<std::unique_ptr<BlockIo>> make_file_io(base::Fd fd, std::string name) {
    struct stat st;
    if (::fstat(fd.get(), &st) < 0) return base::errno_error(ErrorCode::kStorage, "look at '{}'", name);
    if (!S_ISREG(st.st_mode))
        return base::make_error(ErrorCode::kInvalidArgument, "'{}' is not a regular file, so it is no disk",
                                name);
    return std::unique_ptr<BlockIo>(new FileIo(std::move(fd), std::move(name)));
}

Result<std::unique_ptr<BlockIo>> open_file_io(int dir, const std::string& path, bool read_only) {
    // O_NONBLOCK: a fifo planted here must not hang us; it does nothing to a regular file.
    const int flags = (read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
    base::Fd fd(::openat(dir < 0 ? AT_FDCWD : dir, path.c_str(), flags));
    if (!fd.valid())
        return base::errno_error(errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kStorage,
                                 "open disk '{}'", path);
    if (::flock(fd.get(), (read_only ? LOCK_SH : LOCK_EX) | LOCK_NB) < 0) {
        if (errno == EWOULDBLOCK)
            return base::make_error(ErrorCode::kInvalidState,
                                    "disk '{}' is in use by another process; stop its box first", path);
        return base::errno_error(ErrorCode::kStorage, "lock disk '{}'", path);
    }
    return make_file_io(std::move(fd), path);
}

void IovCursor::take(uint64_t length, std::vector<iovec>& out) {
    while (length > 0) {
        const iovec& v = iov_[index_];
        const size_t n = static_cast<size_t>(std::min<uint64_t>(length, v.iov_len - used_));
        if (n > 0) out.push_back({static_cast<uint8_t*>(v.iov_base) + used_, n});
        used_ += n;
        length -= n;
        if (used_ == v.iov_len) {
            ++index_;
            used_ = 0;
        }
    }
}

void IovCursor::take_zeroes(uint64_t length) {
    std::vector<iovec> parts;
    take(length, parts);
    for (const iovec& part : parts) std::memset(part.iov_base, 0, part.iov_len);
}

std::optional<uint64_t> iov_length(std::span<const iovec> iov) {
    uint64_t sum = 0;
    for (const iovec& v : iov)
        if (__builtin_add_overflow(sum, uint64_t{v.iov_len}, &sum)) return std::nullopt;
    return sum;
}

Result<void> check_range(uint64_t offset, uint64_t length, uint64_t size) {
    if (offset <= size && length <= size - offset) return {};
    return base::make_error(ErrorCode::kInvalidArgument, "{} bytes at {} are not inside a disk of {} bytes",
                            length, offset, size);
}

}  // namespace boxlite::disk
