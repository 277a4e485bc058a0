// What is still needed, what is not, and how much space both take.
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "base/clock.h"
#include "image/store.h"

namespace boxlite::image {

namespace {

namespace fs = std::filesystem;

constexpr int kMaxNesting = 4;
constexpr std::string_view kStagingPrefix = "boxlite-";  // as base::TempDir names its folders

struct BlobFile {
    fs::path path;
    std::optional<Digest> digest;  // nullopt: a leftover of an interrupted write
    uint64_t size;
};

Result<std::vector<BlobFile>> list_blobs(const std::string& root) {
    std::vector<BlobFile> blobs;
    std::error_code failure;
    for (const auto& folder : fs::directory_iterator(root + "/blobs", failure)) {
        const std::string algorithm = folder.path().filename();
        for (const auto& file : fs::directory_iterator(folder.path(), failure)) {
            auto digest = Digest::parse(fmt::format("{}:{}", algorithm, file.path().filename().string()));
            // A write of another process may have ended between listing and looking.
            std::error_code gone;
            const uint64_t size = file.file_size(gone);
            if (gone) continue;
            blobs.push_back(
                {file.path(), digest.ok() ? std::optional(std::move(digest).value()) : std::nullopt, size});
        }
    }
    if (failure)
        return Error::from_errno(ErrorCode::kStorage, fmt::format("list '{}/blobs'", root), failure.value());
    return blobs;
}

bool is_abandoned(const fs::path& path) {
    struct stat st;
    constexpr int64_t kWeek = int64_t{7} * 24 * 3600 * 1'000'000'000;
    return ::lstat(path.c_str(), &st) == 0 &&
           base::realtime_ns() - st.st_mtim.tv_sec * int64_t{1'000'000'000} > kWeek;
}

// Staging folders of imports that did not end go always: they cannot be resumed.
Result<uint64_t> clean_partials(const std::string& root, bool all) {
    uint64_t freed = 0;
    if (!base::path_exists(root + "/partial")) return freed;
    std::error_code failure;
    for (const auto& entry : fs::directory_iterator(root + "/partial", failure)) {
        const bool staging = entry.path().filename().string().starts_with(kStagingPrefix);
        if (!staging && !all && !is_abandoned(entry.path())) continue;
        std::error_code gone;
        const uint64_t size = staging ? 0 : entry.file_size(gone);
        TRY(base::remove_tree(entry.path()));
        freed += gone ? 0 : size;
    }
    if (failure)
        return Error::from_errno(ErrorCode::kStorage, fmt::format("list '{}/partial'", root),
                                 failure.value());
    return freed;
}

}  // namespace

Result<void> Store::mark(const Descriptor& entry, std::set<Digest>& reached, int depth) const {
    reached.insert(entry.digest);
    // What cannot be read cannot be used either: it keeps only itself.
    const auto text = read_blob(entry, kMaxManifestBytes);
    if (!text.ok() || depth > kMaxNesting) return {};
    const auto document = parse_manifest(*text, entry.media_type);
    if (!document.ok()) return {};
    if (const auto* index = std::get_if<Index>(&*document)) {
        for (const Descriptor& child : index->manifests) TRY(mark(child, reached, depth + 1));
        return {};
    }
    const auto& manifest = std::get<Manifest>(*document);
    reached.insert(manifest.config.digest);
    for (const Descriptor& layer : manifest.layers) reached.insert(layer.digest);
    return {};
}

Result<StoreLease> Store::hold() const {
    return StoreLease(TRY(base::FileLock::acquire_shared(root_ + "/gc.lock")));
}

Result<Removed> Store::collect_garbage(bool partials) {
    Removed removed;
    auto alone = base::FileLock::try_acquire(root_ + "/gc.lock");
    if (!alone.ok() && alone.error().code == ErrorCode::kInvalidState) {
        TRY(base::write_file_atomically(root_ + "/gc.wanted", {}));
        removed.postponed = true;
        return removed;
    }
    if (!alone.ok()) return std::move(alone).error();
    const base::FileLock index_lock = TRY(base::FileLock::acquire(root_ + "/index.lock"));
    ::unlink((root_ + "/gc.wanted").c_str());

    std::set<Digest> reached;
    for (const Descriptor& entry : TRY(read_index()).manifests) TRY(mark(entry, reached));
    for (const BlobFile& blob : TRY(list_blobs(root_))) {
        if (blob.digest && reached.contains(*blob.digest)) continue;
        TRY(base::remove_tree(blob.path));
        removed.freed_bytes += blob.size;
    }
    removed.freed_bytes += TRY(clean_partials(root_, partials));
    return removed;
}

Result<void> Store::collect_if_wanted() {
    if (!base::path_exists(root_ + "/gc.wanted")) return {};
    TRY(collect_garbage());
    return {};
}

Result<StoreUsage> Store::usage() const {
    std::set<Digest> reached;
    for (const Descriptor& entry : TRY(read_index()).manifests) TRY(mark(entry, reached));
    StoreUsage usage;
    for (const BlobFile& blob : TRY(list_blobs(root_))) {
        ++usage.blob_count;
        usage.blob_bytes += blob.size;
        if (!blob.digest || !reached.contains(*blob.digest)) usage.unreferenced_bytes += blob.size;
    }
    std::error_code failure;
    for (const auto& entry : fs::directory_iterator(root_ + "/partial", failure)) {
        std::error_code gone;
        const uint64_t size = entry.file_size(gone);
        if (!gone) usage.partial_bytes += size;
    }
    return usage;
}

Result<uint64_t> Store::unique_size(const Image& image) const {
    std::set<Digest> others;
    for (const Descriptor& entry : TRY(read_index()).manifests)
        if (entry.digest != image.manifest.digest) TRY(mark(entry, others));
    std::set<Digest> counted;
    uint64_t bytes = 0;
    const auto count = [&](const Descriptor& blob) {
        if (!others.contains(blob.digest) && counted.insert(blob.digest).second) bytes += blob.size;
    };
    count(image.manifest);
    count(image.config_descriptor);
    for (const Layer& layer : image.layers) count(layer.descriptor);
    return bytes;
}

}  // namespace boxlite::image
