#include "image/layer_stream.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>

#include "image/layer_decompress.h"
#include "image/layer_tar_pax.h"

namespace boxlite::image {

namespace {

constexpr size_t kInputBytes = size_t{512} << 10;
constexpr size_t kChunkBytes = size_t{512} << 10;
constexpr size_t kChunks = 6;  // decompressed and waiting, at most

std::string_view name_of(Compression compression) {
    switch (compression) {
        case Compression::kNone:
            return "a plain archive";
        case Compression::kGzip:
            return "gzip";
        case Compression::kZstd:
            return "zstd";
    }
    return "";
}

Result<void> compare_digest(std::string_view what, Hasher& hasher, const Digest& expected) {
    const Digest actual = TRY(hasher.finish());
    if (actual == expected) return {};
    return base::make_error(ErrorCode::kImage,
                            "the layer's {} has digest {}, {} was expected; nothing of it is kept", what,
                            actual.to_string(), expected.to_string());
}

}  // namespace

Result<LayerLimits> LayerLimits::from_environment() {
    LayerLimits limits;
    const char* text = std::getenv("BOXLITE_MAX_LAYER_DECOMPRESSED_SIZE");
    if (!text || !*text) return limits;
    const auto bytes = parse_decimal(text);
    if (!bytes || *bytes == 0)
        return base::make_error(ErrorCode::kConfig,
                                "BOXLITE_MAX_LAYER_DECOMPRESSED_SIZE is '{}', not a number of bytes", text);
    limits.max_bytes = *bytes;
    return limits;
}

Result<Compression> compression_of(std::string_view media_type) {
    constexpr std::array<std::string_view, 4> kBases = {
        "application/vnd.oci.image.layer.v1.tar", "application/vnd.oci.image.layer.nondistributable.v1.tar",
        "application/vnd.docker.image.rootfs.diff.tar",
        "application/vnd.docker.image.rootfs.foreign.diff.tar"};
    for (const std::string_view base : kBases) {
        if (!media_type.starts_with(base)) continue;
        const std::string_view suffix = media_type.substr(base.size());
        if (suffix.empty()) return Compression::kNone;
        if (suffix == "+gzip" || suffix == ".gzip") return Compression::kGzip;
        if (suffix == "+zstd" || suffix == ".zstd") return Compression::kZstd;
    }
    return base::make_error(ErrorCode::kUnsupported,
                            "layers of media type '{}' are not supported: tar, tar+gzip and tar+zstd are",
                            media_type);
}

std::optional<Compression> sniff_compression(std::span<const uint8_t> start) {
    const auto begins = [&](std::initializer_list<uint8_t> magic) {
        return start.size() >= magic.size() && std::equal(magic.begin(), magic.end(), start.begin());
    };
    if (begins({0x1f, 0x8b})) return Compression::kGzip;
    if (begins({0x28, 0xb5, 0x2f, 0xfd})) return Compression::kZstd;
    // A skippable frame, as zstd:chunked may begin with.
    if (start.size() >= 4 && (start[0] & 0xf0) == 0x50 && start[1] == 0x2a && start[2] == 0x4d &&
        start[3] == 0x18)
        return Compression::kZstd;
    return std::nullopt;
}

// Blob in, archive out, with all checks on the way but the archive's digest.
class LayerStream::Decoder {
  public:
    explicit Decoder(LayerStream& stream) : stream_(stream) {}

    Result<void> run() {
        TRY(read_start());
        TRY(choose_decompressor());
        while (!input_.empty() || TRY(read_more()))
            if (!TRY(decode_input())) return {};  // nobody wants the rest
        return check_end();
    }

  private:
    // Enough for every magic number, if the blob has as much.
    Result<void> read_start() {
        buffer_.resize(kInputBytes);
        size_t size = 0;
        while (size < 4) {
            const size_t n = TRY(stream_.blob_.read(std::span(buffer_).subspan(size)));
            if (n == 0) break;
            size += n;
        }
        if (stream_.spec_.digest && !stream_.blob_.verifies())
            blob_hash_ = TRY(Hasher::make(stream_.spec_.digest->algorithm()));
        return account(size);
    }
    Result<bool> read_more() {
        const size_t n = TRY(stream_.blob_.read(buffer_));
        TRY(account(n));
        return n > 0;
    }
    Result<void> account(size_t size) {
        input_ = std::span(buffer_).first(size);
        blob_bytes_ += size;
        if (stream_.spec_.size && blob_bytes_ > *stream_.spec_.size)
            return base::make_error(ErrorCode::kImage,
                                    "the layer's blob is larger than the {} bytes announced",
                                    *stream_.spec_.size);
        if (blob_hash_) blob_hash_->update(input_);
        return {};
    }

    Result<void> choose_decompressor() {
        const Compression found = sniff_compression(input_).value_or(Compression::kNone);
        if (!stream_.spec_.media_type.empty()) {
            const Compression announced = TRY(compression_of(stream_.spec_.media_type));
            if (announced != found)
                return base::make_error(
                    ErrorCode::kImage,
                    "the layer's media type is '{}', but its content is {}; the image must be "
                    "built again",
                    stream_.spec_.media_type, name_of(found));
        }
        decompressor_ = TRY(Decompressor::make(found));
        return {};
    }

