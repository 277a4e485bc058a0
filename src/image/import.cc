#include "image/import.h"

#include <sys/stat.h>

#include <algorithm>
#include <set>

#include "image/import_internal.h"

namespace boxlite::image {

namespace {

// Whether the name has a tag or a digest of its own.
bool has_tag(std::string_view name) {
    const size_t slash = name.rfind('/');
    return name.find_first_of(":@", slash == std::string_view::npos ? 0 : slash) != std::string_view::npos;
}

// A repository name made of a file's name: "My App-1.0.tar.gz" gives "my-app-1.0". "" when nothing is left.
std::string name_from_path(std::string path) {
    while (path.size() > 1 && path.ends_with('/')) path.pop_back();
    std::string name = path.substr(path.rfind('/') + 1);
    for (const std::string_view ending : {".gz", ".zst", ".xz", ".bz2", ".tgz", ".tar", ".oci"})
        if (name.size() > ending.size() && name.ends_with(ending)) name.resize(name.size() - ending.size());
    std::string clean;
    for (const char c : name) {
        const bool letter = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        if (letter)
            clean += c;
        else if (c >= 'A' && c <= 'Z')
            clean += static_cast<char>(c - 'A' + 'a');
        else if (!clean.empty() && clean.back() != '-' && clean.back() != '.' && clean.back() != '_')
            clean += c == '.' || c == '_' ? c : '-';
    }
    while (!clean.empty() && (clean.back() == '-' || clean.back() == '.' || clean.back() == '_'))
        clean.pop_back();
    return clean;
}

Result<Reference> reference_for(const ImportedImage& image, size_t count, const ImportOptions& options,
                                const std::string& path) {
    if (count == 1 && !options.name.empty()) {
        const bool add_tag = image.name_is_tag && !has_tag(options.name);
        return Reference::parse(add_tag ? options.name + ":" + image.name : options.name);
    }
    if (!image.name.empty() && !image.name_is_tag) return Reference::parse(image.name);
    if (image.name.empty() && count > 1)
        return base::make_error(ErrorCode::kImage, "'{}' holds {} images and one of them has no name", path,
                                count);
    const std::string base = options.name.empty() ? name_from_path(path) : options.name;
    if (base.empty())
        return base::make_error(ErrorCode::kInvalidArgument, "the image in '{}' has no name: give it one",
                                path);
    if (image.name_is_tag && has_tag(base))
        return base::make_error(ErrorCode::kInvalidArgument,
                                "'{}' holds several tags: give a name without a tag", path);
    return Reference::parse(image.name_is_tag ? base + ":" + image.name : base);
}

Result<std::vector<ImportedImage>> import_any(const ImportJob& job, const std::string& path) {
    if (job.source.has("index.json") && job.source.has("oci-layout")) return import_oci_layout(job);
    if (job.source.has("manifest.json")) return import_docker_archive(job);
    if (job.source.has("repositories")) return import_legacy_archive(job);
    return base::make_error(
        ErrorCode::kImage,
        "'{}' is neither an OCI image layout (oci-layout, index.json) nor a `docker save` archive "
        "(manifest.json)",
        path);
}

Result<std::vector<StoredImage>> import_into(Store& store, const std::string& path,
                                             const ImportOptions& options) {
    const StoreLease lease = TRY(store.hold());
    struct stat st;
    if (::stat(path.c_str(), &st) < 0)
        return base::errno_error(errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kStorage, "open '{}'",
                                 path);
    const base::TempDir staging = TRY(store.make_staging());
    const ImportLimits limits{options.max_bytes, options.stop};
    const auto source = S_ISDIR(st.st_mode) ? TRY(open_directory_source(path, staging.path(), limits))
                                            : TRY(open_archive_source(path, staging.path(), limits));
    const auto images = TRY_CONTEXT(import_any({store, *source, options, limits}, path), "import");

    std::vector<Reference> references;
    for (const ImportedImage& image : images) {
        references.push_back(TRY(reference_for(image, images.size(), options, path)));
        const auto same = std::find(references.begin(), references.end() - 1, references.back());
        if (same != references.end() - 1 &&
            images[static_cast<size_t>(same - references.begin())].manifest.digest != image.manifest.digest)
            return base::make_error(ErrorCode::kImage, "'{}' holds two images named '{}'", path,
                                    references.back().familiar());
    }
    std::vector<StoredImage> stored;
    for (size_t i = 0; i < images.size(); ++i) {
        TRY(store.record(references[i], images[i].manifest, images[i].source));
        stored.push_back(TRY(store.find(references[i].to_string())));
    }
    return stored;
}

}  // namespace

Result<std::vector<StoredImage>> import_images(Store& store, const std::string& path,
                                               const ImportOptions& options) {
    auto stored = import_into(store, path, options);
    TRY(store.collect_if_wanted());
    return stored;
}

}  // namespace boxlite::image
