// A layer's archive out of its blob: read and decompressed in a thread of its own, so that this overlaps with
// whatever is done with the archive. Its hash is left to the caller's thread, which has less to do.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "image/blob_reader.h"
#include "image/digest.h"
#include "image/layer_tar.h"

namespace boxlite::image {

enum class Compression { kNone, kGzip, kZstd };

// What a blob must turn out to be.
struct LayerSpec {
    std::string media_type;         // "" when unknown: then the blob's first bytes decide
    std::optional<Digest> digest;   // of the blob; nullopt when it is not known
    std::optional<uint64_t> size;   // of the blob
    std::optional<Digest> diff_id;  // of the archive; nullopt for archives that are no OCI layers
};

struct LayerLimits {
    // BOXLITE_MAX_LAYER_DECOMPRESSED_SIZE, else 20 GiB. kConfig when the variable is not a number of bytes.
    static Result<LayerLimits> from_environment();

    uint64_t max_bytes = uint64_t{20} << 30;  // of one layer's archive
    uint64_t max_entries = 1'000'000;         // of all layers of an image
    // An archive may be this many times larger than its blob, once it is past the size given.
    uint64_t max_ratio = 1000;
    uint64_t ratio_from_bytes = uint64_t{1} << 30;
};

// The compression that a layer's media type names. kUnsupported for types that are no layer.
Result<Compression> compression_of(std::string_view media_type);
// By magic number; nullopt when `start` cannot be told from a plain archive.
std::optional<Compression> sniff_compression(std::span<const uint8_t> start);

// The archive in pieces. Errors: kImage for content that is not what the spec says, kResourceExhausted past a
// limit, and those of the blob's reader.
class LayerStream : public ChunkSource {
  public:
    // `blob` must outlive the stream and is used only by the stream's thread until then. Destroying the
    // stream waits for a read of the blob that is under way.
    LayerStream(BlobReader& blob, LayerSpec spec, LayerLimits limits);
    ~LayerStream() override;

    Result<std::span<const uint8_t>> next() override;
    // Reads what is left, and fails unless blob and archive are complete and have the digests expected. What
    // was made of the archive counts only after this.
    Result<void> finish();

    uint64_t archive_bytes() const { return archive_bytes_; }  // after finish()

  private:
    class Decoder;
    using Chunk = std::vector<uint8_t>;

    void run();
    // An empty buffer to fill; nullopt when nobody wants more.
    std::optional<Chunk> take_buffer();
    void deliver(Chunk chunk);

    BlobReader& blob_;
    const LayerSpec spec_;
    const LayerLimits limits_;
    uint64_t archive_bytes_ = 0;

    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<Chunk> ready_;
    std::vector<Chunk> spare_;
    std::optional<Error> error_;
    bool finished_ = false;
    bool cancelled_ = false;
    Chunk current_;  // handed out by next()
    std::optional<Result<Hasher>> archive_hash_;
    std::thread thread_;
};

}  // namespace boxlite::image
