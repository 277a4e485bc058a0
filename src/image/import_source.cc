#include "image/import_source.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <vector>

#include "base/file.h"
#include "image/archive_library.h"
#include "image/blob_reader.h"

namespace boxlite::image {

namespace {

constexpr size_t kMaxEntries = 100'000;
constexpr int kMaxLinkHops = 8;
constexpr size_t kBlock = size_t{256} << 10;
// Nothing real compresses better than this once it is large.
constexpr uint64_t kMaxRatio = 1000;
constexpr uint64_t kRatioMattersFrom = uint64_t{1} << 30;

// Only where open_archive() has succeeded.
const ArchiveLibrary& library() {
    return *archive_library();
}

struct FreeArchive {
    void operator()(archive* a) const { library().read_free(a); }
};
using Archive = std::unique_ptr<archive, FreeArchive>;

Error broken(const std::string& path, archive* a) {
    const char* reason = library().error_string(a);
    return base::make_error(ErrorCode::kImage, "cannot read archive '{}': {}", path,
                            reason ? reason : "unknown reason");
}

// Only filters that libarchive has built in: never one that starts a program.
Result<Archive> open_archive(const std::string& path, bool raw) {
    if (!archive_library().ok()) return archive_library().error();
    Archive a(library().read_new());
    if (!a) return base::make_error(ErrorCode::kInternal, "libarchive cannot be used");
    library().read_support_filter_gzip(a.get());
    library().read_support_filter_zstd(a.get());
    library().read_support_filter_xz(a.get());
    library().read_support_filter_bzip2(a.get());
    if (raw)
        library().read_support_format_raw(a.get());
    else
        library().read_support_format_tar(a.get());
    if (library().read_open_filename(a.get(), path.c_str(), kBlock) != ARCHIVE_OK)
        return broken(path, a.get());
    return a;
}

// Counts what comes out against the limits.
class Budget {
  public:
    Budget(const ImportLimits& limits, std::string path) : limits_(limits), path_(std::move(path)) {}
    Result<void> spend(uint64_t bytes, uint64_t bytes_read) {
        if (limits_.stop.stop_requested())
            return base::make_error(ErrorCode::kStopped, "the import was stopped");
        spent_ += bytes;
        if (spent_ > limits_.max_bytes)
            return base::make_error(ErrorCode::kResourceExhausted,
                                    "'{}' holds more than the {} bytes allowed", path_, limits_.max_bytes);
        if (spent_ > kRatioMattersFrom && spent_ / kMaxRatio > bytes_read)
            return base::make_error(ErrorCode::kResourceExhausted,
                                    "'{}' unpacks to more than {} times its size", path_, kMaxRatio);
        return {};
    }

  private:
    ImportLimits limits_;
    std::string path_;
    uint64_t spent_ = 0;
};

// Writes a staged file while hashing it.
class StagedWriter {
  public:
    static Result<StagedWriter> make(std::string path) {
        Hasher hasher = TRY(Hasher::make());
        base::Fd fd = TRY(base::open_file(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW));
        return StagedWriter(std::move(path), std::move(fd), std::move(hasher));
    }
    Result<void> append(base::ByteView data) {
        TRY_CONTEXT(base::write_all(fd_.get(), data), path_);
        hasher_.update(data);
        size_ += data.size();
        return {};
    }
    Result<StagedFile> finish() {
        Digest digest = TRY(hasher_.finish());
        return StagedFile{path_, std::move(digest), size_};
    }

  private:
    StagedWriter(std::string path, base::Fd fd, Hasher hasher)
        : path_(std::move(path)), fd_(std::move(fd)), hasher_(std::move(hasher)) {}
    std::string path_;
    base::Fd fd_;
    Hasher hasher_;
    uint64_t size_ = 0;
};

class DirectorySource : public ImportSource {
  public:
    DirectorySource(base::Fd root, std::string path, std::string staging, const ImportLimits& limits)
        : root_(std::move(root)),
          path_(std::move(path)),
          staging_(std::move(staging)),
          limits_(limits),
          budget_(limits, path_) {}

    bool has(const std::string& name) override { return open(name).ok(); }

    Result<StagedFile> stage(const std::string& name) override {
        if (const auto it = staged_.find(name); it != staged_.end()) return it->second;
        const base::Fd fd = TRY(open(name));
        StagedWriter writer = TRY(StagedWriter::make(fmt::format("{}/{}", staging_, staged_.size())));
        std::vector<uint8_t> buffer(kBlock);
        for (;;) {
            const ssize_t n = ::read(fd.get(), buffer.data(), buffer.size());
            if (n < 0 && errno == EINTR) continue;
            if (n < 0) return base::errno_error(ErrorCode::kStorage, "read '{}/{}'", path_, name);
            if (n == 0) break;
            TRY(budget_.spend(static_cast<uint64_t>(n), UINT64_MAX));
            TRY(writer.append({buffer.data(), static_cast<size_t>(n)}));
        }
        StagedFile file = TRY(writer.finish());
        staged_.emplace(name, file);
        return file;
    }

