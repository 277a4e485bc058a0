// Images in a runtime's store, an OCI image layout under the home directory.
// Thread safety: every call of Images may be made from any thread, and by any number of processes on one
// home.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "boxlite/options.h"
#include "boxlite/result.h"

namespace boxlite {

struct ImageInfo {
    std::string reference;   // "docker.io/library/alpine:latest"
    std::string repository;  // "docker.io/library/alpine"
    std::string tag;         // empty for an image kept by digest alone
    std::string id;          // digest of the image's config, "sha256:…"
    std::string manifest_digest;
    int64_t created_at = 0;  // nanoseconds since the Unix epoch, as the image says; 0: unknown
    int64_t stored_at = 0;
    uint64_t size_bytes = 0;  // of its blobs
};

struct Progress {
    enum class Kind { kDownload, kBuild };
    Kind kind = Kind::kDownload;
    std::string item;    // digest of a blob, or the step of a build
    uint64_t done = 0;   // bytes
    uint64_t total = 0;  // bytes, 0: not known
    bool finished = false;
};
// Called from any thread, one call at a time.
using ProgressSink = std::function<void(const Progress&)>;

class RuntimeImpl;

class Images {
  public:
    explicit Images(std::shared_ptr<RuntimeImpl> runtime) : runtime_(std::move(runtime)) {}

    // Fetches the image and prepares its disk, so that the next create() has nothing to wait for.
    Result<ImageInfo> pull(const std::string& reference, const ProgressSink& progress = {});

    Result<std::vector<ImageInfo>> list() const;

    // Accepts a reference or an unambiguous prefix of an id.
    Result<ImageInfo> get(const std::string& name) const;

    // Removes the reference, then what nothing else needs. kInvalidState when a box was made from it, unless
    // `force`: such boxes keep working. Returns what was removed.
    Result<ImageInfo> remove(const std::string& name, bool force = false);

    // Takes images from an OCI image layout (a folder, or a tar of one) or a `docker save` archive.
    // `reference` names the image when the archive does not.
    Result<std::vector<ImageInfo>> import(const std::string& path, const std::string& reference = {},
                                          const ProgressSink& progress = {});

  private:
    std::shared_ptr<RuntimeImpl> runtime_;
};

}  // namespace boxlite
