#include "image/pull.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "image/download.h"
#include "image/registry_client.h"

namespace boxlite::image {

namespace {

constexpr int kMaxNesting = 4;  // of indexes that name indexes
constexpr std::chrono::milliseconds kVerdictBudget{2'000};

// What one pull works with.
struct Job {
    Store& store;
    RegistryClient& client;
    const Reference& reference;
    const PullOptions& options;
    ProgressReporter& reporter;
};

// A manifest that names an image, and what the registry calls it.
struct Found {
    Descriptor descriptor;
    Manifest manifest;
    Digest source;
};

Result<FetchedManifest> manifest_by_digest(const Job& job, const Descriptor& entry) {
    if (job.store.has_blob(entry)) {
        auto stored = job.store.read_blob(entry, kMaxManifestBytes);
        if (stored.ok()) return FetchedManifest{std::move(stored).value(), entry.media_type, entry.digest};
    }
    return job.client.get_manifest(job.reference, entry.digest.to_string(), job.options.stop);
}

// The store keeps OCI manifests only: tools that read layouts know no others.
Result<Found> store_manifest(const Job& job, Manifest manifest, FetchedManifest fetched,
                             const Digest& source) {
    TRY(check_image_types(manifest));
    Descriptor descriptor{manifest.media_type, fetched.digest, fetched.content.size()};
    if (manifest.media_type != media_type::kOciManifest) {
        WrittenManifest written = TRY(write_oci_manifest(std::move(manifest)));
        manifest = std::move(written.manifest);
        descriptor = std::move(written.descriptor);
        fetched.content = std::move(written.content);
    }
    TRY(job.store.put_blob(descriptor, fetched.content));
    return Found{std::move(descriptor), std::move(manifest), source};
}

// From what the reference names, through indexes, to the manifest for the wanted platform.
Result<Found> find_manifest(const Job& job) {
    FetchedManifest fetched =
        TRY(job.client.get_manifest(job.reference, job.reference.tag_or_digest(), job.options.stop));
    const Digest source = fetched.digest;
    std::string declared = fetched.media_type;
    for (int depth = 0; depth <= kMaxNesting; ++depth) {
        auto document = TRY_CONTEXT(parse_manifest(fetched.content, declared), fetched.digest.to_string());
        if (auto* manifest = std::get_if<Manifest>(&document)) {
            return store_manifest(job, std::move(*manifest), std::move(fetched), source);
        }
        const auto entries = TRY(select_platform(std::get<Index>(document), job.options.platform));
        const Descriptor& entry = entries[0];
        if (entry.size > kMaxManifestBytes)
            return base::make_error(ErrorCode::kImage, "manifest {} is {} bytes long",
                                    entry.digest.to_string(), entry.size);
        fetched = TRY(manifest_by_digest(job, entry));
        if (fetched.content.size() != entry.size)
            return base::make_error(ErrorCode::kImage, "manifest {} is {} bytes long, {} were announced",
                                    entry.digest.to_string(), fetched.content.size(), entry.size);
        declared = entry.media_type;
    }
    return base::make_error(ErrorCode::kImage, "indexes are nested deeper than {} levels", kMaxNesting);
}

Result<Image> fetch_config(const Job& job, const Found& found) {
    const Descriptor& config = found.manifest.config;
    if (config.size > kMaxConfigBytes)
        return base::make_error(ErrorCode::kImage,
                                "the configuration {} is {} bytes long, more than the {} allowed",
                                config.digest.to_string(), config.size, kMaxConfigBytes);
    Download download(config, job.reporter);
    download.run(job.store, job.client, job.reference, job.options.stop);
    TRY(download.wait());
    auto parsed = TRY(parse_config(TRY(job.store.read_blob(config, kMaxConfigBytes))));
    if (!job.options.platform.accepts(parsed.platform))
        return base::make_error(ErrorCode::kImage, "the image is for {}, not for {}",
                                parsed.platform.to_string(), job.options.platform.to_string());
    return assemble_image(found.descriptor, found.manifest, std::move(parsed));
}

// Downloads the layers of an image with several threads, in order of need.
class LayerDownloads {
  public:
    LayerDownloads(const Job& job, const Image& image) : job_(job) {
        for (const Layer& layer : image.layers) {
            const auto same = std::find_if(downloads_.begin(), downloads_.end(), [&](const auto& d) {
                return d->blob().digest == layer.descriptor.digest;
            });
            if (same != downloads_.end()) {
                of_layer_.push_back(same->get());
                continue;
            }
            downloads_.push_back(std::make_unique<Download>(layer.descriptor, job.reporter));
            of_layer_.push_back(downloads_.back().get());
        }
    }

    // The threads end before this object does.
    void start() {
        for (const auto& download : downloads_)
            job_.reporter.report({download->blob().digest, 0, download->blob().size, BlobState::kQueued});
        const size_t count =
            std::clamp<size_t>(job_.options.parallel, 1, std::max<size_t>(1, downloads_.size()));
        for (size_t i = 0; i < count; ++i) threads_.emplace_back([this] { work(); });
    }
    void stop() { stop_.request_stop(); }
    Download& of_layer(size_t index) { return *of_layer_[index]; }

    // Waits for all. The error of the first download that failed by itself comes first.
    Result<void> finish() {
        threads_.clear();
        Result<void> result;
        for (const auto& download : downloads_) {
            auto ended = download->wait();
            if (!ended.ok() && (result.ok() || result.error().code == ErrorCode::kStopped))
                result = std::move(ended);
        }
        return result;
    }

  private:
    void work() {
        // Unpacking is what takes longest: where processors are short, it goes first.
        (void)::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), 10);
        for (size_t i = next_++; i < downloads_.size(); i = next_++) {
            downloads_[i]->run(job_.store, job_.client, job_.reference, stop_.get_token());
            if (downloads_[i]->failed()) stop_.request_stop();
        }
    }

