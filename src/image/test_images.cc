#include "image/test_images.h"

#include <gtest/gtest.h>

#include "json/json.h"

namespace boxlite::image::testing {

namespace {

json::Value json_of(const Descriptor& descriptor) {
    return {{"mediaType", descriptor.media_type},
            {"digest", descriptor.digest.to_string()},
            {"size", descriptor.size}};
}

}  // namespace

Blob blob_of(std::string_view media_type, std::string content) {
    const Digest digest = Digest::of(base::as_bytes(content)).value();
    return {{std::string(media_type), digest, content.size()}, std::move(content)};
}

std::vector<Blob> TestImage::blobs() const {
    std::vector<Blob> all = layers;
    all.push_back(config);
    all.push_back(manifest);
    return all;
}

TestImage make_image(const std::vector<std::string>& layers) {
    std::vector<Blob> layer_blobs;
    json::Value diff_ids = json::Value::array(), descriptors = json::Value::array();
    for (const std::string& layer : layers) {
        layer_blobs.push_back(blob_of(media_type::kOciLayer, layer));
        diff_ids.push_back(layer_blobs.back().descriptor.digest.to_string());
        descriptors.push_back(json_of(layer_blobs.back().descriptor));
    }
    const json::Value config{{"os", "linux"},
                             {"architecture", Platform::host().architecture},
                             {"config", {{"Cmd", {"/bin/sh"}}}},
                             {"rootfs", {{"type", "layers"}, {"diff_ids", diff_ids}}}};
    Blob config_blob = blob_of(media_type::kOciConfig, json::dump(config));
    const json::Value manifest{{"schemaVersion", 2},
                               {"mediaType", media_type::kOciManifest},
                               {"config", json_of(config_blob.descriptor)},
                               {"layers", descriptors}};
    Blob manifest_blob = blob_of(media_type::kOciManifest, json::dump(manifest));
    return {std::move(manifest_blob), std::move(config_blob), std::move(layer_blobs)};
}

Descriptor put_image(Store& store, const std::vector<std::string>& layers) {
    const TestImage image = make_image(layers);
    for (const Blob& blob : image.blobs()) {
        const auto put = store.put_blob(blob.descriptor, blob.content);
        EXPECT_TRUE(put.ok()) << (put.ok() ? "" : put.error().message);
    }
    return image.manifest.descriptor;
}

}  // namespace boxlite::image::testing
