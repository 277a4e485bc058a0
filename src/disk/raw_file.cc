#include "disk/raw_file.h"

#include <utility>

namespace boxlite::disk {

Result<std::unique_ptr<RawFile>> RawFile::open(const std::string& path, bool read_only) {
    return on(TRY(open_file_io(-1, path, read_only)), read_only);
}

Result<std::unique_ptr<RawFile>> RawFile::on(std::unique_ptr<BlockIo> io, bool read_only) {
    const uint64_t size = TRY(io->size());
    return std::unique_ptr<RawFile>(new RawFile(std::move(io), size, read_only));
}

Result<void> RawFile::check_change(uint64_t offset, uint64_t length) const {
    if (read_only_) return base::make_error(ErrorCode::kInvalidState, "the disk is read only");
    return check_range(offset, length, size_);
}

Result<void> RawFile::readv(uint64_t offset, std::span<const iovec> into) {
    TRY(check_range(offset, iov_length(into).value_or(UINT64_MAX), size_));
    return io_->readv(offset, into);
}

Result<void> RawFile::writev(uint64_t offset, std::span<const iovec> from) {
    TRY(check_change(offset, iov_length(from).value_or(UINT64_MAX)));
    unsynced_ = true;
    return io_->writev(offset, from);
}

Result<void> RawFile::discard(uint64_t offset, uint64_t length) {
    TRY(check_change(offset, length));
    unsynced_ = true;
    return io_->punch(offset, length);
}

Result<void> RawFile::write_zeroes(uint64_t offset, uint64_t length) {
    TRY(check_change(offset, length));
    unsynced_ = true;
    return io_->zero(offset, length);
}

Result<void> RawFile::flush() {
    if (!unsynced_) return {};
    TRY(io_->sync());
    unsynced_ = false;
    return {};
}

}  // namespace boxlite::disk
