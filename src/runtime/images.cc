#include "boxlite/image.h"

#include <sys/stat.h>

#include "base/log.h"
#include "image/import.h"
#include "runtime/bases.h"
#include "runtime/box_impl.h"
#include "runtime/runtime_impl.h"
#include "runtime/times.h"

namespace boxlite {

namespace {

ImageInfo describe(const RuntimeImpl& runtime, const image::StoredImage& stored) {
    ImageInfo info;
    const image::Reference& reference = stored.reference;
    info.reference = reference.familiar();
    image::Reference bare = reference;
    bare.digest.reset();
    info.repository = bare.familiar();
    if (!reference.tag.empty()) {
        info.tag = reference.tag;
        info.repository.resize(info.repository.size() - reference.tag.size() - 1);
    }
    info.id = stored.image.config_descriptor.digest.to_string();
    info.manifest_digest = stored.image.manifest.digest.to_string();
    info.created_at = runtime::parse_time(stored.image.config.created).value_or(0);
    info.size_bytes = stored.image.size();
    struct stat st;
    if (::stat(runtime.images.blob_path(stored.image.manifest.digest).c_str(), &st) == 0)
        info.stored_at = int64_t{st.st_mtim.tv_sec} * 1'000'000'000 + st.st_mtim.tv_nsec;
    return info;
}

bool is_id(const image::StoredImage& stored, const std::string& name) {
    const std::string id = stored.image.config_descriptor.digest.to_string();
    return id.starts_with(name) || std::string_view(id).substr(id.find(':') + 1).starts_with(name);
}

}  // namespace

Result<ImageInfo> Images::pull(const std::string& reference, const ProgressSink& progress) {
    return describe(*runtime_, TRY(runtime::prepare_image(*runtime_, reference, PullPolicy::kAlways,
                                                          runtime::kUsualDiskGb, progress))
                                   .stored);
}

Result<std::vector<ImageInfo>> Images::list() const {
    std::vector<ImageInfo> images;
    for (const image::StoredImage& stored : TRY(runtime_->images.list()))
        images.push_back(describe(*runtime_, stored));
    return images;
}

Result<ImageInfo> Images::get(const std::string& name) const {
    return describe(*runtime_, TRY(runtime_->images.find(name)));
}

Result<ImageInfo> Images::remove(const std::string& name, bool force) {
    const image::StoredImage stored = TRY(runtime_->images.find(name));
    const ImageInfo info = describe(*runtime_, stored);
    const bool by_id = is_id(stored, name);
    size_t names = 0;
    for (const image::StoredImage& other : TRY(runtime_->images.list()))
        names += other.image.config_descriptor.digest == stored.image.config_descriptor.digest;
    const bool last = by_id || names <= 1;
    if (last && !force) {
        const auto boxes = TRY(runtime_->state->boxes_of_image(info.id));
        if (!boxes.empty())
            return base::make_error(ErrorCode::kInvalidState,
                                    "image '{}' is used by box '{}'{}; remove the box first, or force",
                                    info.reference, boxes.front(),
                                    boxes.size() > 1 ? fmt::format(" and {} more", boxes.size() - 1) : "");
    }
    if (by_id)
        TRY(runtime_->images.remove_image(stored.image.config_descriptor.digest));
    else
        TRY(runtime_->images.remove(stored.reference));
    if (last) {
        TRY(runtime_->state->release_image(info.id));
        runtime::collect_unused_bases(*runtime_);
    }
    base::log_info("image removed", {{"image", info.reference}, {"id", info.id}});
    return info;
}

Result<std::vector<ImageInfo>> Images::import(const std::string& path, const std::string& reference,
                                              const ProgressSink& progress) {
    image::ImportOptions options;
    options.name = reference;
    std::vector<ImageInfo> images;
    for (image::StoredImage& stored : TRY(image::import_images(runtime_->images, path, options))) {
        images.push_back(describe(*runtime_, stored));
        TRY(runtime::prepare_stored(*runtime_, std::move(stored), runtime::kUsualDiskGb, progress));
    }
    return images;
}

}  // namespace boxlite
