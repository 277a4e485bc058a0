#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/file.h"
#include "runtime/copy.h"
#include "runtime/copy_session.h"

namespace boxlite::runtime {

namespace {

int64_t to_ns(const timespec& time) {
    return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

Result<std::vector<std::string>> names_in(const base::Fd& folder, const std::string& shown) {
    base::Fd copy = TRY(folder.duplicate());
    DIR* dir = ::fdopendir(copy.get());
    if (!dir) return base::errno_error(ErrorCode::kStorage, "list '{}'", shown);
    (void)copy.release();
    std::vector<std::string> names;
    errno = 0;
    while (const dirent* entry = ::readdir(dir)) {
        if (std::strcmp(entry->d_name, ".") != 0 && std::strcmp(entry->d_name, "..") != 0)
            names.emplace_back(entry->d_name);
        errno = 0;
    }
    const int failure = errno;
    ::closedir(dir);
    if (failure != 0) return Error::from_errno(ErrorCode::kStorage, fmt::format("list '{}'", shown), failure);
    std::sort(names.begin(), names.end());
    return names;
}

class Upload {
  public:
    Upload(CopySession& session, const CopyOptions& options) : session_(session), options_(options) {}

    CopyStats stats;

    // `name` in `folder` (a descriptor or AT_FDCWD) becomes `target`. `shown` is the host path for messages.
    Result<void> entry(int folder, const std::string& name, const std::string& shown,
                       const std::string& target, bool follow, int depth) {
        struct stat st;
        if (::fstatat(folder, name.c_str(), &st, follow ? 0 : AT_SYMLINK_NOFOLLOW) < 0)
            return base::errno_error(errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kStorage,
                                     "read '{}'", shown);
        const int no_follow = follow ? 0 : O_NOFOLLOW;
        switch (st.st_mode & S_IFMT) {
            case S_IFDIR: {
                const base::Fd fd(
                    ::openat(folder, name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | no_follow));
                if (!fd.valid()) return base::errno_error(ErrorCode::kStorage, "open '{}'", shown);
                TRY_CONTEXT(session_.make(target, attributes(st, v1::DIRECTORY), false), target);
                ++stats.files;
                return content(fd, shown, target, depth + 1);
            }
            case S_IFREG: {
                // O_NONBLOCK: should the file have become a FIFO meanwhile, nobody waits for its writer.
                const base::Fd fd(
                    ::openat(folder, name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | no_follow));
                if (!fd.valid()) return base::errno_error(ErrorCode::kStorage, "open '{}'", shown);
                return file(fd, st, shown, target);
            }
            case S_IFLNK:
                return link(folder, name, st, shown, target);
            case S_IFIFO:
                ++stats.files;
                return session_.make(target, attributes(st, v1::FIFO), options_.overwrite);
            default:
                stats.skipped.push_back(shown);
                return {};
        }
    }

    Result<void> content(const base::Fd& folder, const std::string& shown, const std::string& target,
                         int depth) {
        if (depth > kMaxCopyDepth)
            return base::make_error(ErrorCode::kInvalidState, "'{}' is nested deeper than {} folders", shown,
                                    kMaxCopyDepth);
        for (const std::string& name : TRY(names_in(folder, shown)))
            TRY(entry(folder.get(), name, join_path(shown, name), join_path(target, name), false, depth));
        return {};
    }

  private:
    // Everything belongs to root in the box, as `docker cp` does it.
    static v1::FileInfo attributes(const struct stat& st, v1::FileType type) {
        v1::FileInfo info;
        info.set_type(type);
        info.set_mode(st.st_mode & 07777);
        info.set_mtime_ns(to_ns(st.st_mtim));
        return info;
    }

    Result<void> link(int folder, const std::string& name, const struct stat& st, const std::string& shown,
                      const std::string& target) {
        std::string text(PATH_MAX, '\0');
        const ssize_t size = ::readlinkat(folder, name.c_str(), text.data(), text.size());
        if (size < 0) return base::errno_error(ErrorCode::kStorage, "read link '{}'", shown);
        text.resize(static_cast<size_t>(size));
        v1::FileInfo info = attributes(st, v1::SYMLINK);
        info.set_link_target(text);
        ++stats.files;
        return session_.make(target, info, options_.overwrite);
    }

    // A link or a special file that is in the way is replaced, never written through.
    Result<v1::OpenResponse> open_target(const std::string& target, uint32_t mode) {
        auto opened = session_.open_write(target, mode, !options_.overwrite);
        if (opened.ok() || !options_.overwrite) return opened;
        const auto there = session_.stat(target, false);
        if (!there.ok() || there->type() == v1::REGULAR || there->type() == v1::DIRECTORY) return opened;
        TRY(session_.remove(target));
        return session_.open_write(target, mode, true);
    }

    Result<void> file(const base::Fd& fd, const struct stat& st, const std::string& shown,
                      const std::string& target) {
        const auto opened = TRY_CONTEXT(open_target(target, st.st_mode & 0777), target);
        uint64_t offset = 0;
        for (;;) {
            std::string chunk(kCopyChunk, '\0');
            const ssize_t n = ::read(fd.get(), chunk.data(), chunk.size());
            if (n < 0 && errno == EINTR) continue;
            if (n < 0) return base::errno_error(ErrorCode::kStorage, "read '{}'", shown);
            if (n == 0) break;
            chunk.resize(static_cast<size_t>(n));
            TRY_CONTEXT(session_.write_at(opened.handle(), offset, std::move(chunk)), target);
            offset += static_cast<uint64_t>(n);
        }
        const v1::FileInfo info = attributes(st, v1::REGULAR);
        TRY_CONTEXT(session_.close(opened.handle(), &info), target);
        ++stats.files;
        stats.bytes += offset;
        return {};
    }

    CopySession& session_;
    const CopyOptions& options_;
};

// Where the source goes, and whether only its content does.
struct Destination {
    std::string path;
    bool content_only = false;
};

Result<Destination> destination(CopySession& session, const std::string& host_path, bool source_is_dir,
                                const std::string& box_path, const CopyOptions& options) {
    const auto there = session.stat(box_path, true);
    if (!there.ok() && there.error().code != ErrorCode::kNotFound) return there.error();
    const bool content_only = source_is_dir && (names_content(host_path) || !options.include_parent);
    if (there.ok() && there->type() == v1::DIRECTORY) {
        const std::string name = base_name(host_path);
        if (content_only || name.empty()) return Destination{box_path, true};
        return Destination{join_path(box_path, name)};
    }
    if (there.ok() && (source_is_dir || box_path.ends_with('/')))
        return base::make_error(ErrorCode::kInvalidState, "'{}' in the box is not a directory", box_path);
    if (!source_is_dir && box_path.ends_with('/'))
        return base::make_error(ErrorCode::kNotFound, "there is no directory '{}' in the box", box_path);
    return Destination{box_path, source_is_dir};
}

}  // namespace

Result<CopyStats> copy_into(const BoxImpl& box, const std::string& host_path, const std::string& box_path,
                            const CopyOptions& options) {
    if (box_path.empty() || host_path.empty())
        return base::make_error(ErrorCode::kInvalidArgument, "a copy needs a source and a destination path");
    struct stat st;
    const bool follow = options.follow_symlinks || host_path.ends_with('/') || names_content(host_path);
    if ((follow ? ::stat(host_path.c_str(), &st) : ::lstat(host_path.c_str(), &st)) < 0)
        return base::errno_error(errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kStorage, "copy '{}'",
                                 host_path);
    const bool is_dir = S_ISDIR(st.st_mode);
    if (is_dir && !options.recursive)
        return base::make_error(ErrorCode::kInvalidState, "'{}' is a directory and the copy is not recursive",
                                host_path);

    CopySession session = TRY(CopySession::open(box));
    auto copied = [&]() -> Result<CopyStats> {
        const Destination target = TRY(destination(session, host_path, is_dir, box_path, options));
        Upload upload(session, options);
        if (is_dir && target.content_only) {
            const base::Fd folder = TRY(base::open_file(host_path, O_RDONLY | O_DIRECTORY));
            v1::FileInfo info;
            info.set_type(v1::DIRECTORY);
            info.set_mode(st.st_mode & 07777);
            TRY_CONTEXT(session.make(target.path, info, false), target.path);
            TRY(upload.content(folder, host_path, target.path, 1));
        } else {
            TRY(upload.entry(AT_FDCWD, host_path, host_path, target.path, follow, 0));
        }
        return std::move(upload.stats);
    }();
    TRY(session.finish());
    return copied;
}

}  // namespace boxlite::runtime
