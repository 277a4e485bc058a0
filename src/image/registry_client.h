// What we ask of a registry (OCI distribution specification 1.1): manifests and blobs.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "image/auth.h"
#include "image/http.h"
#include "image/reference.h"
#include "image/registry_config.h"
#include "image/store.h"

namespace boxlite::image {

struct FetchedManifest {
    std::string content;
    std::string media_type;  // as the registry says
    Digest digest;           // of `content`
};

// How a blob gets on. Called on the thread that fetches.
struct BlobEvents {
    std::function<void(uint64_t offset)> advanced;
    std::function<void()> retrying;
    std::function<void()> restarted;  // what was written before is void
};

// Mirrors are tried first, each failure of a mirror leads to the next place. Thread safe.
class RegistryClient {
  public:
    explicit RegistryClient(RegistryOptions options);

    // The digest of what the reference names now; nullopt when the registry does not say. Does not retry: it
    // saves a download, and whoever does without asks with get_manifest().
    Result<std::optional<Digest>> head_manifest(const Reference& reference, const std::stop_token& stop);
    // `what` is a tag or a digest. kImage when the content does not have the digest it should.
    Result<FetchedManifest> get_manifest(const Reference& reference, const std::string& what,
                                         const std::stop_token& stop);
    // Appends to `writer` until it has as many bytes as `blob` says. Does not commit. `mirrors` false asks
    // only the registry itself, for when a mirror's content has turned out wrong.
    Result<void> get_blob(const Reference& reference, const Descriptor& blob, BlobWriter& writer,
                          const BlobEvents& events, bool mirrors, const std::stop_token& stop);
    bool has_mirrors(const Reference& reference) const;

  private:
    // One place to ask: a mirror, or the registry itself.
    struct Place {
        std::string registry;
        std::string repository;
        std::string base_url;  // "https://host[:port]/v2/repository"
        RegistryConfig config;
    };
    std::vector<Place> places_for(const Reference& reference, bool mirrors) const;
    Place place(const std::string& registry, const std::string& repository) const;
    template <typename T, typename Ask>
    Result<T> ask_in_order(const std::vector<Place>& places, Ask ask);

    HttpRequest request_to(const Place& place, std::string_view path, const std::stop_token& stop) const;
    HttpOutcome authorized(const Place& place, HttpRequest request);
    HttpOutcome retried(const Place& place, const HttpRequest& request);
    Result<FetchedManifest> manifest_from(const Place& place, const std::string& what,
                                          const std::stop_token& stop);
    Result<void> blob_from(const Place& place, const Descriptor& blob, BlobWriter& writer,
                           const BlobEvents& events, const std::stop_token& stop);
    Error failure(const Place& place, std::string_view what, const HttpOutcome& outcome) const;

    RegistryOptions options_;
    HttpClient http_;
    Authenticator auth_;
};

}  // namespace boxlite::image
