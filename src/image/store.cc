// The layout, its index and what index entries mean.
#include "image/store.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "base/clock.h"
#include "base/log.h"
#include "json/json.h"

namespace boxlite::image {

namespace {

constexpr std::string_view kRefName = "org.opencontainers.image.ref.name";
constexpr std::string_view kSource = "io.boxlite.source.digest";
constexpr std::string_view kStoredAt = "io.boxlite.stored-at";  // nanoseconds since the Unix epoch
constexpr int kMaxNesting = 4;                                  // of indexes that name indexes

std::string annotation(const Descriptor& entry, std::string_view name) {
    const auto it = entry.annotations.find(std::string(name));
    return it == entry.annotations.end() ? "" : it->second;
}

// nullopt for entries that other tools made without a usable name.
std::optional<Reference> reference_of(const Descriptor& entry) {
    auto reference = Reference::parse(annotation(entry, kRefName));
    return reference.ok() ? std::optional(std::move(reference).value()) : std::nullopt;
}

// Changing index.json works on the JSON itself, so that what other tools put there survives.
Result<json::Value> read_index_json(const std::string& root) {
    const std::string path = root + "/index.json";
    const std::string text = TRY(base::read_file(path, kMaxManifestBytes));
    json::Value index = TRY(json::parse(text, path, ErrorCode::kImage, {.bytes = kMaxManifestBytes}));
    if (!index.is_object() || !index.contains("manifests") || !index["manifests"].is_array())
        return base::make_error(ErrorCode::kImage, "'{}' is not an OCI image index", path);
    return index;
}

Result<void> write_index_json(const std::string& root, const json::Value& index) {
    const std::string text = json::dump(index, 2) + "\n";
    if (text.size() > kMaxManifestBytes)
        return base::make_error(ErrorCode::kResourceExhausted, "'{}/index.json' is full; remove some images",
                                root);
    return base::write_file_atomically(root + "/index.json", base::as_bytes(text));
}

std::optional<Reference> reference_of(const json::Value& entry) {
    const json::Value* name = nullptr;
    if (entry.is_object() && entry.contains("annotations") && entry["annotations"].is_object() &&
        entry["annotations"].contains(kRefName))
        name = &entry["annotations"][std::string(kRefName)];
    if (!name || !name->is_string()) return std::nullopt;
    auto reference = Reference::parse(name->get<std::string>());
    return reference.ok() ? std::optional(std::move(reference).value()) : std::nullopt;
}

json::Value entry_json(const Reference& reference, const Descriptor& manifest, const Platform& platform,
                       const std::map<std::string, std::string>& more) {
    json::Value annotations(more);
    annotations[std::string(kRefName)] = reference.to_string();
    json::Value entry{{"mediaType", manifest.media_type},
                      {"digest", manifest.digest.to_string()},
                      {"size", manifest.size},
                      {"annotations", annotations}};
    if (!platform.os.empty() && !platform.architecture.empty()) {
        entry["platform"] = {{"os", platform.os}, {"architecture", platform.architecture}};
        if (!platform.variant.empty()) entry["platform"]["variant"] = platform.variant;
    }
    return entry;
}

void replace_entry(json::Value& index, const Reference& reference, json::Value entry) {
    json::Value& manifests = index["manifests"];
    manifests.erase(std::remove_if(manifests.begin(), manifests.end(),
                                   [&](const json::Value& e) { return reference_of(e) == reference; }),
                    manifests.end());
    manifests.push_back(std::move(entry));
}

// A folder with anything that the store does not put there is not ours to fill.
Result<void> refuse_foreign_folder(const std::string& root) {
    std::error_code failure;
    for (const auto& entry : std::filesystem::directory_iterator(root, failure)) {
        const std::string name = entry.path().filename();
        if (name != "index.lock" && name != "gc.lock" && name != "blobs" && name != "partial" &&
            name.find(".tmp-") == std::string::npos)
            return base::make_error(ErrorCode::kStorage,
                                    "'{}' holds '{}' but no image store; choose another folder", root, name);
    }
    if (failure)
        return Error::from_errno(ErrorCode::kStorage, fmt::format("list '{}'", root), failure.value());
    return {};
}

Result<void> check_layout(const std::string& root) {
    const std::string path = root + "/oci-layout";
    const std::string text = TRY(base::read_file(path, 4096));
    const json::Value layout = TRY(json::parse(text, path, ErrorCode::kStorage));
    const std::string version =
        TRY(TRY(json::Reader(layout, path, ErrorCode::kStorage).at("imageLayoutVersion")).as_string());
    if (!version.starts_with("1."))
        return base::make_error(ErrorCode::kStorage, "'{}' has version {}, only 1.x is understood", path,
                                version);
    return {};
}

}  // namespace

Result<Store> Store::open(const std::string& root) {
    TRY(base::make_directories(root));
    if (!base::path_exists(root + "/oci-layout") || !base::path_exists(root + "/index.json")) {
        const base::FileLock lock = TRY(base::FileLock::acquire(root + "/index.lock"));
        if (!base::path_exists(root + "/oci-layout")) {
            TRY(refuse_foreign_folder(root));
            TRY(base::make_directories(root + "/blobs/sha256"));
            TRY(base::write_file_atomically(root + "/oci-layout",
                                            base::as_bytes("{\"imageLayoutVersion\":\"1.0.0\"}\n")));
        }
        if (!base::path_exists(root + "/index.json"))
            TRY(write_index_json(root, {{"schemaVersion", 2}, {"manifests", json::Value::array()}}));
    }
    TRY(check_layout(root));
    return Store(root);
}

Result<Index> Store::read_index() const {
    const std::string text = TRY(base::read_file(root_ + "/index.json", kMaxManifestBytes));
    auto parsed = TRY_CONTEXT(parse_manifest(text, media_type::kOciIndex), root_ + "/index.json");
    return std::get<Index>(std::move(parsed));
}

Result<Image> Store::load_image(const Descriptor& entry, int depth) const {
    const std::string text = TRY(read_blob(entry, kMaxManifestBytes));
    const auto document = TRY_CONTEXT(parse_manifest(text, entry.media_type), entry.digest.to_string());
    if (const auto* index = std::get_if<Index>(&document)) {
        if (depth >= kMaxNesting) return base::make_error(ErrorCode::kImage, "indexes are nested too deeply");
        return load_image(TRY(select_platform(*index, Platform::host()))[0], depth + 1);
    }
    const auto& manifest = std::get<Manifest>(document);
    TRY(check_image_types(manifest));
    auto config = TRY(parse_config(TRY(read_blob(manifest.config, kMaxConfigBytes))));
    return assemble_image(entry, manifest, std::move(config));
}

Result<StoredImage> Store::load_entry(const Descriptor& entry, const Reference& reference) const {
    Image image = TRY_CONTEXT(load_image(entry), "image " + reference.familiar());
    StoredImage stored{reference, std::move(image)};
    const std::string at = annotation(entry, kStoredAt);
    (void)std::from_chars(at.data(), at.data() + at.size(), stored.stored_at_ns);
    return stored;
}

// The entry for exactly this name, or for the same repository and content when a digest is given.
static const Descriptor* entry_for(const Index& index, const Reference& wanted) {
    const Descriptor* same_content = nullptr;
    for (const Descriptor& entry : index.manifests) {
        const auto reference = reference_of(entry);
        if (!reference) continue;
        if (*reference == wanted) return &entry;
        if (wanted.digest && reference->registry == wanted.registry &&
            reference->repository == wanted.repository &&
            (entry.digest == *wanted.digest || annotation(entry, kSource) == wanted.digest->to_string()))
            same_content = &entry;
    }
    return same_content;
}

static Error not_stored(std::string_view name) {
    return base::make_error(ErrorCode::kNotFound, "image '{}' is not in the store; pull it first", name);
}

Result<Image> Store::resolve(const Reference& reference) const {
    const Index index = TRY(read_index());
    const Descriptor* entry = entry_for(index, reference);
    if (!entry) return not_stored(reference.familiar());
    return TRY(load_entry(*entry, reference)).image;
}

Result<StoredImage> Store::find(std::string_view text) const {
    const Index index = TRY(read_index());
    if (const auto reference = Reference::parse(text); reference.ok())
        if (const Descriptor* entry = entry_for(index, *reference))
            return load_entry(*entry, reference_of(*entry).value());

    std::string_view hex = text;
    if (hex.starts_with("sha256:")) hex.remove_prefix(7);
    if (hex.size() < 4 || hex.find_first_not_of("0123456789abcdef") != std::string_view::npos)
        return not_stored(text);
    std::optional<StoredImage> found;
    for (StoredImage& candidate : TRY(list())) {
        const Image& image = candidate.image;
        if (!image.config_descriptor.digest.hex().starts_with(hex) &&
            !image.manifest.digest.hex().starts_with(hex))
            continue;
        if (found && found->image.config_descriptor.digest != image.config_descriptor.digest)
            return base::make_error(ErrorCode::kInvalidArgument,
                                    "image id '{}' is ambiguous: give more digits", text);
        if (!found) found = std::move(candidate);
    }
    if (!found) return not_stored(text);
    return std::move(*found);
}

Result<std::vector<StoredImage>> Store::list() const {
    std::vector<StoredImage> images;
    for (const Descriptor& entry : TRY(read_index()).manifests) {
        const auto reference = reference_of(entry);
        if (!reference) continue;
        auto stored = load_entry(entry, *reference);
        if (stored.ok())
            images.push_back(std::move(stored).value());
        else
            base::log_warn("image cannot be read",
                           {{"image", reference->to_string()}, {"error", stored.error().message}});
    }
    return images;
}

Result<void> Store::record(const Reference& reference, const Descriptor& manifest, const Digest& source) {
    const base::FileLock lock = TRY(base::FileLock::acquire(root_ + "/index.lock"));
    const Image image = TRY(load_image(manifest));
    for (const Layer& layer : image.layers) TRY(open_blob(layer.descriptor));
    // The index must not survive a crash that the names of its blobs do not.
    for (const std::string_view algorithm : {"sha256", "sha512"}) {
        const std::string folder = fmt::format("{}/blobs/{}", root_, algorithm);
        if (base::path_exists(folder)) TRY(base::sync_directory(folder));
    }
    json::Value index = TRY(read_index_json(root_));
    replace_entry(index, reference,
                  entry_json(reference, manifest, image.config.platform,
                             {{std::string(kSource), source.to_string()},
                              {std::string(kStoredAt), fmt::to_string(base::realtime_ns())}}));
    return write_index_json(root_, index);
}

Result<std::optional<Digest>> Store::source_digest(const Reference& reference) const {
    const Index index = TRY(read_index());
    const Descriptor* entry = entry_for(index, reference);
    auto digest = Digest::parse(entry ? annotation(*entry, kSource) : "");
    return digest.ok() ? std::optional(std::move(digest).value()) : std::optional<Digest>();
}

Result<void> Store::tag(const Reference& source, const Reference& target) {
    if (target.digest)
        return base::make_error(ErrorCode::kInvalidArgument,
                                "cannot name an image '{}': a digest is not a free choice",
                                target.familiar());
    const base::FileLock lock = TRY(base::FileLock::acquire(root_ + "/index.lock"));
    const Index parsed = TRY(read_index());
    const Descriptor* entry = entry_for(parsed, source);
    if (!entry) return not_stored(source.familiar());
    auto annotations = entry->annotations;
    annotations[std::string(kStoredAt)] = fmt::to_string(base::realtime_ns());
    // What a registry knows the source by says nothing about the new name.
    annotations.erase(std::string(kSource));
    json::Value index = TRY(read_index_json(root_));
    replace_entry(index, target,
                  entry_json(target, *entry, entry->platform.value_or(Platform{}), annotations));
    return write_index_json(root_, index);
}

Result<std::vector<Reference>> Store::untag(
    const std::function<bool(const Reference&, const Descriptor&)>& chosen) {
    const base::FileLock lock = TRY(base::FileLock::acquire(root_ + "/index.lock"));
    const Index parsed = TRY(read_index());
    json::Value index = TRY(read_index_json(root_));
    std::vector<Reference> untagged;
    json::Value kept = json::Value::array();
    for (size_t i = 0; i < parsed.manifests.size(); ++i) {
        const auto reference = reference_of(parsed.manifests[i]);
        if (reference && chosen(*reference, parsed.manifests[i]))
            untagged.push_back(*reference);
        else
            kept.push_back(index["manifests"][i]);
    }
    if (untagged.empty()) return untagged;
    index["manifests"] = std::move(kept);
    TRY(write_index_json(root_, index));
    return untagged;
}

Result<Removed> Store::remove(const Reference& reference) {
    auto untagged = TRY(untag([&](const Reference& name, const Descriptor&) { return name == reference; }));
    if (untagged.empty()) return not_stored(reference.familiar());
    Removed removed = TRY(collect_garbage());
    removed.untagged = std::move(untagged);
    return removed;
}

Result<Removed> Store::remove_image(const Digest& config_digest) {
    auto untagged = TRY(untag([&](const Reference&, const Descriptor& entry) {
        const auto image = load_image(entry);
        return image.ok() && image->config_descriptor.digest == config_digest;
    }));
    if (untagged.empty()) return not_stored(config_digest.to_string());
    Removed removed = TRY(collect_garbage());
    removed.untagged = std::move(untagged);
    return removed;
}

}  // namespace boxlite::image
