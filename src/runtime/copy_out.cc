#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/file.h"
#include "runtime/copy.h"
#include "runtime/copy_session.h"

namespace boxlite::runtime {

namespace {

timespec from_ns(int64_t ns) {
    timespec time{.tv_sec = ns / 1'000'000'000, .tv_nsec = ns % 1'000'000'000};
    if (time.tv_nsec < 0) {
        time.tv_nsec += 1'000'000'000;
        time.tv_sec -= 1;
    }
    return time;
}

// A guest that names an entry "../x" or "/etc" must not reach it.
Result<void> check_entry_name(const std::string& name) {
    if (!name.empty() && name != "." && name != ".." &&
        name.find_first_of(std::string_view("/\0", 2)) == std::string::npos)
        return {};
    return base::make_error(ErrorCode::kPortal, "the box listed a file with the impossible name '{}'", name);
}

class Download {
  public:
    Download(CopySession& session, const CopyOptions& options) : session_(session), options_(options) {}

    CopyStats stats;

    // The file at `source` becomes `name` in the folder `into`.
    Result<void> entry(const std::string& source, const v1::FileInfo& info, int into, const std::string& name,
                       int depth) {
        switch (info.type()) {
            case v1::DIRECTORY:
                return directory(source, info, into, name, depth);
            case v1::REGULAR:
                return file(source, into, name);
            case v1::SYMLINK:
                TRY(make_room(into, name));
                ++stats.files;
                if (::symlinkat(info.link_target().c_str(), into, name.c_str()) < 0)
                    return failed("make link", name);
                return {};
            case v1::FIFO:
                TRY(make_room(into, name));
                ++stats.files;
                if (::mkfifoat(into, name.c_str(), info.mode() & 0777) < 0) return failed("make FIFO", name);
                return {};
            default:
                stats.skipped.push_back(source);
                return {};
        }
    }

    Result<void> content(const std::string& source, int into, int depth) {
        if (depth > kMaxCopyDepth)
            return base::make_error(ErrorCode::kInvalidState, "'{}' is nested deeper than {} folders", source,
                                    kMaxCopyDepth);
        std::string after;
        for (bool more = true; more;) {
            const v1::ListResponse page = TRY_CONTEXT(session_.list(source, after), source);
            for (const v1::FileInfo& info : page.entries()) {
                TRY(check_entry_name(info.name()));
                TRY(entry(join_path(source, info.name()), info, into, info.name(), depth));
            }
            more = page.more() && page.entries_size() > 0;
            if (!more) break;
            const std::string& last = page.entries(page.entries_size() - 1).name();
            if (last <= after)
                return base::make_error(ErrorCode::kPortal, "the box listed '{}' out of order", source);
            after = last;
        }
        return {};
    }

    // To a file that the user named: written as it is, also when it is a device or a link of the user's.
    Result<void> file_onto(const std::string& source, const std::string& host_path) {
        // First what may not be there: what the user has is not lost to a copy that cannot begin.
        const v1::OpenResponse opened =
            TRY_CONTEXT(session_.open_read(source, options_.follow_symlinks), source);
        const int exclusive = options_.overwrite ? 0 : O_EXCL;
        const base::Fd fd = TRY(base::open_file(host_path, O_WRONLY | O_CREAT | O_TRUNC | exclusive, 0600));
        struct stat st;
        if (::fstat(fd.get(), &st) < 0) return failed("examine", host_path);
        return fetch(source, opened, fd, S_ISREG(st.st_mode));
    }

  private:
    static Error failed(std::string_view what, const std::string& name) {
        return base::errno_error(ErrorCode::kStorage, "{} '{}'", what, name);
    }

    // Takes away what is in the way of a new `name`, which is never written through.
    Result<void> make_room(int into, const std::string& name) const {
        struct stat st;
        if (::fstatat(into, name.c_str(), &st, AT_SYMLINK_NOFOLLOW) < 0) {
            if (errno == ENOENT) return {};
            return failed("examine", name);
        }
        if (S_ISDIR(st.st_mode))
            return base::make_error(ErrorCode::kInvalidState, "cannot replace the directory '{}' by a file",
                                    name);
        if (!options_.overwrite)
            return base::make_error(ErrorCode::kAlreadyExists, "'{}' exists at the destination", name);
        if (::unlinkat(into, name.c_str(), 0) < 0 && errno != ENOENT) return failed("replace", name);
        return {};
    }