    const Job& job_;
    std::vector<std::unique_ptr<Download>> downloads_;  // each digest once
    std::vector<Download*> of_layer_;
    std::stop_source stop_;
    std::stop_callback<std::function<void()>> outer_stop_{job_.options.stop,
                                                          [this] { stop_.request_stop(); }};
    std::atomic<size_t> next_ = 0;
    std::vector<std::jthread> threads_;
};

Result<void> hand_out_layers(const Job& job, const Image& image, LayerDownloads& downloads) {
    if (!job.options.layer) return {};
    for (size_t i = 0; i < image.layers.size(); ++i) {
        const auto reader = downloads.of_layer(i).open_reader();
        auto taken = job.options.layer(i, image.layers[i], *reader);
        if (taken.ok()) continue;
        // What does not unpack may not be what was asked for, which is soon known.
        downloads.of_layer(i).wait_for(kVerdictBudget);
        return taken;
    }
    return {};
}

Result<void> fetch_layers(const Job& job, const Image& image) {
    LayerDownloads downloads(job, image);
    downloads.start();
    auto handed_out = hand_out_layers(job, image, downloads);
    if (!handed_out.ok()) downloads.stop();
    auto finished = downloads.finish();
    // A download that failed is the cause of what its reader reported; a stopped one is the consequence.
    if (!finished.ok() && (handed_out.ok() || finished.error().code != ErrorCode::kStopped)) return finished;
    return handed_out;
}

// Gives a stored image to the callbacks as if it had been fetched.
Result<void> hand_out_stored(const Job& job, const Image& image) {
    const auto report = [&](const Descriptor& blob) {
        job.reporter.report({blob.digest, blob.size, blob.size, BlobState::kPresent});
    };
    for (const Layer& layer : image.layers) report(layer.descriptor);
    if (job.options.image) TRY(job.options.image(image));
    if (!job.options.layer) return {};
    for (size_t i = 0; i < image.layers.size(); ++i) {
        FileBlobReader reader(TRY(job.store.open_blob(image.layers[i].descriptor)));
        TRY(job.options.layer(i, image.layers[i], reader));
    }
    return {};
}

// The stored image under this name, if it is complete and fits the platform.
std::optional<Image> usable(const Job& job) {
    auto image = job.store.resolve(job.reference);
    if (!image.ok() || !job.options.platform.accepts(image->config.platform)) return std::nullopt;
    for (const Layer& layer : image->layers)
        if (!job.store.has_blob(layer.descriptor)) return std::nullopt;
    return std::move(image).value();
}

// Whether the registry still means by this name what is stored; a digest cannot come to mean anything else.
bool is_current(const Job& job) {
    if (job.reference.digest) return true;
    const auto stored = job.store.source_digest(job.reference);
    if (!stored.ok() || !*stored) return false;
    const auto current = job.client.head_manifest(job.reference, job.options.stop);
    return current.ok() && *current == *stored;
}

// `committed` becomes true when the image has been found: from then on no other place is asked.
Result<Image> pull_one(const Job& job, bool& committed) {
    if (auto image = usable(job); image && is_current(job)) {
        committed = true;
        TRY(hand_out_stored(job, *image));
        // A digest may have been found under another name, which can go away or change.
        if (job.reference.digest)
            TRY(job.store.record(job.reference, image->manifest, *job.reference.digest));
        return std::move(*image);
    }
    const Found found = TRY(find_manifest(job));
    committed = true;
    Image image = TRY(fetch_config(job, found));
    if (job.options.image) TRY(job.options.image(image));
    TRY(fetch_layers(job, image));
    TRY(job.store.record(job.reference, found.descriptor, found.source));
    return image;
}

std::vector<std::string> search_hosts(const RegistryOptions& options) {
    std::vector<std::string> hosts;
    for (const RegistryConfig& registry : options.registries)
        if (registry.search) hosts.push_back(registry.host);
    return hosts;
}

Error not_found_anywhere(std::string_view name, const std::vector<Error>& errors) {
    const bool all_missing = std::all_of(errors.begin(), errors.end(),
                                         [](const Error& e) { return e.code == ErrorCode::kNotFound; });
    std::vector<std::string_view> messages;
    for (const Error& error : errors) messages.push_back(error.message);
    return base::make_error(all_missing ? ErrorCode::kNotFound : ErrorCode::kImage,
                            "cannot pull '{}' from any registry of the search list: {}", name,
                            fmt::join(messages, "; "));
}

Result<StoredImage> stored_as(Store& store, const Reference& reference, Image image) {
    // The name with its time stamp, unless another process removed it just now.
    auto found = store.find(reference.to_string());
    if (found.ok()) return found;
    return StoredImage{reference, std::move(image)};
}

// What to look for in the store: an image may also have come there by import, as docker.io's.
Result<std::vector<Reference>> local_candidates(std::string_view text, const RegistryOptions& options) {
    auto references = TRY(Reference::candidates(text, search_hosts(options)));
    references.push_back(TRY(Reference::parse(text)));
    return references;
}

}  // namespace