  private:
    Result<base::Fd> open(const std::string& name) {
        open_how how{};
        // O_NONBLOCK: a FIFO must not hold us up before it is refused.
        how.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;
        how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
        base::Fd fd(static_cast<int>(::syscall(SYS_openat2, root_.get(), name.c_str(), &how, sizeof how)));
        if (!fd.valid() && errno == EXDEV)
            return base::make_error(ErrorCode::kImage, "'{}/{}' leads out of the image's folder", path_,
                                    name);
        if (!fd.valid())
            return base::errno_error(errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kStorage,
                                     "open '{}/{}'", path_, name);
        struct stat st;
        if (::fstat(fd.get(), &st) < 0 || !S_ISREG(st.st_mode))
            return base::make_error(ErrorCode::kImage, "'{}/{}' is not a regular file", path_, name);
        return fd;
    }

    base::Fd root_;
    std::string path_, staging_;
    ImportLimits limits_;
    Budget budget_;
    std::map<std::string, StagedFile> staged_;
};

class ArchiveSource : public ImportSource {
  public:
    explicit ArchiveSource(std::string path) : path_(std::move(path)) {}

    bool has(const std::string& name) override { return find(name).ok(); }
    Result<StagedFile> stage(const std::string& name) override { return find(name); }

    Result<void> unpack(const std::string& staging, const ImportLimits& limits) {
        const Archive a = TRY(open_archive(path_, /*raw=*/false));
        Budget budget(limits, path_);
        size_t entries = 0;
        for (;;) {
            archive_entry* entry = nullptr;
            const int result = library().read_next_header(a.get(), &entry);
            if (result == ARCHIVE_EOF) return {};
            if (result != ARCHIVE_OK && result != ARCHIVE_WARN) return broken(path_, a.get());
            if (++entries > kMaxEntries)
                return base::make_error(ErrorCode::kResourceExhausted, "'{}' has more than {} entries", path_,
                                        kMaxEntries);
            TRY_CONTEXT(take(a.get(), entry, staging, budget), path_);
        }
    }

  private:
    Result<void> take(archive* a, archive_entry* entry, const std::string& staging, Budget& budget) {
        const char* raw_name = library().entry_pathname(entry);
        if (!raw_name) return base::make_error(ErrorCode::kImage, "an entry has no usable name");
        std::string name = TRY(clean_archive_name(raw_name));
        if (library().entry_filetype(entry) == AE_IFDIR) return {};
        if (files_.contains(name) || links_.contains(name))
            return base::make_error(ErrorCode::kImage, "'{}' is there twice", name);
        if (const char* target = library().entry_hardlink(entry)) {
            const std::string original = TRY(clean_archive_name(target));
            const auto it = files_.find(original);
            if (it == files_.end())
                return base::make_error(ErrorCode::kImage, "'{}' links to '{}', which is not there", name,
                                        original);
            files_.emplace(std::move(name), it->second);
            return {};
        }
        if (library().entry_filetype(entry) == AE_IFLNK) {
            const char* target = library().entry_symlink(entry);
            links_.emplace(std::move(name), target ? target : "");
            return {};
        }
        if (library().entry_filetype(entry) != AE_IFREG)
            return base::make_error(ErrorCode::kImage, "'{}' is neither a file nor a directory nor a link",
                                    name);
        StagedFile file = TRY(unpack_file(a, fmt::format("{}/{}", staging, files_.size()), budget));
        files_.emplace(std::move(name), std::move(file));
        return {};
    }

    Result<StagedFile> unpack_file(archive* a, std::string path, Budget& budget) {
        StagedWriter writer = TRY(StagedWriter::make(std::move(path)));
        std::vector<uint8_t> buffer(kBlock);
        for (;;) {
            const la_ssize_t n = library().read_data(a, buffer.data(), buffer.size());
            if (n < 0) return broken(path_, a);
            if (n == 0) return writer.finish();
            TRY(budget.spend(static_cast<uint64_t>(n), static_cast<uint64_t>(library().filter_bytes(a, -1))));
            TRY(writer.append({buffer.data(), static_cast<size_t>(n)}));
        }
    }