    // Decompresses all of the input. False when the consumer has gone.
    Result<bool> decode_input() {
        for (;;) {
            if (!output_) {
                output_ = stream_.take_buffer();
                if (!output_) return false;
                used_ = 0;
            }
            const auto progress = TRY(decompressor_->step(input_, std::span(*output_).subspan(used_)));
            input_ = input_.subspan(progress.consumed);
            used_ += progress.produced;
            TRY(count(progress.produced));
            if (used_ == output_->size()) {
                deliver();
                continue;  // more may be held back
            }
            if (input_.empty()) return true;
            if (progress.consumed == 0 && progress.produced == 0)
                return base::make_error(ErrorCode::kImage, "the layer's compressed data is damaged");
        }
    }

    Result<void> count(size_t produced) {
        stream_.archive_bytes_ += produced;
        const uint64_t bytes = stream_.archive_bytes_;
        const LayerLimits& limits = stream_.limits_;
        if (bytes > limits.max_bytes)
            return base::make_error(ErrorCode::kResourceExhausted,
                                    "the layer unpacks to more than {} bytes; set "
                                    "BOXLITE_MAX_LAYER_DECOMPRESSED_SIZE if that is expected",
                                    limits.max_bytes);
        if (bytes > limits.ratio_from_bytes && bytes / limits.max_ratio > blob_bytes_)
            return base::make_error(
                ErrorCode::kResourceExhausted,
                "the layer unpacks to more than {} times its {} bytes: a decompression bomb",
                limits.max_ratio, blob_bytes_);
        return {};
    }

    void deliver() {
        output_->resize(used_);
        stream_.deliver(std::move(*output_));
        output_.reset();
    }

    Result<void> check_end() {
        if (!decompressor_->complete())
            return base::make_error(ErrorCode::kImage, "the layer's compressed data ends too early");
        if (output_ && used_ > 0) deliver();
        if (stream_.spec_.size && blob_bytes_ != *stream_.spec_.size)
            return base::make_error(ErrorCode::kImage, "the layer's blob has {} bytes, {} were announced",
                                    blob_bytes_, *stream_.spec_.size);
        if (blob_hash_) TRY(compare_digest("blob", *blob_hash_, *stream_.spec_.digest));
        return {};
    }
    LayerStream& stream_;
    std::vector<uint8_t> buffer_;
    std::span<const uint8_t> input_;
    uint64_t blob_bytes_ = 0;
    std::optional<Hasher> blob_hash_;
    std::unique_ptr<Decompressor> decompressor_;
    std::optional<Chunk> output_;
    size_t used_ = 0;
};

LayerStream::LayerStream(BlobReader& blob, LayerSpec spec, LayerLimits limits)
    : blob_(blob), spec_(std::move(spec)), limits_(limits) {
    if (spec_.diff_id) archive_hash_.emplace(Hasher::make(spec_.diff_id->algorithm()));
    thread_ = std::thread([this] { run(); });
}

LayerStream::~LayerStream() {
    {
        const std::lock_guard lock(mutex_);
        cancelled_ = true;
    }
    changed_.notify_all();
    thread_.join();
}

void LayerStream::run() {
    auto result = Decoder(*this).run();
    {
        const std::lock_guard lock(mutex_);
        if (!result.ok()) error_ = std::move(result).error();
        finished_ = true;
    }
    changed_.notify_all();
}

std::optional<LayerStream::Chunk> LayerStream::take_buffer() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return cancelled_ || ready_.size() < kChunks; });
    if (cancelled_) return std::nullopt;
    Chunk chunk;
    if (!spare_.empty()) {
        chunk = std::move(spare_.back());
        spare_.pop_back();
    }
    lock.unlock();
    chunk.resize(kChunkBytes);
    return chunk;
}

void LayerStream::deliver(Chunk chunk) {
    {
        const std::lock_guard lock(mutex_);
        ready_.push_back(std::move(chunk));
    }
    changed_.notify_all();
}

Result<std::span<const uint8_t>> LayerStream::next() {
    std::unique_lock lock(mutex_);
    if (current_.capacity() > 0) spare_.push_back(std::move(current_));
    current_ = Chunk();
    changed_.wait(lock, [&] { return finished_ || !ready_.empty(); });
    if (ready_.empty()) {
        if (error_) return *error_;
        return std::span<const uint8_t>();
    }
    current_ = std::move(ready_.front());
    ready_.pop_front();
    lock.unlock();
    changed_.notify_all();
    if (archive_hash_ && archive_hash_->ok()) archive_hash_->value().update(current_);
    return std::span<const uint8_t>(current_);
}

Result<void> LayerStream::finish() {
    while (!TRY(next()).empty()) continue;
    if (!archive_hash_) return {};
    Hasher hasher = TRY(std::move(*archive_hash_));
    archive_hash_.reset();
    return compare_digest("archive", hasher, *spec_.diff_id);
}

}  // namespace boxlite::image
