// Manifests and indexes.
#include "image/image.h"
#include "json/json.h"

namespace boxlite::image {

namespace {

using json::Reader;

Result<Digest> read_digest(const Reader& value) {
    auto digest = Digest::parse(TRY(value.as_string()));
    if (!digest.ok()) return value.error(digest.error().message);
    return digest;
}

Result<Platform> read_platform(const Reader& value) {
    Platform platform;
    platform.os = TRY(value.string_or("os", ""));
    platform.architecture = TRY(value.string_or("architecture", ""));
    platform.variant = TRY(value.string_or("variant", ""));
    return platform;
}

Result<Descriptor> read_descriptor(const Reader& value) {
    std::string type = TRY(TRY(value.at("mediaType")).as_string());
    Digest digest = TRY(read_digest(TRY(value.at("digest"))));
    Descriptor descriptor{std::move(type), std::move(digest)};
    const Reader size = TRY(value.at("size"));
    descriptor.size = TRY(size.as_unsigned());
    if (descriptor.size > INT64_MAX) return size.error("is too large");
    if (const auto platform = TRY(value.find("platform")))
        descriptor.platform = TRY(read_platform(*platform));
    descriptor.annotations = TRY(value.string_map_or_empty("annotations"));
    descriptor.artifact_type = TRY(value.string_or("artifactType", ""));
    return descriptor;
}

Result<std::vector<Descriptor>> read_descriptors(const Reader& list, size_t limit) {
    const auto elements = TRY(list.as_array());
    if (elements.size() > limit)
        return list.error(fmt::format("has {} entries, more than {}", elements.size(), limit));
    std::vector<Descriptor> descriptors;
    for (const Reader& element : elements) descriptors.push_back(TRY(read_descriptor(element)));
    return descriptors;
}

// What the document says it is, weighed against what was said about it. CVE-2021-41190: two readers must
// not be able to see two different things in one document.
Result<std::string> settle_media_type(const Reader& root, std::string_view declared) {
    const std::string own = TRY(root.string_or("mediaType", ""));
    const bool declared_known = media_type::is_manifest(declared) || media_type::is_index(declared);
    if (!own.empty() && declared_known && own != declared)
        return root.error(fmt::format("says it is '{}' but was announced as '{}'", own, declared));
    if (!own.empty() && !media_type::is_manifest(own) && !media_type::is_index(own))
        return root.error(fmt::format("has the unsupported type '{}'", own));

    const bool like_index = root.value().contains("manifests");
    const bool like_manifest = root.value().contains("layers") || root.value().contains("config");
    if ((like_index && like_manifest) || root.value().contains("fsLayers"))
        return root.error("is ambiguous: it has the members of more than one kind of document");
    const std::string_view type = !own.empty()     ? std::string_view(own)
                                  : declared_known ? declared
                                  : like_index     ? media_type::kOciIndex
                                                   : media_type::kOciManifest;
    if (media_type::is_index(type) ? like_manifest : like_index)
        return root.error(fmt::format("does not have the members of its type '{}'", type));
    return std::string(type);
}

struct SameContent {
    std::string_view docker, oci;
};
constexpr SameContent kSameContent[] = {
    {media_type::kDockerManifest, media_type::kOciManifest},
    {media_type::kDockerConfig, media_type::kOciConfig},
    {media_type::kDockerLayer, media_type::kOciLayer},
    {media_type::kDockerLayerGzip, media_type::kOciLayerGzip},
    {"application/vnd.docker.image.rootfs.diff.tar.zstd", media_type::kOciLayerZstd},
    {"application/vnd.docker.image.rootfs.foreign.diff.tar.gzip",
     "application/vnd.oci.image.layer.nondistributable.v1.tar+gzip"},
};

void use_oci_type(std::string& type) {
    for (const SameContent& same : kSameContent)
        if (type == same.docker) type = same.oci;
}

json::Value to_json(const Descriptor& descriptor) {
    json::Value value{{"mediaType", descriptor.media_type},
                      {"digest", descriptor.digest.to_string()},
                      {"size", descriptor.size}};
    if (!descriptor.annotations.empty()) value["annotations"] = descriptor.annotations;
    return value;
}

}  // namespace

Result<WrittenManifest> write_oci_manifest(Manifest manifest) {
    use_oci_type(manifest.media_type);
    use_oci_type(manifest.config.media_type);
    json::Value layers = json::Value::array();
    for (Descriptor& layer : manifest.layers) {
        use_oci_type(layer.media_type);
        layers.push_back(to_json(layer));
    }
    json::Value document{{"schemaVersion", 2},
                         {"mediaType", manifest.media_type},
                         {"config", to_json(manifest.config)},
                         {"layers", layers}};
    if (!manifest.annotations.empty()) document["annotations"] = manifest.annotations;
    std::string content = json::dump(document);
    Digest digest = TRY(Digest::of(base::as_bytes(content)));
    Descriptor descriptor{manifest.media_type, std::move(digest), content.size()};
    return WrittenManifest{std::move(manifest), std::move(descriptor), std::move(content)};
}

Result<std::variant<Manifest, Index>> parse_manifest(std::string_view document, std::string_view declared) {
    if (declared.starts_with("application/vnd.docker.distribution.manifest.v1"))
        return base::make_error(
            ErrorCode::kUnsupported,
            "it is a Docker schema 1 manifest, a format withdrawn in 2017; push the image again");
    const json::Value value =
        TRY(json::parse(document, "the manifest", ErrorCode::kImage, {.bytes = kMaxManifestBytes}));
    const Reader root(value, "manifest", ErrorCode::kImage);
    const Reader version = TRY(root.at("schemaVersion"));
    if (TRY(version.as_integer()) != 2)
        return version.error("must be 2; push the image again with a current tool");
    std::string type = TRY(settle_media_type(root, declared));
    auto annotations = TRY(root.string_map_or_empty("annotations"));

    if (media_type::is_index(type)) {
        auto manifests = TRY(read_descriptors(TRY(root.at("manifests")), 4096));
        return std::variant<Manifest, Index>(
            Index{std::move(type), std::move(manifests), std::move(annotations)});
    }
    Descriptor config = TRY(read_descriptor(TRY(root.at("config"))));
    auto layers = TRY(read_descriptors(TRY(root.at("layers")), kMaxLayers));
    return std::variant<Manifest, Index>(
        Manifest{std::move(type), std::move(config), std::move(layers), std::move(annotations)});
}

}  // namespace boxlite::image