Result<StoredImage> find_stored(const Store& store, std::string_view text, const RegistryOptions& options) {
    if (const auto references = local_candidates(text, options); references.ok()) {
        for (const Reference& reference : *references) {
            auto found = store.find(reference.to_string());
            if (found.ok() || found.error().code != ErrorCode::kNotFound) return found;
        }
    }
    return store.find(text);
}

Result<StoredImage> pull(Store& store, std::string_view text, const PullOptions& options) {
    const auto candidates = TRY(Reference::candidates(text, search_hosts(options)));
    RegistryClient client(options);
    ProgressReporter reporter(options.progress);
    std::optional<StoreLease> lease = TRY(store.hold());

    if (options.policy != PullPolicy::kAlways) {
        for (const Reference& reference : TRY(local_candidates(text, options))) {
            const Job job{store, client, reference, options, reporter};
            auto image = usable(job);
            if (!image) continue;
            TRY(hand_out_stored(job, *image));
            return stored_as(store, reference, std::move(*image));
        }
        if (options.policy == PullPolicy::kNever)
            return base::make_error(ErrorCode::kNotFound,
                                    "image '{}' is not in the store, and the pull policy is never", text);
    }

    std::vector<Error> errors;
    for (const Reference& reference : candidates) {
        bool committed = false;
        auto pulled = pull_one({store, client, reference, options, reporter}, committed);
        if (pulled.ok()) {
            auto stored = stored_as(store, reference, std::move(pulled).value());
            lease.reset();
            TRY(store.collect_if_wanted());
            return stored;
        }
        const bool stopped = options.stop.stop_requested();
        if (stopped) return base::make_error(ErrorCode::kStopped, "the pull of '{}' was stopped", text);
        errors.push_back(std::move(pulled).error().with_context("pull " + reference.familiar()));
        if (committed) break;
    }
    if (errors.back().code == ErrorCode::kStorage) {
        lease.reset();
        (void)store.collect_garbage();  // the disk may be full of what this pull can no longer use
    }
    return errors.size() == 1 ? errors[0] : not_found_anywhere(text, errors);
}

}  // namespace boxlite::image
