#include "agent/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "agent/directory.h"
#include "agent/file_info.h"
#include "rpc/wire.h"

namespace boxlite::agent {

namespace {

constexpr std::string_view kService = "boxlite.v1.Files";
constexpr size_t kMaxHandles = 256;
constexpr uint32_t kMaxTransfer = uint32_t{1} << 20;
constexpr uint32_t kMaxPage = 1024;
// Names, link targets and attributes of one page stay below what fits into a frame.
constexpr size_t kMaxPageBytes = size_t{2} << 20;
constexpr uint32_t kDataField = 1;  // of ReadAtResponse
constexpr size_t kHeadroom = 8;

Result<base::Fd> reopen(const base::Fd& path_fd, int flags) {
    return base::open_file(fmt::format("/proc/self/fd/{}", path_fd.get()), flags);
}

// Devices and fifos are not files to copy: reading one may block or never end.
Result<void> check_regular(const base::Fd& fd, const std::string& path) {
    struct stat status;
    if (::fstatat(fd.get(), "", &status, AT_EMPTY_PATH) < 0)
        return file_error(fmt::format("look at '{}'", path), errno);
    if (S_ISREG(status.st_mode)) return {};
    return base::make_error(ErrorCode::kInvalidArgument, "'{}' is {}, not a regular file", path,
                            S_ISDIR(status.st_mode)   ? "a directory"
                            : S_ISLNK(status.st_mode) ? "a symbolic link"
                                                      : "special");
}

mode_t type_bits(v1::FileType type) {
    switch (type) {
        case v1::CHAR_DEVICE:
            return S_IFCHR;
        case v1::BLOCK_DEVICE:
            return S_IFBLK;
        case v1::FIFO:
            return S_IFIFO;
        case v1::SOCKET:
            return S_IFSOCK;
        default:
            return S_IFREG;
    }
}

// 0, or an errno.
int make_entry(const Root::Place& place, const v1::FileInfo& attributes) {
    const auto status = [&] {
        switch (attributes.type()) {
            case v1::DIRECTORY:
                return ::mkdirat(place.dir.get(), place.name.c_str(), 0700);
            case v1::SYMLINK:
                return ::symlinkat(attributes.link_target().c_str(), place.dir.get(), place.name.c_str());
            default:
                return ::mknodat(place.dir.get(), place.name.c_str(), type_bits(attributes.type()) | 0600,
                                 makedev(attributes.rdev_major(), attributes.rdev_minor()));
        }
    }();
    return status == 0 ? 0 : errno;
}

bool is_directory(const Root::Place& place) {
    struct stat status;
    return ::fstatat(place.dir.get(), place.name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 &&
           S_ISDIR(status.st_mode);
}

}  // namespace

void Files::add_routes(Router& router) {
    router.add<v1::StatRequest>(kService, "Stat",
                                [this](const v1::StatRequest& request, rpc::Responder responder) {
                                    answer(responder, stat(request));
                                });
    router.add<v1::ListRequest>(kService, "List",
                                [this](const v1::ListRequest& request, rpc::Responder responder) {
                                    answer(responder, list(request));
                                });
    router.add<v1::OpenRequest>(kService, "Open",
                                [this](const v1::OpenRequest& request, rpc::Responder responder) {
                                    answer(responder, open(request));
                                });
    router.add<v1::ReadAtRequest>(kService, "ReadAt",
                                  [this](const v1::ReadAtRequest& request, rpc::Responder responder) {
                                      read_at(request, std::move(responder));
                                  });
    router.add<v1::WriteAtRequest>(kService, "WriteAt",
                                   [this](const v1::WriteAtRequest& request, rpc::Responder responder) {
                                       answer(responder, write_at(request));
                                   });
    router.add<v1::CloseFileRequest>(kService, "CloseFile",
                                     [this](const v1::CloseFileRequest& request, rpc::Responder responder) {
                                         answer(responder, close_file(request));
                                     });
    router.add<v1::MakeRequest>(kService, "Make",
                                [this](const v1::MakeRequest& request, rpc::Responder responder) {
                                    answer(responder, make(request));
                                });
    router.add<v1::RemoveRequest>(kService, "Remove",
                                  [this](const v1::RemoveRequest& request, rpc::Responder responder) {
                                      remove(request, std::move(responder));
                                  });
}

void Files::close() {
    closed_ = true;
    root_ = nullptr;
    handles_.clear();
}

Result<const Root*> Files::root() const {
    if (closed_) return base::make_error(ErrorCode::kStopped, "the container's disk is not there any more");
    if (!root_) return base::make_error(ErrorCode::kInvalidState, "the container has not been set up yet");
    return root_;
}

Result<v1::FileInfo> Files::stat(const v1::StatRequest& request) const {
    const Root* root = TRY(this->root());
    const base::Fd fd = TRY(root->open(request.path(), O_PATH | (request.follow() ? 0 : O_NOFOLLOW)));
    const std::string& path = request.path();
    return file_info(fd, std::string_view(path).substr(path.rfind('/') + 1));
}

Result<v1::ListResponse> Files::list(const v1::ListRequest& request) const {
    const Root* root = TRY(this->root());
    const base::Fd dir = TRY(root->open(request.path(), O_RDONLY | O_DIRECTORY));
    const uint32_t limit = request.limit() == 0 || request.limit() > kMaxPage ? kMaxPage : request.limit();
    const NamePage page = TRY(list_names(dir, request.after(), limit));
    v1::ListResponse response;
    response.set_more(page.more);
    size_t bytes = 0;
    for (const std::string& name : page.names) {
        const base::Fd fd(::openat(dir.get(), name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
        if (!fd.valid()) continue;  // gone since
        v1::FileInfo info = TRY(file_info(fd, name));
        bytes += info.ByteSizeLong();
        if (bytes > kMaxPageBytes && response.entries_size() > 0) {
            response.set_more(true);
            break;
        }
        *response.add_entries() = std::move(info);
    }
    return response;
}

Result<v1::OpenResponse> Files::open(const v1::OpenRequest& request) {
    const Root* root = TRY(this->root());
    if (handles_.size() >= kMaxHandles)
        return base::make_error(ErrorCode::kResourceExhausted, "{} files are open; close some", kMaxHandles);
    base::Fd fd = TRY(request.write() ? open_to_write(request, *root) : open_existing(request, *root));
    v1::OpenResponse response;
    *response.mutable_info() = TRY(file_info(fd, request.path().substr(request.path().rfind('/') + 1)));
    response.set_handle(next_handle_);
    handles_[next_handle_++] = Handle{std::move(fd), request.write()};
    return response;
}

Result<base::Fd> Files::open_existing(const v1::OpenRequest& request, const Root& root) const {
    const base::Fd path_fd = TRY(root.open(request.path(), O_PATH | (request.follow() ? 0 : O_NOFOLLOW)));
    TRY(check_regular(path_fd, request.path()));
    if (request.write()) return reopen(path_fd, O_WRONLY | O_TRUNC);
    return reopen(path_fd, O_RDONLY);
}

Result<base::Fd> Files::open_to_write(const v1::OpenRequest& request, const Root& root) const {
    if (request.make_parents()) TRY(root.place(request.path(), true));
    // Twice, since between the two steps somebody may make or remove the file.
    for (int attempt = 0;; ++attempt) {
        if (!request.exclusive()) {
            auto existing = open_existing(request, root);
            if (existing || existing.error().code != ErrorCode::kNotFound) return existing;
        }
        const Root::Place place = TRY(root.place(request.path(), false));
        base::Fd fd(::openat(place.dir.get(), place.name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
                             request.mode() & 07777));
        if (fd.valid()) return fd;
        if (errno != EEXIST || request.exclusive() || attempt == 1)
            return file_error(fmt::format("make '{}'", request.path()), errno);
    }
}

void Files::read_at(const v1::ReadAtRequest& request, rpc::Responder responder) const {
    const auto handle = find(request.handle());
    if (!handle) return responder.fail(handle.error());
    if (request.max_bytes() == 0 || request.max_bytes() > kMaxTransfer)
        return responder.fail(base::make_error(ErrorCode::kInvalidArgument,
                                               "max_bytes is {}; it must be 1 to {}", request.max_bytes(),
                                               kMaxTransfer));
    const auto buffer = std::make_unique_for_overwrite<uint8_t[]>(kHeadroom + request.max_bytes());
    size_t size = 0;
    while (size < request.max_bytes()) {
        const ssize_t n = ::pread((*handle)->fd.get(), buffer.get() + kHeadroom + size,
                                  request.max_bytes() - size, static_cast<off_t>(request.offset() + size));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return responder.fail(file_error("read a file", errno));
        if (n == 0) break;
        size += static_cast<size_t>(n);
    }
    if (size == 0) return responder.reply(std::string_view());
    const size_t prefix = rpc::bytes_field_size(size) - size;
    uint8_t* start = buffer.get() + kHeadroom - prefix;
    rpc::write_bytes_field_start(start, kDataField, size);
    responder.reply(base::as_text({start, prefix + size}));
}

Result<void> Files::write_at(const v1::WriteAtRequest& request) const {
    const Handle* handle = TRY(find(request.handle()));
    if (!handle->writable)
        return base::make_error(ErrorCode::kInvalidArgument, "the file was opened to be read");
    const std::string& data = request.data();
    for (size_t done = 0; done < data.size();) {
        const ssize_t n = ::pwrite(handle->fd.get(), data.data() + done, data.size() - done,
                                   static_cast<off_t>(request.offset() + done));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return file_error("write a file", errno);
        done += static_cast<size_t>(n);
    }
    return {};
}

Result<void> Files::close_file(const v1::CloseFileRequest& request) {
    const auto it = handles_.find(request.handle());
    if (it == handles_.end()) return find(request.handle()).error();
    const Handle handle = std::move(it->second);
    handles_.erase(it);
    if (!request.has_attributes()) return {};
    const v1::FileInfo& attributes = request.attributes();
    if (handle.writable) {
        struct stat status;
        // The hole at the end of a sparse file.
        if (::fstat(handle.fd.get(), &status) == 0 &&
            attributes.size() > static_cast<uint64_t>(status.st_size) &&
            ::ftruncate(handle.fd.get(), static_cast<off_t>(attributes.size())) < 0)
            return file_error("extend a file", errno);
    }
    return apply_attributes(handle.fd, attributes);
}

Result<void> Files::make(const v1::MakeRequest& request) const {
    const Root* root = TRY(this->root());
    const v1::FileInfo& attributes = request.attributes();
    const Root::Place place = TRY(root->place(request.path(), request.make_parents()));
    int error = make_entry(place, attributes);
    if (error == EEXIST && attributes.type() == v1::DIRECTORY && is_directory(place)) error = 0;
    if (error == EEXIST && request.replace() && ::unlinkat(place.dir.get(), place.name.c_str(), 0) == 0)
        error = make_entry(place, attributes);
    if (error) return file_error(fmt::format("make '{}'", request.path()), error);
    const base::Fd made(::openat(place.dir.get(), place.name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    if (!made.valid()) return file_error(fmt::format("open '{}'", request.path()), errno);
    return apply_attributes(made, attributes);
}

void Files::remove(const v1::RemoveRequest& request, rpc::Responder responder) {
    const auto root = this->root();
    if (!root) return responder.fail(root.error());
    auto place = (*root)->place(request.path(), false);
    if (!place) return responder.fail(place.error());
    if (!request.recursive()) {
        const int flags = is_directory(*place) ? AT_REMOVEDIR : 0;
        if (::unlinkat(place->dir.get(), place->name.c_str(), flags) == 0)
            return responder.reply(std::string_view());
        return responder.fail(file_error(fmt::format("remove '{}'", request.path()), errno));
    }
    auto held = std::make_shared<rpc::Responder>(std::move(responder));
    remove_recursively(loop_, std::move(place->dir), std::move(place->name),
                       [held](const Result<void>& outcome) { answer(*held, outcome); });
}

Result<const Files::Handle*> Files::find(uint64_t handle) const {
    const auto it = handles_.find(handle);
    if (it == handles_.end())
        return base::make_error(ErrorCode::kNotFound, "there is no open file {}", handle);
    return &it->second;
}

}  // namespace boxlite::agent
