#include "image/image.h"

#include <algorithm>

namespace boxlite::image {

namespace {

constexpr std::string_view kLayerTypes[] = {
    media_type::kOciLayer,
    media_type::kOciLayerGzip,
    media_type::kOciLayerZstd,
    media_type::kDockerLayer,
    media_type::kDockerLayerGzip,
    // Layers once kept off registries for their licence, and what some builders call zstd in Docker's terms.
    "application/vnd.oci.image.layer.nondistributable.v1.tar",
    "application/vnd.oci.image.layer.nondistributable.v1.tar+gzip",
    "application/vnd.oci.image.layer.nondistributable.v1.tar+zstd",
    "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip",
    "application/vnd.docker.image.rootfs.diff.tar.zstd",
};

}  // namespace

bool media_type::is_manifest(std::string_view type) {
    return type == kOciManifest || type == kDockerManifest;
}
bool media_type::is_index(std::string_view type) {
    return type == kOciIndex || type == kDockerIndex;
}

Result<void> check_image_types(const Manifest& manifest) {
    const std::string& config = manifest.config.media_type;
    if (config != media_type::kOciConfig && config != media_type::kDockerConfig)
        return base::make_error(ErrorCode::kImage, "it is not a container image but an artifact of type '{}'",
                                config);
    for (const Descriptor& layer : manifest.layers) {
        if (std::find(std::begin(kLayerTypes), std::end(kLayerTypes), layer.media_type) !=
            std::end(kLayerTypes))
            continue;
        if (layer.media_type.ends_with("+encrypted"))
            return base::make_error(ErrorCode::kUnsupported, "layer {} is encrypted; decrypt the image first",
                                    layer.digest.to_string());
        return base::make_error(ErrorCode::kUnsupported, "layer {} has the unknown type '{}'",
                                layer.digest.to_string(), layer.media_type);
    }
    return {};
}

Result<Image> assemble_image(Descriptor manifest_descriptor, const Manifest& manifest, ImageConfig config) {
    TRY(check_image_types(manifest));
    if (manifest.layers.size() != config.diff_ids.size())
        return base::make_error(ErrorCode::kImage,
                                "the manifest has {} layers but the configuration names {}",
                                manifest.layers.size(), config.diff_ids.size());
    Image image{std::move(manifest_descriptor), manifest.config, std::move(config), {}};
    for (size_t i = 0; i < manifest.layers.size(); ++i)
        image.layers.push_back({manifest.layers[i], image.config.diff_ids[i]});
    return image;
}

Result<Digest> Image::chain_id() const {
    if (layers.empty()) return Digest::of({});
    Digest chain = layers[0].diff_id;
    for (size_t i = 1; i < layers.size(); ++i)
        chain = TRY(Digest::of(base::as_bytes(chain.to_string() + " " + layers[i].diff_id.to_string())));
    return chain;
}

uint64_t Image::size() const {
    uint64_t total = manifest.size + config_descriptor.size;
    for (const Layer& layer : layers) total += layer.descriptor.size;
    return total;
}

}  // namespace boxlite::image