    Result<StagedFile> find(const std::string& raw_name) {
        std::string name = TRY(clean_archive_name(raw_name));
        for (int hop = 0; hop <= kMaxLinkHops; ++hop) {
            if (const auto it = files_.find(name); it != files_.end()) return it->second;
            const auto link = links_.find(name);
            if (link == links_.end())
                return base::make_error(ErrorCode::kNotFound, "'{}' has no file '{}'", path_, raw_name);
            const std::string folder =
                name.substr(0, name.rfind('/') == std::string::npos ? 0 : name.rfind('/'));
            name = TRY(clean_archive_name(link->second, &folder));
        }
        return base::make_error(ErrorCode::kImage, "'{}' in '{}' is a loop of links", raw_name, path_);
    }

    std::string path_;
    std::map<std::string, StagedFile> files_;
    std::map<std::string, std::string> links_;
};

}  // namespace

Result<std::string> clean_archive_name(std::string_view name, const std::string* base) {
    const auto outside = [&] {
        return base::make_error(ErrorCode::kImage, "the name '{}' leads out of the archive",
                                name.substr(0, 200));
    };
    if (name.starts_with('/')) return outside();
    std::vector<std::string_view> parts;
    const auto add = [&](std::string_view text, bool may_go_up) {
        while (!text.empty()) {
            const size_t slash = text.find('/');
            const std::string_view part = text.substr(0, slash);
            text.remove_prefix(slash == std::string_view::npos ? text.size() : slash + 1);
            if (part.empty() || part == ".") continue;
            if (part != "..") {
                parts.push_back(part);
                continue;
            }
            if (!may_go_up || parts.empty()) return false;
            parts.pop_back();
        }
        return true;
    };
    if (base && !add(*base, false)) return outside();
    if (!add(name, base != nullptr)) return outside();
    return fmt::format("{}", fmt::join(parts, "/"));
}

Result<std::string> ImportSource::read(const std::string& name, size_t limit) {
    const StagedFile file = TRY(stage(name));
    return base::read_file(file.path, limit);
}

Result<std::unique_ptr<ImportSource>> open_directory_source(const std::string& path,
                                                            const std::string& staging,
                                                            const ImportLimits& limits) {
    base::Fd root = TRY(base::open_file(path, O_RDONLY | O_DIRECTORY));
    return std::unique_ptr<ImportSource>(
        std::make_unique<DirectorySource>(std::move(root), path, staging, limits));
}

Result<std::unique_ptr<ImportSource>> open_archive_source(const std::string& path, const std::string& staging,
                                                          const ImportLimits& limits) {
    auto source = std::make_unique<ArchiveSource>(path);
    TRY(source->unpack(staging, limits));
    return std::unique_ptr<ImportSource>(std::move(source));
}

Result<Digest> digest_of_file(const std::string& path, DigestAlgorithm algorithm) {
    FileBlobReader reader(TRY(base::open_file(path, O_RDONLY)));
    Hasher hasher = TRY(Hasher::make(algorithm));
    std::vector<uint8_t> buffer(kBlock);
    while (const size_t n = TRY(reader.read(buffer))) hasher.update({buffer.data(), n});
    return hasher.finish();
}

Result<Compression> sniff_compression(const std::string& path) {
    const base::Fd fd = TRY(base::open_file(path, O_RDONLY));
    unsigned char magic[6] = {};
    if (::pread(fd.get(), magic, sizeof magic, 0) < 0)
        return base::errno_error(ErrorCode::kStorage, "read '{}'", path);
    const std::string_view start(reinterpret_cast<const char*>(magic), sizeof magic);
    if (start.starts_with("\x1f\x8b")) return Compression::kGzip;
    if (start.starts_with("\x28\xb5\x2f\xfd")) return Compression::kZstd;
    if (start.starts_with("BZh") || start.starts_with("\xfd"
                                                      "7zXZ"))
        return Compression::kOther;
    return Compression::kNone;
}

Result<Digest> digest_of_decompressed(const std::string& path, const ImportLimits& limits) {
    const Archive a = TRY(open_archive(path, /*raw=*/true));
    archive_entry* entry = nullptr;
    if (library().read_next_header(a.get(), &entry) != ARCHIVE_OK) return broken(path, a.get());
    Hasher hasher = TRY(Hasher::make());
    Budget budget(limits, path);
    std::vector<uint8_t> buffer(kBlock);
    for (;;) {
        const la_ssize_t n = library().read_data(a.get(), buffer.data(), buffer.size());
        if (n < 0) return broken(path, a.get());
        if (n == 0) return hasher.finish();
        TRY(budget.spend(static_cast<uint64_t>(n),
                         static_cast<uint64_t>(library().filter_bytes(a.get(), -1))));
        hasher.update({buffer.data(), static_cast<size_t>(n)});
    }
}

}  // namespace boxlite::image
