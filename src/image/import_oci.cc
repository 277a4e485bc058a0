// OCI image layouts.
#include "image/import_internal.h"
#include "json/json.h"

namespace boxlite::image {

namespace {

constexpr int kMaxNesting = 4;
constexpr std::string_view kRefName = "org.opencontainers.image.ref.name";
constexpr std::string_view kContainerdName = "io.containerd.image.name";  // always a full reference

std::string blob_name(const Digest& digest) {
    return fmt::format("blobs/{}/{}", digest.algorithm_name(), digest.hex());
}

Result<std::string> read_verified(const ImportJob& job, const Descriptor& blob, size_t limit) {
    if (blob.size > limit)
        return base::make_error(ErrorCode::kImage, "blob {} is {} bytes, more than the {} allowed",
                                blob.digest.to_string(), blob.size, limit);
    std::string content = TRY(job.source.read(blob_name(blob.digest), limit));
    const Digest actual = TRY(Digest::of(base::as_bytes(content), blob.digest.algorithm()));
    if (actual != blob.digest || content.size() != blob.size)
        return base::make_error(ErrorCode::kImage, "blob {} of {} bytes turned out to be {} of {} bytes",
                                blob.digest.to_string(), blob.size, actual.to_string(), content.size());
    return content;
}

Result<void> take_layer(const ImportJob& job, const Descriptor& layer) {
    if (job.store.has_blob(layer)) return {};
    const StagedFile file = TRY(job.source.stage(blob_name(layer.digest)));
    Digest actual = file.digest;
    if (layer.digest.algorithm() != DigestAlgorithm::kSha256)
        actual = TRY(digest_of_file(file.path, layer.digest.algorithm()));
    return job.store.adopt_file(layer, file.path, actual);
}

Result<Descriptor> take_image(const ImportJob& job, const Descriptor& entry, int depth) {
    const std::string content = TRY(read_verified(job, entry, kMaxManifestBytes));
    auto document = TRY_CONTEXT(parse_manifest(content, entry.media_type), entry.digest.to_string());
    if (const auto* index = std::get_if<Index>(&document)) {
        if (depth >= kMaxNesting) return base::make_error(ErrorCode::kImage, "indexes are nested too deeply");
        return take_image(job, TRY(select_platform(*index, job.options.platform))[0], depth + 1);
    }
    TRY(check_image_types(std::get<Manifest>(document)));
    // Written anew only where it uses Docker's types: the store keeps OCI manifests.
    const bool oci = entry.media_type == media_type::kOciManifest;
    Descriptor descriptor{entry.media_type, entry.digest, entry.size};
    WrittenManifest written{std::get<Manifest>(std::move(document)), std::move(descriptor), content};
    if (!oci) written = TRY(write_oci_manifest(std::move(written.manifest)));
    const Manifest& manifest = written.manifest;
    const std::string config_text = TRY(read_verified(job, manifest.config, kMaxConfigBytes));
    const ImageConfig config = TRY(parse_config(config_text));
    if (!job.options.platform.accepts(config.platform))
        return base::make_error(ErrorCode::kImage, "the image is for {}, not for {}",
                                config.platform.to_string(), job.options.platform.to_string());
    TRY(assemble_image(written.descriptor, manifest, config));
    for (const Descriptor& layer : manifest.layers) TRY(take_layer(job, layer));
    TRY(job.store.put_blob(manifest.config, config_text));
    TRY(job.store.put_blob(written.descriptor, written.content));
    return written.descriptor;
}

void name_image(const Descriptor& entry, ImportedImage& image) {
    const auto get = [&](std::string_view key) {
        const auto it = entry.annotations.find(std::string(key));
        return it == entry.annotations.end() ? "" : it->second;
    };
    image.name = get(kContainerdName);
    if (!image.name.empty()) return;
    image.name = get(kRefName);
    image.name_is_tag = !image.name.empty() && image.name.find_first_of("/:@") == std::string::npos;
}

Result<void> check_version(const ImportJob& job) {
    const std::string text = TRY(job.source.read("oci-layout", 4096));
    const json::Value layout = TRY(json::parse(text, "oci-layout", ErrorCode::kImage));
    const auto version =
        TRY(TRY(json::Reader(layout, "oci-layout", ErrorCode::kImage).at("imageLayoutVersion")).as_string());
    if (!version.starts_with("1."))
        return base::make_error(ErrorCode::kUnsupported, "the layout has version {}, only 1.x is understood",
                                version);
    return {};
}

}  // namespace

Result<std::vector<ImportedImage>> import_oci_layout(const ImportJob& job) {
    TRY(check_version(job));
    const std::string text = TRY(job.source.read("index.json", kMaxManifestBytes));
    const auto document = TRY_CONTEXT(parse_manifest(text, media_type::kOciIndex), "index.json");
    const auto& index = std::get<Index>(document);
    std::vector<ImportedImage> images;
    std::vector<std::string> passed_over;
    for (const Descriptor& entry : index.manifests) {
        if (entry.platform && !job.options.platform.accepts(*entry.platform)) {
            passed_over.push_back(entry.platform->to_string());
            continue;
        }
        Descriptor manifest = TRY(take_image(job, entry, 0));
        ImportedImage image{std::move(manifest), entry.digest, {}};
        name_image(entry, image);
        images.push_back(std::move(image));
    }
    if (images.empty())
        return base::make_error(
            ErrorCode::kNotFound, "there is no image for {}; there is: {}", job.options.platform.to_string(),
            passed_over.empty() ? "nothing" : fmt::format("{}", fmt::join(passed_over, ", ")));
    return images;
}

}  // namespace boxlite::image
