// Getting images from registries into the store.
#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string_view>

#include "image/blob_reader.h"
#include "image/image.h"
#include "image/registry_config.h"
#include "image/store.h"

namespace boxlite::image {

enum class PullPolicy {
    kAlways,   // ask the registry whether the name means something new
    kMissing,  // use what is stored, if anything is
    kNever,    // kNotFound when it is not stored
};

enum class BlobState {
    kPresent,  // was in the store
    kQueued,
    kWaiting,  // another process is downloading it
    kDownloading,
    kRetrying,  // after a fault
    kDone,      // verified and stored
};

struct BlobProgress {
    Digest digest;
    uint64_t done = 0;  // bytes
    uint64_t total = 0;
    BlobState state = BlobState::kQueued;
};

struct PullOptions : RegistryOptions {
    PullPolicy policy = PullPolicy::kAlways;
    Platform platform = Platform::host();
    size_t parallel = 4;  // blobs at a time

    // Called from any thread of the pull, never by two at once, at each change of state and a few times a
    // second. Must not call back into the pull.
    std::function<void(const BlobProgress&)> progress;
    // Called on the calling thread as soon as manifest and configuration are known.
    std::function<Result<void>(const Image&)> image;
    // Called on the calling thread for each layer, base first, while later ones are still downloading; the
    // reader follows the layer's own download. Also called for layers that were in the store. The callback
    // may return before the end of the stream. An error ends the pull.
    std::function<Result<void>(size_t index, const Layer&, BlobReader&)> layer;
    // A request to stop ends the pull with kStopped; what was downloaded is kept for the next one.
    std::stop_token stop;
};

// The stored image that `text` means: by the names that a pull would look for, by its name on docker.io, or
// by id as in Store::find(). kNotFound when there is none.
Result<StoredImage> find_stored(const Store& store, std::string_view text, const RegistryOptions& options);

// Returns the image recorded under its full name. Blocks. Thread safe.
// Errors: kInvalidArgument (reference), kNotFound, kNetwork, kImage (content that does not match), kStorage,
// kStopped.
Result<StoredImage> pull(Store& store, std::string_view reference, const PullOptions& options);

}  // namespace boxlite::image
