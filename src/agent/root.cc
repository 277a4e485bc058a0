#include "agent/root.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace boxlite::agent {

Error file_error(std::string_view what, int errnum) {
    const auto code = [errnum] {
        switch (errnum) {
            case ENOENT:
            case ENOTDIR:
                return ErrorCode::kNotFound;
            case EEXIST:
                return ErrorCode::kAlreadyExists;
            case EINVAL:
            case EISDIR:
            case ELOOP:
            case ENAMETOOLONG:
            case ENOTEMPTY:
                return ErrorCode::kInvalidArgument;
            case ENOSPC:
            case EDQUOT:
            case EMFILE:
                return ErrorCode::kResourceExhausted;
            default:
                return ErrorCode::kStorage;
        }
    }();
    return Error::from_errno(code, what, errnum);
}

Result<base::Fd> Root::open(std::string_view path, int flags, mode_t mode) const {
    if (path.find('\0') != std::string_view::npos)
        return base::make_error(ErrorCode::kInvalidArgument, "the path has a zero byte in it");
    const std::string name = path.empty() ? "/" : std::string(path);
    open_how how{};
    how.flags = static_cast<uint64_t>(flags | O_CLOEXEC);
    how.mode = mode;
    how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
    long fd;
    // EAGAIN: a rename raced with "..", as openat2(2) tells to retry.
    do fd = ::syscall(SYS_openat2, top_.get(), name.c_str(), &how, sizeof how);
    while (fd < 0 && (errno == EINTR || errno == EAGAIN));
    if (fd < 0) return file_error(fmt::format("open '{}'", name), errno);
    return base::Fd(static_cast<int>(fd));
}

Result<Root::Place> Root::place(std::string_view path, bool make_parents) const {
    while (path.ends_with('/')) path.remove_suffix(1);
    const size_t slash = path.rfind('/');
    const std::string_view parent = slash == std::string_view::npos ? "/" : path.substr(0, slash);
    const std::string_view name = slash == std::string_view::npos ? path : path.substr(slash + 1);
    if (name.empty() || name == "." || name == ".." || name.find('\0') != std::string_view::npos)
        return base::make_error(ErrorCode::kInvalidArgument, "'{}' does not name an entry of a directory",
                                path);
    auto dir = open(parent, O_PATH | O_DIRECTORY);
    if (!dir && dir.error().code == ErrorCode::kNotFound && make_parents) {
        const Place above = TRY(place(parent, true));
        if (::mkdirat(above.dir.get(), above.name.c_str(), 0755) < 0 && errno != EEXIST)
            return file_error(fmt::format("make the directory '{}'", parent), errno);
        dir = open(parent, O_PATH | O_DIRECTORY);
    }
    return Place{TRY(std::move(dir)), std::string(name)};
}

Result<std::string> Root::read_text(std::string_view path, size_t limit) const {
    // O_NONBLOCK: a fifo in its place must not hold us up.
    auto opened = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    if (!opened && opened.error().code == ErrorCode::kNotFound) return std::string();
    const base::Fd fd = TRY(std::move(opened));
    std::string text;
    char buffer[4096];
    for (;;) {
        const ssize_t n = ::read(fd.get(), buffer, sizeof buffer);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return file_error(fmt::format("read '{}'", path), errno);
        if (n == 0) return text;
        text.append(buffer, static_cast<size_t>(n));
        if (text.size() > limit)
            return base::make_error(ErrorCode::kInvalidArgument, "'{}' is larger than {} bytes", path, limit);
        // A short read of a regular file is its end.
        if (static_cast<size_t>(n) < sizeof buffer) return text;
    }
}

}  // namespace boxlite::agent
