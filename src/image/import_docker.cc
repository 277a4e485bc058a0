// `docker save` archives, of both ages.
#include <algorithm>
#include <set>

#include "image/import_internal.h"
#include "json/json.h"

namespace boxlite::image {

namespace {

constexpr size_t kMaxImages = 1000;

// "<hex>.json", "blobs/sha256/<hex>": a name that says what the content must be.
Result<void> check_named_digest(const std::string& name, const Digest& actual) {
    std::string hex = name.substr(name.rfind('/') + 1);
    hex = hex.substr(0, hex.find('.'));
    if (!Digest::parse("sha256:" + hex).ok() || actual.hex() == hex) return {};
    return base::make_error(ErrorCode::kImage,
                            "'{}' has the digest {}: its content is not what its name says", name,
                            actual.to_string());
}

struct TakenLayer {
    Descriptor descriptor;
    Digest diff_id;
};

// Puts a layer into the store, as it is: plain or compressed.
Result<TakenLayer> take_layer(const ImportJob& job, const std::string& name) {
    const StagedFile file = TRY(job.source.stage(name));
    Descriptor layer{std::string(media_type::kOciLayer), file.digest, file.size};
    Digest diff_id = file.digest;
    // Already moved into the store when another image of the archive has the layer too.
    const std::string path = job.store.has_blob(layer) ? job.store.blob_path(layer.digest) : file.path;
    switch (TRY(sniff_compression(path))) {
        case Compression::kNone:
            break;
        case Compression::kGzip:
            layer.media_type = media_type::kOciLayerGzip;
            diff_id = TRY(digest_of_decompressed(path, job.limits));
            break;
        case Compression::kZstd:
            layer.media_type = media_type::kOciLayerZstd;
            diff_id = TRY(digest_of_decompressed(path, job.limits));
            break;
        case Compression::kOther:
            return base::make_error(ErrorCode::kUnsupported,
                                    "layer '{}' is compressed, but not by gzip or zstd", name);
    }
    if (!job.store.has_blob(layer)) TRY(job.store.adopt_file(layer, file.path, file.digest));
    return TakenLayer{std::move(layer), std::move(diff_id)};
}

// Stores configuration and a manifest made for it.
Result<ImportedImage> finish_image(const ImportJob& job, const std::string& config_text,
                                   const std::vector<Descriptor>& layers) {
    const ImageConfig config = TRY(parse_config(config_text));
    if (!job.options.platform.accepts(config.platform))
        return base::make_error(ErrorCode::kImage, "the image is for {}, not for {}",
                                config.platform.to_string(), job.options.platform.to_string());
    const Digest config_digest = TRY(Digest::of(base::as_bytes(config_text)));
    const Descriptor config_blob{std::string(media_type::kOciConfig), config_digest, config_text.size()};
    const WrittenManifest written =
        TRY(write_oci_manifest({std::string(media_type::kOciManifest), config_blob, layers, {}}));
    TRY(job.store.put_blob(config_blob, config_text));
    TRY(job.store.put_blob(written.descriptor, written.content));
    return ImportedImage{written.descriptor, written.descriptor.digest, {}};
}

Result<ImportedImage> take_image(const ImportJob& job, const json::Reader& entry) {
    const std::string config_name = TRY(TRY(entry.at("Config")).as_string());
    const std::string config_text = TRY(job.source.read(config_name, kMaxConfigBytes));
    TRY(check_named_digest(config_name, TRY(Digest::of(base::as_bytes(config_text)))));
    const ImageConfig config = TRY_CONTEXT(parse_config(config_text), config_name);
    const auto names = TRY(entry.strings_or_empty("Layers"));
    if (names.size() != config.diff_ids.size() || names.size() > kMaxLayers)
        return entry.error(
            fmt::format("names {} layers, its configuration {}", names.size(), config.diff_ids.size()));
    std::vector<Descriptor> layers;
    for (size_t i = 0; i < names.size(); ++i) {
        TakenLayer layer = TRY(take_layer(job, names[i]));
        if (layer.diff_id != config.diff_ids[i])
            return base::make_error(ErrorCode::kImage, "layer '{}' has the digest {}, its image says {}",
                                    names[i], layer.diff_id.to_string(), config.diff_ids[i].to_string());
        layers.push_back(std::move(layer.descriptor));
    }
    return finish_image(job, config_text, layers);
}

// One layer of the old layout: "<id>/json" and "<id>/layer.tar", chained by "parent".
struct LegacyImage {
    std::string config_text;
    std::vector<Descriptor> layers;
};

Result<LegacyImage> take_legacy_chain(const ImportJob& job, const std::string& top) {
    std::vector<std::string> chain;  // top first
    json::Value top_json;
    for (std::string id = top; !id.empty();) {
        if (std::find(chain.begin(), chain.end(), id) != chain.end() || chain.size() >= kMaxLayers)
            return base::make_error(ErrorCode::kImage, "the chain of parents of layer '{}' does not end",
                                    top);
        const std::string text = TRY(job.source.read(id + "/json", kMaxConfigBytes));
        json::Value value =
            TRY(json::parse(text, id + "/json", ErrorCode::kImage, {.bytes = kMaxConfigBytes}));
        const std::string parent =
            TRY(json::Reader(value, id + "/json", ErrorCode::kImage).string_or("parent", ""));
        if (chain.empty()) top_json = std::move(value);
        chain.push_back(id);
        id = parent;
    }
    LegacyImage image;
    json::Value diff_ids = json::Value::array();
    for (auto id = chain.rbegin(); id != chain.rend(); ++id) {
        TakenLayer layer = TRY(take_layer(job, *id + "/layer.tar"));
        diff_ids.push_back(layer.diff_id.to_string());
        image.layers.push_back(std::move(layer.descriptor));
    }
    json::Value config{{"os", "linux"}, {"architecture", job.options.platform.architecture}};
    for (const char* member : {"os", "architecture", "created", "author", "config"})
        if (top_json.contains(member)) config[member] = top_json[member];
    config["rootfs"] = {{"type", "layers"}, {"diff_ids", diff_ids}};
    image.config_text = json::dump(config);
    return image;
}

}  // namespace

Result<std::vector<ImportedImage>> import_docker_archive(const ImportJob& job) {
    const std::string text = TRY(job.source.read("manifest.json", kMaxManifestBytes));
    const json::Value value = TRY(json::parse(text, "manifest.json", ErrorCode::kImage));
    const json::Reader root(value, "manifest.json", ErrorCode::kImage);
    const auto entries = TRY(root.as_array());
    if (entries.empty() || entries.size() > kMaxImages)
        return root.error(fmt::format("names {} images", entries.size()));
    std::vector<ImportedImage> images;
    for (const json::Reader& entry : entries) {
        ImportedImage image = TRY(take_image(job, entry));
        const auto tags = TRY(entry.strings_or_empty("RepoTags"));
        if (tags.empty()) images.push_back(image);
        for (const std::string& tag : tags) {
            image.name = tag;
            images.push_back(image);
        }
    }
    return images;
}

Result<std::vector<ImportedImage>> import_legacy_archive(const ImportJob& job) {
    const std::string text = TRY(job.source.read("repositories", kMaxManifestBytes));
    const json::Value value = TRY(json::parse(text, "repositories", ErrorCode::kImage));
    std::vector<ImportedImage> images;
    for (const auto& [repository, tags] :
         TRY(json::Reader(value, "repositories", ErrorCode::kImage).as_object())) {
        for (const auto& [tag, id] : TRY(tags.as_object())) {
            if (images.size() >= kMaxImages) return id.error("is one image too many");
            const std::string top = TRY(id.as_string());
            const LegacyImage legacy = TRY(take_legacy_chain(job, top));
            ImportedImage image = TRY(finish_image(job, legacy.config_text, legacy.layers));
            image.name = fmt::format("{}:{}", repository, tag);
            images.push_back(std::move(image));
        }
    }
    if (images.empty()) return base::make_error(ErrorCode::kImage, "the archive names no image");
    return images;
}

}  // namespace boxlite::image
