#include "base/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "base/id.h"

namespace boxlite::base {

namespace {

std::string parent_of(const std::string& path) {
    const size_t slash = path.rfind('/');
    if (slash == std::string::npos) return ".";
    return slash == 0 ? "/" : path.substr(0, slash);
}

Result<Fd> open_lock(const std::string& path, int operation) {
    Fd fd = TRY(open_file(path, O_RDWR | O_CREAT | O_NOFOLLOW, 0600));
    int result;
    do result = ::flock(fd.get(), operation);
    while (result < 0 && errno == EINTR);
    if (result < 0 && errno == EWOULDBLOCK)
        return make_error(ErrorCode::kInvalidState, "'{}' is locked by another process", path);
    if (result < 0) return errno_error(ErrorCode::kStorage, "lock '{}'", path);
    return fd;
}

}  // namespace

Result<std::string> read_file(const std::string& path, size_t limit) {
    const Fd fd = TRY(open_file(path, O_RDONLY));
    std::string content;
    char buffer[65536];
    for (;;) {
        const ssize_t n = ::read(fd.get(), buffer, sizeof buffer);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return errno_error(ErrorCode::kStorage, "read '{}'", path);
        if (n == 0) return content;
        if (content.size() + static_cast<size_t>(n) > limit)
            return make_error(ErrorCode::kStorage, "'{}' is larger than {} bytes", path, limit);
        content.append(buffer, static_cast<size_t>(n));
    }
}

Result<void> write_file_atomically(const std::string& path, ByteView content, mode_t mode) {
    const std::string temporary = path + ".tmp-" + random_id(8);
    auto written = [&]() -> Result<void> {
        const Fd fd = TRY(open_file(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode));
        if (::fchmod(fd.get(), mode) < 0)
            return errno_error(ErrorCode::kStorage, "set the mode of '{}'", path);
        TRY_CONTEXT(write_all(fd.get(), content), path);
        if (::fsync(fd.get()) < 0) return errno_error(ErrorCode::kStorage, "sync '{}'", path);
        if (::rename(temporary.c_str(), path.c_str()) < 0)
            return errno_error(ErrorCode::kStorage, "rename '{}' into place", path);
        return sync_directory(parent_of(path));
    }();
    if (!written.ok()) ::unlink(temporary.c_str());
    return written;
}

Result<void> make_directories(const std::string& path, mode_t mode) {
    if (path.empty() || ::mkdir(path.c_str(), mode) == 0) return {};
    if (errno == EEXIST) {
        struct stat st;
        if (::stat(path.c_str(), &st) == 0 && S_ISDIR(st.st_mode)) return {};
        return make_error(ErrorCode::kStorage, "'{}' exists and is not a directory", path);
    }
    if (errno != ENOENT) return errno_error(ErrorCode::kStorage, "make directory '{}'", path);
    const std::string parent = parent_of(path);
    if (parent == path) return errno_error(ErrorCode::kStorage, "make directory '{}'", path);
    TRY(make_directories(parent, mode));
    if (::mkdir(path.c_str(), mode) < 0 && errno != EEXIST)
        return errno_error(ErrorCode::kStorage, "make directory '{}'", path);
    return {};
}

Result<void> remove_tree(const std::string& path) {
    std::error_code error;
    std::filesystem::remove_all(path, error);
    if (error) return Error::from_errno(ErrorCode::kStorage, fmt::format("remove '{}'", path), error.value());
    return {};
}

bool path_exists(const std::string& path) {
    return ::access(path.c_str(), F_OK) == 0;
}

Result<void> sync_directory(const std::string& path) {
    const Fd fd = TRY(open_file(path, O_RDONLY | O_DIRECTORY));
    if (::fsync(fd.get()) < 0) return errno_error(ErrorCode::kStorage, "sync directory '{}'", path);
    return {};
}

Result<TempDir> TempDir::make(const std::string& parent) {
    std::string base = parent;
    if (base.empty()) {
        const char* tmpdir = std::getenv("TMPDIR");
        base = tmpdir && *tmpdir ? tmpdir : "/tmp";
    }
    std::string path = base + "/boxlite-XXXXXX";
    if (!::mkdtemp(path.data())) return errno_error(ErrorCode::kStorage, "make a directory in '{}'", base);
    return TempDir(std::move(path));
}

TempDir::~TempDir() {
    if (!path_.empty()) (void)remove_tree(path_);
}

Result<FileLock> FileLock::acquire(const std::string& path) {
    return FileLock(TRY(open_lock(path, LOCK_EX)));
}

Result<FileLock> FileLock::acquire_shared(const std::string& path) {
    return FileLock(TRY(open_lock(path, LOCK_SH)));
}

Result<FileLock> FileLock::try_acquire(const std::string& path) {
    return FileLock(TRY(open_lock(path, LOCK_EX | LOCK_NB)));
}

}  // namespace boxlite::base
