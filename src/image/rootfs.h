// Base images: the layers of an OCI image, applied one after the other, as one ext4 file system in a file.
// Needs no privileges, no mount and no other program. The same layers and options give the same bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "image/blob_reader.h"
#include "image/image.h"
#include "image/layer_stream.h"

namespace boxlite::image {

struct RootfsOptions {
    uint64_t disk_size = uint64_t{10} << 30;  // bytes, as the guest sees them; the file is sparse
    int64_t timestamp = 1;  // seconds since the epoch; of the file system and of directories no layer has
    LayerLimits limits;
};

struct RootfsInfo {
    std::string chain_id;  // OCI ChainID of the diff_ids given; "" when a layer had none, or without layers
    uint64_t entries = 0;  // files, directories and so on in the image
    uint64_t used_bytes = 0;  // in use within the file system
    uint64_t file_bytes = 0;  // that the file takes on the host's disk
};

// Writes to a file beside `output` and moves it there when all is well, so that `output` is complete or
// absent, also after a crash. A builder that is dropped leaves nothing. Not thread safe; layers are unpacked
// by a thread of their own while they are applied.
class RootfsBuilder {
  public:
    // `identity` decides the file system's UUID; the image's chain id, usually. Also removes what builders
    // that were killed have left beside `output`. Errors: kStorage, kInvalidArgument for the size.
    static Result<RootfsBuilder> create(const std::string& output, std::string_view identity,
                                        const RootfsOptions& options);
    RootfsBuilder(RootfsBuilder&&) noexcept;
    RootfsBuilder& operator=(RootfsBuilder&&) noexcept;
    ~RootfsBuilder();

    // Applies the next layer, base first, while its blob may still be arriving. After an error the builder is
    // of no more use. Errors: kImage for what is wrong with the layer, kResourceExhausted past a limit or
    // when the disk size is too small, kUnsupported for its media type, kStorage, and the reader's.
    Result<void> add_layer(const LayerSpec& layer, BlobReader& blob);
    // After the last layer: writes what is left and makes the file durable. finish() does so too; earlier is
    // for who has something to wait for meanwhile.
    Result<void> seal();
    // Puts the file in place, over what was there.
    Result<RootfsInfo> finish();

  private:
    struct State;
    explicit RootfsBuilder(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
};

LayerSpec layer_spec(const Layer& layer);

// All layers of `image` from readers that `open_layer` provides, one at a time, base first; it may wait until
// the layer has come. `open_layer` may return a reader of a blob that is still being downloaded.
Result<RootfsInfo> build_rootfs(const std::string& output, const Image& image,
                                const std::function<Result<std::unique_ptr<BlobReader>>(size_t)>& open_layer,
                                const RootfsOptions& options = {});

// A root from one archive in memory, compressed or not.
Result<RootfsInfo> build_rootfs_from_tar(const std::string& output, std::span<const uint8_t> archive,
                                         const RootfsOptions& options = {});

}  // namespace boxlite::image