    Result<void> directory(const std::string& source, const v1::FileInfo& info, int into,
                           const std::string& name, int depth) {
        if (::mkdirat(into, name.c_str(), 0700) < 0 && errno != EEXIST) return failed("make directory", name);
        const base::Fd fd(::openat(into, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
        if (!fd.valid()) return failed("open directory", name);
        ++stats.files;
        TRY(content(source, fd.get(), depth + 1));
        ::fchmod(fd.get(), info.mode() & 0777);
        set_time(fd.get(), info);
        return {};
    }

    Result<void> file(const std::string& source, int into, const std::string& name) {
        const v1::OpenResponse opened = TRY_CONTEXT(session_.open_read(source, false), source);
        TRY(make_room(into, name));
        const base::Fd fd(
            ::openat(into, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
        if (!fd.valid()) return failed("make", name);
        return fetch(source, opened, fd, true);
    }

    Result<void> fetch(const std::string& source, const v1::OpenResponse& opened, const base::Fd& fd,
                       bool keep_attributes) {
        // A file that grows while it is copied ends where it ended at first; those of /proc tell no size.
        const uint64_t limit = opened.info().size() > 0 ? opened.info().size() : UINT64_MAX;
        uint64_t offset = 0;
        while (offset < limit) {
            const size_t wanted = static_cast<size_t>(std::min<uint64_t>(kCopyChunk, limit - offset));
            const std::string chunk = TRY_CONTEXT(session_.read_at(opened.handle(), offset, wanted), source);
            if (chunk.empty()) break;
            if (chunk.size() > wanted)
                return base::make_error(ErrorCode::kPortal, "the box sent more of '{}' than was asked for",
                                        source);
            TRY(base::write_all(fd.get(), base::as_bytes(chunk)));
            offset += chunk.size();
        }
        TRY(session_.close(opened.handle(), nullptr));
        if (keep_attributes) {
            // Not setuid and setgid: a box must not plant such programs on the host.
            ::fchmod(fd.get(), opened.info().mode() & 0777);
            set_time(fd.get(), opened.info());
        }
        ++stats.files;
        stats.bytes += offset;
        return {};
    }

    static void set_time(int fd, const v1::FileInfo& info) {
        const timespec times[2] = {{.tv_sec = 0, .tv_nsec = UTIME_OMIT}, from_ns(info.mtime_ns())};
        ::futimens(fd, times);
    }

    CopySession& session_;
    const CopyOptions& options_;
};

Result<CopyStats> download(CopySession& session, const std::string& box_path, const std::string& host_path,
                           const CopyOptions& options) {
    const bool content = names_content(box_path) || base_name(box_path).empty();
    const v1::FileInfo info =
        TRY(session.stat(box_path, options.follow_symlinks || content || box_path.ends_with('/')));
    const bool is_dir = info.type() == v1::DIRECTORY;
    if (is_dir && !options.recursive)
        return base::make_error(ErrorCode::kInvalidState, "'{}' is a directory and the copy is not recursive",
                                box_path);
    Download run(session, options);
    struct stat st;
    const bool exists = ::stat(host_path.c_str(), &st) == 0;
    if (exists && S_ISDIR(st.st_mode)) {
        const base::Fd into = TRY(base::open_file(host_path, O_RDONLY | O_DIRECTORY));
        if (is_dir && (content || !options.include_parent))
            TRY(run.content(box_path, into.get(), 1));
        else
            TRY(run.entry(box_path, info, into.get(), base_name(box_path), 0));
        return std::move(run.stats);
    }
    if (exists && (is_dir || host_path.ends_with('/')))
        return base::make_error(ErrorCode::kInvalidState, "'{}' is not a directory", host_path);
    if (!is_dir && host_path.ends_with('/'))
        return base::make_error(ErrorCode::kNotFound, "there is no directory '{}'", host_path);
    if (info.type() == v1::REGULAR) {
        TRY(run.file_onto(box_path, host_path));
        return std::move(run.stats);
    }
    const size_t last = host_path.find_last_not_of('/');
    const size_t slash = host_path.rfind('/', last);
    const std::string parent = slash == std::string::npos ? "."
                               : slash == 0               ? "/"
                                                          : host_path.substr(0, slash);
    const base::Fd into = TRY(base::open_file(parent, O_RDONLY | O_DIRECTORY));
    TRY(run.entry(box_path, info, into.get(), base_name(host_path), 0));
    return std::move(run.stats);
}

}  // namespace

Result<CopyStats> copy_out(const BoxImpl& box, const std::string& box_path, const std::string& host_path,
                           const CopyOptions& options) {
    if (box_path.empty() || host_path.empty())
        return base::make_error(ErrorCode::kInvalidArgument, "a copy needs a source and a destination path");
    CopySession session = TRY(CopySession::open(box));
    auto copied = download(session, box_path, host_path, options);
    TRY(session.finish());
    return copied;
}

}  // namespace boxlite::runtime
