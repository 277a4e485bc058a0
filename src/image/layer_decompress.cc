#include "image/layer_decompress.h"

#include <isa-l/igzip_lib.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>

namespace boxlite::image {

namespace {

class PlainDecompressor : public Decompressor {
  public:
    Result<Progress> step(std::span<const uint8_t> in, std::span<uint8_t> out) override {
        const size_t n = std::min(in.size(), out.size());
        std::memcpy(out.data(), in.data(), n);
        return Progress{n, n};
    }
    bool complete() const override { return true; }
};

// RFC 1952. ISA-L inflates more than twice as fast as zlib, and inflating is most of the work of a layer.
class GzipDecompressor : public Decompressor {
  public:
    GzipDecompressor() { reset(); }

    Result<Progress> step(std::span<const uint8_t> in, std::span<uint8_t> out) override {
        if (at_start_ && in.empty()) return Progress{};
        at_start_ = false;
        state_.next_in = const_cast<uint8_t*>(in.data());  // read only, whatever its type says
        state_.avail_in = static_cast<uint32_t>(in.size());
        state_.next_out = out.data();
        state_.avail_out = static_cast<uint32_t>(out.size());
        const int code = isal_inflate(&state_);
        if (code != ISAL_DECOMP_OK && code != ISAL_END_INPUT)
            return base::make_error(ErrorCode::kImage, "the gzip data is damaged (igzip error {})", code);
        const Progress progress{in.size() - state_.avail_in, out.size() - state_.avail_out};
        if (state_.block_state == ISAL_BLOCK_FINISH) reset();
        return progress;
    }
    bool complete() const override { return at_start_; }

  private:
    void reset() {
        isal_inflate_init(&state_);
        state_.crc_flag = ISAL_GZIP;
        at_start_ = true;
    }
    inflate_state state_;
    bool at_start_ = true;  // between two members
};

// RFC 8878.
class ZstdDecompressor : public Decompressor {
  public:
    ZstdDecompressor() : stream_(ZSTD_createDStream(), ZSTD_freeDStream) {
        // A frame may ask for that much memory, and no more: 128 MiB.
        ZSTD_DCtx_setParameter(stream_.get(), ZSTD_d_windowLogMax, 27);
    }
    Result<Progress> step(std::span<const uint8_t> in, std::span<uint8_t> out) override {
        ZSTD_inBuffer input{in.data(), in.size(), 0};
        ZSTD_outBuffer output{out.data(), out.size(), 0};
        const size_t code = ZSTD_decompressStream(stream_.get(), &output, &input);
        if (ZSTD_isError(code))
            return base::make_error(ErrorCode::kImage, "the zstd data is damaged: {}",
                                    ZSTD_getErrorName(code));
        if (input.pos > 0 || output.pos > 0) complete_ = code == 0;
        return Progress{input.pos, output.pos};
    }
    bool complete() const override { return complete_; }

  private:
    std::unique_ptr<ZSTD_DStream, size_t (*)(ZSTD_DStream*)> stream_;
    bool complete_ = true;
};

}  // namespace

Result<std::unique_ptr<Decompressor>> Decompressor::make(Compression compression) {
    switch (compression) {
        case Compression::kNone:
            return std::unique_ptr<Decompressor>(std::make_unique<PlainDecompressor>());
        case Compression::kGzip:
            return std::unique_ptr<Decompressor>(std::make_unique<GzipDecompressor>());
        case Compression::kZstd:
            return std::unique_ptr<Decompressor>(std::make_unique<ZstdDecompressor>());
    }
    return base::make_error(ErrorCode::kInternal, "there is no such compression");
}

}  // namespace boxlite::image
