#include "runtime/bases.h"

#include <optional>

#include "base/log.h"
#include "image/pull.h"
#include "image/rootfs.h"
#include "runtime/builtin_image.h"

namespace boxlite::runtime {

namespace {

Result<std::string> base_name_of(const image::Image& image, uint64_t disk_gb) {
    const image::Digest chain = TRY(image.chain_id());
    std::string name(chain.hex());
    if (disk_gb < kUsualDiskGb) name += fmt::format("-{}g", disk_gb);
    return name;
}

std::string image_id(const image::Image& image) {
    return image.config_descriptor.digest.to_string();
}

// Builds one base, or finds out that it is there.
class Build {
  public:
    Build(RuntimeImpl& runtime, uint64_t disk_gb, const ProgressSink& progress)
        : runtime_(runtime), disk_gb_(disk_gb), progress_(progress) {}

    const std::string& base() const { return base_; }
    // Whether layers are wanted.
    bool needed() const { return builder_.has_value(); }

    Result<void> begin(const image::Image& image) {
        base_ = TRY(base_name_of(image, disk_gb_));
        const std::string path = base_path(runtime_.home, base_);
        if (base::path_exists(path)) return {};
        lock_ = TRY(base::FileLock::acquire(base_lock_path(runtime_.home, base_)));
        if (base::path_exists(path)) return {};  // somebody else built it while this waited
        image::RootfsOptions options;
        options.limits = TRY(image::LayerLimits::from_environment());
        options.disk_size = std::min(disk_gb_, kUsualDiskGb) << 30;
        builder_ = TRY(image::RootfsBuilder::create(path, base_, options));
        layers_ = image.layers.size();
        report(0, false);
        return {};
    }

    Result<void> add(size_t index, const image::Layer& layer, image::BlobReader& reader) {
        if (!builder_) return {};
        TRY_CONTEXT(builder_->add_layer(image::layer_spec(layer), reader), base_path(runtime_.home, base_));
        // While the last blob is on its way to the disk, not after it.
        if (index + 1 == layers_) TRY_CONTEXT(builder_->seal(), base_path(runtime_.home, base_));
        report(index + 1, false);
        return {};
    }

    Result<void> end(const image::Image& image) {
        if (builder_) {
            TRY_CONTEXT(builder_->finish(), base_path(runtime_.home, base_));
            report(layers_, true);
            base::log_info("base built", {{"base", base_}, {"image", image_id(image)}});
        }
        if (!TRY(runtime_.state->has_base(base_, image_id(image))))
            TRY(runtime_.state->add_base(base_, image_id(image)));
        return {};
    }

  private:
    void report(size_t done, bool finished) const {
        if (!progress_) return;
        Progress progress;
        progress.kind = Progress::Kind::kBuild;
        progress.item = "disk";
        progress.done = done;
        progress.total = layers_;
        progress.finished = finished;
        progress_(progress);
    }

    RuntimeImpl& runtime_;
    const uint64_t disk_gb_;
    const ProgressSink& progress_;
    std::string base_;
    size_t layers_ = 0;
    std::optional<base::FileLock> lock_;
    std::optional<image::RootfsBuilder> builder_;
};

Result<base::FileLock> use_bases(const RuntimeImpl& runtime) {
    return base::FileLock::acquire_shared(runtime.home.bases_lock());
}

// What the store has under this name. kNotFound when it has nothing.
Result<image::StoredImage> find_stored(const RuntimeImpl& runtime, const std::string& name) {
    std::vector<std::string> search;
    for (const image::RegistryConfig& registry : runtime.registries.registries)
        if (registry.search) search.push_back(registry.host);
    const auto candidates = image::Reference::candidates(name, search);
    for (size_t i = 0; candidates.ok() && i < candidates->size(); ++i) {
        auto image = runtime.images.resolve((*candidates)[i]);
        if (image.ok()) return image::StoredImage{(*candidates)[i], std::move(image).value()};
        if (image.error().code != ErrorCode::kNotFound) return std::move(image).error();
    }
    return runtime.images.find(name);
}

Result<PreparedImage> pull_image(RuntimeImpl& runtime, const std::string& name, uint64_t disk_gb,
                                 const ProgressSink& progress) {
    base::FileLock lease = TRY(use_bases(runtime));
    Build build(runtime, disk_gb, progress);
    image::PullOptions options;
    static_cast<image::RegistryOptions&>(options) = runtime.registries;
    options.policy = image::PullPolicy::kAlways;
    options.image = [&build](const image::Image& image) { return build.begin(image); };
    options.layer = [&build](size_t index, const image::Layer& layer, image::BlobReader& reader) {
        return build.add(index, layer, reader);
    };
    if (progress)
        options.progress = [&progress](const image::BlobProgress& blob) {
            Progress report;
            report.item = blob.digest.to_string();
            report.done = blob.done;
            report.total = blob.total;
            report.finished =
                blob.state == image::BlobState::kDone || blob.state == image::BlobState::kPresent;
            progress(report);
        };
    image::StoredImage stored = TRY(image::pull(runtime.images, name, options));
    TRY(build.end(stored.image));
    base::log_info("image pulled", {{"image", stored.reference.to_string()}, {"id", image_id(stored.image)}});
    return PreparedImage{std::move(stored), build.base(), std::move(lease)};
}

}  // namespace

std::string base_path(const Home& home, const std::string& base) {
    return fmt::format("{}/{}.ext4", home.bases(), base);
}

std::string base_lock_path(const Home& home, const std::string& base) {
    return fmt::format("{}/{}.lock", home.bases(), base);
}

Result<PreparedImage> prepare_image(RuntimeImpl& runtime, const std::string& name, PullPolicy policy,
                                    uint64_t disk_gb, const ProgressSink& progress) {
    if (is_builtin_image(name)) {
        image::StoredImage builtin = TRY(builtin_image(runtime));
        return prepare_stored(runtime, std::move(builtin), disk_gb, progress);
    }
    if (policy != PullPolicy::kAlways) {
        auto stored = find_stored(runtime, name);
        if (stored.ok()) return prepare_stored(runtime, std::move(stored).value(), disk_gb, progress);
        if (stored.error().code != ErrorCode::kNotFound) return std::move(stored).error();
        if (policy == PullPolicy::kNever)
            return base::make_error(ErrorCode::kNotFound,
                                    "no such image: {}; fetch it with `boxlite pull {}`", name, name);
    }
    return pull_image(runtime, name, disk_gb, progress);
}

Result<PreparedImage> prepare_stored(RuntimeImpl& runtime, image::StoredImage stored, uint64_t disk_gb,
                                     const ProgressSink& progress) {
    base::FileLock lease = TRY(use_bases(runtime));
    Build build(runtime, disk_gb, progress);
    TRY_CONTEXT(build.begin(stored.image), stored.reference.familiar());
    if (build.needed()) {
        const image::StoreLease blobs = TRY(runtime.images.hold());
        for (size_t i = 0; i < stored.image.layers.size(); ++i) {
            const image::Layer& layer = stored.image.layers[i];
            image::FileBlobReader reader(TRY(runtime.images.open_blob(layer.descriptor)));
            TRY_CONTEXT(build.add(i, layer, reader), stored.reference.familiar());
        }
    }
    TRY(build.end(stored.image));
    std::string base = build.base();
    return PreparedImage{std::move(stored), std::move(base), std::move(lease)};
}

}  // namespace boxlite::runtime
