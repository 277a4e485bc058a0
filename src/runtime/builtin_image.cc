#include "runtime/builtin_image.h"

#include <sys/stat.h>

#include "base/file.h"
#include "base/log.h"
#include "json/json.h"

namespace boxlite::runtime {

namespace {

constexpr std::string_view kReference = "base:latest";
constexpr std::string_view kFact = "builtin_image";
constexpr size_t kMaxArchive = size_t{256} << 20;

// Changes whenever the file does; reading megabytes to find out would cost more than making a box.
Result<std::string> stamp_of(const std::string& path) {
    struct stat st;
    if (::stat(path.c_str(), &st) < 0) return base::errno_error(ErrorCode::kConfig, "find '{}'", path);
    return fmt::format("{} {} {} {}.{:09}", path, st.st_ino, st.st_size, st.st_mtim.tv_sec,
                       st.st_mtim.tv_nsec);
}

Result<image::Descriptor> put(image::Store& store, std::string_view media_type, std::string_view content) {
    image::Digest digest = TRY(image::Digest::of(base::as_bytes(content)));
    image::Descriptor descriptor{std::string(media_type), std::move(digest), content.size(), {}, {}, {}};
    TRY(store.put_blob(descriptor, content));
    return descriptor;
}

json::Value to_json(const image::Descriptor& descriptor) {
    return {{"mediaType", descriptor.media_type},
            {"digest", descriptor.digest.to_string()},
            {"size", descriptor.size}};
}

// An OCI image of one uncompressed layer.
Result<image::Descriptor> put_image(image::Store& store, const std::string& archive) {
    const image::Descriptor layer = TRY(put(store, image::media_type::kOciLayer, archive));
    const image::Platform platform = image::Platform::host();
    const json::Value config = {
        {"architecture", platform.architecture},
        {"os", platform.os},
        {"config",
         {{"Cmd", {"/bin/sh"}},
          {"Env", {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}}}},
        {"rootfs", {{"type", "layers"}, {"diff_ids", {layer.digest.to_string()}}}}};
    const image::Descriptor config_blob = TRY(put(store, image::media_type::kOciConfig, json::dump(config)));
    const json::Value manifest = {{"schemaVersion", 2},
                                  {"mediaType", image::media_type::kOciManifest},
                                  {"config", to_json(config_blob)},
                                  {"layers", json::Value::array({to_json(layer)})}};
    return put(store, image::media_type::kOciManifest, json::dump(manifest));
}

}  // namespace

bool is_builtin_image(std::string_view name) {
    return name == "base" || name == kReference;
}

Result<image::StoredImage> builtin_image(RuntimeImpl& runtime) {
    const std::string path = TRY(runtime.assets.base_image());
    const std::string stamp = TRY(stamp_of(path));
    image::Reference reference = TRY(image::Reference::parse(kReference));
    if (TRY(runtime.state->fact(std::string(kFact))) == stamp) {
        auto image = runtime.images.resolve(reference);
        if (image.ok()) return image::StoredImage{std::move(reference), std::move(image).value()};
    }
    const std::string archive = TRY_CONTEXT(base::read_file(path, kMaxArchive), "built-in image");
    const image::StoreLease lease = TRY(runtime.images.hold());
    const image::Descriptor manifest = TRY_CONTEXT(put_image(runtime.images, archive), "built-in image");
    TRY(runtime.images.record(reference, manifest, manifest.digest));
    TRY(runtime.state->set_fact(std::string(kFact), stamp));
    base::log_info("built-in image stored", {{"manifest", manifest.digest.to_string()}});
    image::Image image = TRY(runtime.images.resolve(reference));
    return image::StoredImage{std::move(reference), std::move(image)};
}

}  // namespace boxlite::runtime
