// The blobs of the store: reading, and writing with verification.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/id.h"
#include "image/store.h"

namespace boxlite::image {

namespace {

std::string partial_path(const std::string& root, const Digest& digest) {
    return fmt::format("{}/partial/{}-{}", root, digest.algorithm_name(), digest.hex());
}

// Whether `path` still names the file behind `fd`: its last writer may have moved it into place.
bool is_still(int fd, const std::string& path) {
    struct stat by_fd, by_name;
    return ::fstat(fd, &by_fd) == 0 && ::lstat(path.c_str(), &by_name) == 0 &&
           by_fd.st_ino == by_name.st_ino && by_fd.st_dev == by_name.st_dev;
}

// The content is durable before it gets its name; the name itself when Store::record() syncs the folder.
Result<void> move_into_place(int fd, const std::string& from, const std::string& to) {
    if (::fsync(fd) < 0) return base::errno_error(ErrorCode::kStorage, "sync '{}'", from);
    const std::string folder = to.substr(0, to.rfind('/'));
    TRY(base::make_directories(folder));
    if (::rename(from.c_str(), to.c_str()) < 0)
        return base::errno_error(ErrorCode::kStorage, "move '{}' to '{}'", from, to);
    return {};
}

}  // namespace

Result<void> BlobWriter::adopt_existing_bytes() {
    struct stat st;
    if (::fstat(fd_.get(), &st) < 0)
        return base::errno_error(ErrorCode::kStorage, "look at '{}'", partial_path_);
    if (static_cast<uint64_t>(st.st_size) > descriptor_.size) return restart();
    std::vector<uint8_t> buffer(size_t{256} << 10);
    while (offset_ < static_cast<uint64_t>(st.st_size)) {
        const ssize_t n = ::pread(fd_.get(), buffer.data(), buffer.size(), static_cast<off_t>(offset_));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return base::errno_error(ErrorCode::kStorage, "read '{}'", partial_path_);
        if (n == 0) break;
        hasher_.update({buffer.data(), static_cast<size_t>(n)});
        offset_ += static_cast<uint64_t>(n);
    }
    return {};
}

Result<void> BlobWriter::append(base::ByteView data) {
    if (data.size() > descriptor_.size - offset_)
        return base::make_error(ErrorCode::kImage, "blob {} is larger than the {} bytes announced",
                                descriptor_.digest.to_string(), descriptor_.size);
    TRY_CONTEXT(base::pwrite_all(fd_.get(), data, offset_), partial_path_);
    hasher_.update(data);
    offset_ += data.size();
    write_behind_.wrote(fd_.get(), data.size());
    return {};
}

Result<void> BlobWriter::restart() {
    if (::ftruncate(fd_.get(), 0) < 0)
        return base::errno_error(ErrorCode::kStorage, "empty '{}'", partial_path_);
    hasher_ = TRY(Hasher::make(descriptor_.digest.algorithm()));
    offset_ = 0;
    return {};
}

void BlobWriter::discard() {
    ::unlink(partial_path_.c_str());
}

Result<void> BlobWriter::compare() {
    if (offset_ != descriptor_.size)
        return base::make_error(ErrorCode::kImage, "blob {} is {} bytes long, {} were announced",
                                descriptor_.digest.to_string(), offset_, descriptor_.size);
    const Digest actual = TRY(hasher_.finish());
    if (actual != descriptor_.digest)
        return base::make_error(ErrorCode::kImage,
                                "blob {} has the digest {}: its content is not what was asked for",
                                descriptor_.digest.to_string(), actual.to_string());
    return {};
}

Result<void> BlobWriter::verify() {
    auto compared = compare();
    verified_ = compared.ok();
    if (!verified_) discard();
    return compared;
}

Result<void> BlobWriter::commit() {
    if (!verified_) TRY(verify());
    return move_into_place(fd_.get(), partial_path_, final_path_);
}

std::string Store::blob_path(const Digest& digest) const {
    return fmt::format("{}/blobs/{}/{}", root_, digest.algorithm_name(), digest.hex());
}

bool Store::has_blob(const Descriptor& descriptor) const {
    struct stat st;
    return ::lstat(blob_path(descriptor.digest).c_str(), &st) == 0 && S_ISREG(st.st_mode) &&
           static_cast<uint64_t>(st.st_size) == descriptor.size;
}

Result<base::Fd> Store::open_blob(const Descriptor& descriptor) const {
    const std::string path = blob_path(descriptor.digest);
    auto fd = base::open_file(path, O_RDONLY | O_NOFOLLOW);
    if (!fd.ok() && fd.error().code == ErrorCode::kNotFound)
        return base::make_error(ErrorCode::kNotFound, "blob {} is missing from '{}'; pull the image again",
                                descriptor.digest.to_string(), root_);
    if (!fd.ok()) return std::move(fd).error();
    struct stat st;
    if (::fstat(fd->get(), &st) < 0) return base::errno_error(ErrorCode::kStorage, "look at '{}'", path);
    if (!S_ISREG(st.st_mode) || static_cast<uint64_t>(st.st_size) != descriptor.size)
        return base::make_error(ErrorCode::kImage,
                                "blob '{}' does not have the {} bytes it should; pull the image again", path,
                                descriptor.size);
    return std::move(fd).value();
}

Result<std::string> Store::read_blob(const Descriptor& descriptor, size_t limit) const {
    if (descriptor.size > limit)
        return base::make_error(ErrorCode::kImage, "blob {} is {} bytes, more than the {} allowed",
                                descriptor.digest.to_string(), descriptor.size, limit);
    const base::Fd fd = TRY(open_blob(descriptor));
    std::string content(descriptor.size, '\0');
    TRY_CONTEXT(base::read_exact(fd.get(), {reinterpret_cast<uint8_t*>(content.data()), content.size()}),
                blob_path(descriptor.digest));
    if (TRY(Digest::of(base::as_bytes(content), descriptor.digest.algorithm())) != descriptor.digest)
        return base::make_error(ErrorCode::kImage, "blob '{}' is damaged; remove the image and pull it again",
                                blob_path(descriptor.digest));
    return content;
}

Result<BlobStart> Store::begin_blob(const Descriptor& descriptor) {
    const std::string path = partial_path(root_, descriptor.digest);
    TRY(base::make_directories(root_ + "/partial"));
    for (;;) {
        if (has_blob(descriptor)) return BlobStart{.present = true};
        base::Fd fd = TRY(base::open_file(path, O_RDWR | O_CREAT | O_NOFOLLOW));
        if (::flock(fd.get(), LOCK_EX | LOCK_NB) < 0) {
            if (errno == EWOULDBLOCK) return BlobStart{};
            if (errno == EINTR) continue;
            return base::errno_error(ErrorCode::kStorage, "lock '{}'", path);
        }
        if (!is_still(fd.get(), path)) continue;
        if (has_blob(descriptor)) {
            ::unlink(path.c_str());
            return BlobStart{.present = true};
        }
        Hasher hasher = TRY(Hasher::make(descriptor.digest.algorithm()));
        BlobWriter writer(std::move(fd), std::move(hasher), descriptor, path, blob_path(descriptor.digest));
        TRY(writer.adopt_existing_bytes());
        return BlobStart{.present = false, .writer = std::move(writer)};
    }
}

uint64_t Store::partial_size(const Digest& digest) const {
    struct stat st;
    return ::lstat(partial_path(root_, digest).c_str(), &st) == 0 ? static_cast<uint64_t>(st.st_size) : 0;
}

Result<void> Store::put_blob(const Descriptor& descriptor, std::string_view content) {
    const Digest actual = TRY(Digest::of(base::as_bytes(content), descriptor.digest.algorithm()));
    if (actual != descriptor.digest || content.size() != descriptor.size)
        return base::make_error(ErrorCode::kImage, "blob {} of {} bytes turned out to be {} of {} bytes",
                                descriptor.digest.to_string(), descriptor.size, actual.to_string(),
                                content.size());
    if (has_blob(descriptor)) return {};
    const std::string path = blob_path(descriptor.digest);
    const std::string temporary = fmt::format("{}.tmp-{}", path, base::random_id(8));
    TRY(base::make_directories(path.substr(0, path.rfind('/'))));
    const base::Fd fd = TRY(base::open_file(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW));
    auto written = base::write_all(fd.get(), base::as_bytes(content));
    if (written.ok()) written = move_into_place(fd.get(), temporary, path);
    if (!written.ok()) {
        ::unlink(temporary.c_str());
        return std::move(written).error().with_context(path);
    }
    return {};
}

Result<base::TempDir> Store::make_staging() const {
    TRY(base::make_directories(root_ + "/partial"));
    return base::TempDir::make(root_ + "/partial");
}

Result<void> Store::adopt_file(const Descriptor& descriptor, const std::string& path, const Digest& actual) {
    const base::Fd fd = TRY(base::open_file(path, O_RDONLY | O_NOFOLLOW));
    struct stat st;
    if (::fstat(fd.get(), &st) < 0) return base::errno_error(ErrorCode::kStorage, "look at '{}'", path);
    if (actual != descriptor.digest || static_cast<uint64_t>(st.st_size) != descriptor.size)
        return base::make_error(ErrorCode::kImage, "blob {} of {} bytes turned out to be {} of {} bytes",
                                descriptor.digest.to_string(), descriptor.size, actual.to_string(),
                                st.st_size);
    if (has_blob(descriptor)) return {};
    return move_into_place(fd.get(), path, blob_path(descriptor.digest));
}

}  // namespace boxlite::image
