#include "shim/rotating_file.h"

#include <fcntl.h>
#include <unistd.h>

namespace boxlite::shim {

namespace {

Result<base::Fd> fresh(const std::string& path) {
    ::unlink(path.c_str());
    return base::open_file(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
}

}  // namespace

Result<RotatingFile> RotatingFile::create(const std::string& path, uint64_t max_bytes) {
    ::unlink((path + ".1").c_str());
    return RotatingFile(path, max_bytes, TRY(fresh(path)));
}

Result<void> RotatingFile::append(base::ByteView data) {
    if (data.size() > max_bytes_)
        return base::make_error(ErrorCode::kInternal, "{} bytes in one piece do not fit into '{}'",
                                data.size(), path_);
    if (current_size_ + data.size() > max_bytes_) TRY(rotate());
    TRY_CONTEXT(base::pwrite_all(current_.get(), data, current_size_), path_);
    current_size_ += data.size();
    return {};
}

Result<void> RotatingFile::rotate() {
    const std::string older = path_ + ".1";
    if (::rename(path_.c_str(), older.c_str()) < 0)
        return base::errno_error(ErrorCode::kStorage, "rotate '{}'", path_);
    base::Fd next = TRY(fresh(path_));
    older_ = std::move(current_);
    current_ = std::move(next);
    older_start_ = current_start_;
    current_start_ += current_size_;
    current_size_ = 0;
    return {};
}

Result<size_t> RotatingFile::read(uint64_t position, std::span<uint8_t> out) const {
    if (position < start() || position > end())
        return base::make_error(ErrorCode::kInternal, "position {} is not in '{}'", position, path_);
    const bool in_current = position >= current_start_;
    const base::Fd& fd = in_current ? current_ : older_;
    const uint64_t offset = position - (in_current ? current_start_ : older_start_);
    const uint64_t available = (in_current ? end() : current_start_) - position;
    out = out.first(std::min<uint64_t>(out.size(), available));
    TRY_CONTEXT(base::pread_exact(fd.get(), out, offset), path_);
    return out.size();
}

}  // namespace boxlite::shim
