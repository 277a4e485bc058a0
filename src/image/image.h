// Manifests, indexes and image configurations: OCI image specification 1.1 and Docker manifest v2,
// schema 2. Everything here comes from outside and is checked while it is parsed.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "image/digest.h"

namespace boxlite::image {

namespace media_type {
inline constexpr std::string_view kOciManifest = "application/vnd.oci.image.manifest.v1+json";
inline constexpr std::string_view kOciIndex = "application/vnd.oci.image.index.v1+json";
inline constexpr std::string_view kOciConfig = "application/vnd.oci.image.config.v1+json";
inline constexpr std::string_view kOciLayer = "application/vnd.oci.image.layer.v1.tar";
inline constexpr std::string_view kOciLayerGzip = "application/vnd.oci.image.layer.v1.tar+gzip";
inline constexpr std::string_view kOciLayerZstd = "application/vnd.oci.image.layer.v1.tar+zstd";
inline constexpr std::string_view kDockerManifest = "application/vnd.docker.distribution.manifest.v2+json";
inline constexpr std::string_view kDockerIndex = "application/vnd.docker.distribution.manifest.list.v2+json";
inline constexpr std::string_view kDockerConfig = "application/vnd.docker.container.image.v1+json";
inline constexpr std::string_view kDockerLayer = "application/vnd.docker.image.rootfs.diff.tar";
inline constexpr std::string_view kDockerLayerGzip = "application/vnd.docker.image.rootfs.diff.tar.gzip";

bool is_manifest(std::string_view type);
bool is_index(std::string_view type);
}  // namespace media_type

// Go's names: "linux", "amd64", "v8". Empty fields are unknown.
struct Platform {
    std::string os;
    std::string architecture;
    std::string variant;

    static Platform host();
    // "linux/amd64", "linux/arm64/v8", "amd64"; also uname's names for architectures.
    static Result<Platform> parse(std::string_view text);
    std::string to_string() const;
    // Whether an image made for `image` runs here: same os and architecture, variant not newer. An image that
    // names neither os nor architecture is accepted.
    bool accepts(const Platform& image) const;
    bool operator==(const Platform&) const = default;
};

struct Descriptor {
    std::string media_type;
    Digest digest;
    uint64_t size = 0;
    std::optional<Platform> platform;
    std::map<std::string, std::string> annotations;
    std::string artifact_type;
};

struct Manifest {
    std::string media_type;
    Descriptor config;
    std::vector<Descriptor> layers;  // base first
    std::map<std::string, std::string> annotations;
};

struct Index {
    std::string media_type;
    std::vector<Descriptor> manifests;
    std::map<std::string, std::string> annotations;
};

// What a container made from the image starts with.
struct ImageConfig {
    Platform platform;
    std::string created;  // RFC 3339, "" when unknown
    std::string author;
    std::vector<std::string> env;  // "NAME=value"
    std::vector<std::string> entrypoint;
    std::vector<std::string> cmd;
    std::string user;                        // name or uid, with ":group" or not; "" is root
    std::string working_dir;                 // "" is "/"
    std::vector<std::string> exposed_ports;  // "80/tcp", sorted
    std::vector<std::string> volumes;        // absolute and without "..", sorted
    std::string stop_signal;                 // "SIGTERM", "15"; "" is SIGTERM
    std::map<std::string, std::string> labels;
    std::vector<Digest> diff_ids;  // digests of the uncompressed layers, base first
};

struct Layer {
    Descriptor descriptor;
    Digest diff_id;  // to be checked by whoever decompresses the layer
};

// An image whose manifest and configuration have been read and fit together.
struct Image {
    Descriptor manifest;
    Descriptor config_descriptor;  // its digest is the image's id
    ImageConfig config;
    std::vector<Layer> layers;  // base first

    // OCI ChainID of all layers: names the unpacked root. The digest of nothing for an image without layers.
    Result<Digest> chain_id() const;
    // Bytes of manifest, configuration and layers as stored.
    uint64_t size() const;
};

inline constexpr size_t kMaxManifestBytes = size_t{4} << 20;
inline constexpr size_t kMaxConfigBytes = size_t{8} << 20;
inline constexpr size_t kMaxLayers = 1024;

// Parses a manifest or an index. `declared` is the media type that the descriptor or the registry gave, ""
// or a type that says nothing when unknown. A document that contradicts it, or that could be read as both
// (CVE-2021-41190), is refused with kImage.
Result<std::variant<Manifest, Index>> parse_manifest(std::string_view document, std::string_view declared);

// A manifest and the document that says it.
struct WrittenManifest {
    Manifest manifest;
    Descriptor descriptor;
    std::string content;
};
// Writes an OCI manifest with this configuration and these layers; Docker's media types become OCI's, whose
// content is the same.
Result<WrittenManifest> write_oci_manifest(Manifest manifest);

Result<ImageConfig> parse_config(std::string_view document);

// The entries of `index` that fit `wanted`, best first. kNotFound with the platforms on offer.
Result<std::vector<Descriptor>> select_platform(const Index& index, const Platform& wanted);

// Refuses manifests of things that are no container image (kImage), and layers that cannot be unpacked here
// (kUnsupported): encrypted ones or of an unknown type.
Result<void> check_image_types(const Manifest& manifest);

// Checks that the manifest is an image's, and that layers and diff_ids pair up.
Result<Image> assemble_image(Descriptor manifest_descriptor, const Manifest& manifest, ImageConfig config);

}  // namespace boxlite::image
