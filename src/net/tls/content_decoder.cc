#include "net/tls/content_decoder.h"

#include <brotli/decode.h>
#include <zlib.h>
#include <zstd.h>

#include "net/http_text.h"

namespace boxlite::net::tls {

namespace {

class Gzip : public ContentDecoder {
  public:
    Gzip() { ready_ = ::inflateInit2(&stream_, MAX_WBITS + kGzipOrZlib) == Z_OK; }
    ~Gzip() override { ::inflateEnd(&stream_); }

  private:
    static constexpr int kGzipOrZlib = 32;  // added to the bits of the window: whichever the data is

    bool decode(base::ByteView& bytes, std::span<uint8_t>& room) override {
        if (!ready_) return false;
        // gzip files may follow one another (RFC 1952, 2.2).
        if (ended_ && !bytes.empty() && ::inflateReset(&stream_) == Z_OK) ended_ = false;
        if (ended_) return true;
        stream_.next_in = const_cast<Bytef*>(bytes.data());
        stream_.avail_in = static_cast<uInt>(bytes.size());
        stream_.next_out = room.data();
        stream_.avail_out = static_cast<uInt>(room.size());
        const int result = ::inflate(&stream_, Z_NO_FLUSH);
        bytes = bytes.last(stream_.avail_in);
        room = room.last(stream_.avail_out);
        ended_ = result == Z_STREAM_END;
        return ended_ || result == Z_OK || result == Z_BUF_ERROR;
    }

    z_stream stream_{};
    bool ready_ = false;
};

class Brotli : public ContentDecoder {
    bool decode(base::ByteView& bytes, std::span<uint8_t>& room) override {
        size_t bytes_left = bytes.size();
        size_t room_left = room.size();
        const uint8_t* from = bytes.data();
        uint8_t* to = room.data();
        const auto result =
            ::BrotliDecoderDecompressStream(state_.get(), &bytes_left, &from, &room_left, &to, nullptr);
        bytes = bytes.last(bytes_left);
        room = room.last(room_left);
        ended_ = result == BROTLI_DECODER_RESULT_SUCCESS;
        return ended_ ? bytes.empty() : result != BROTLI_DECODER_RESULT_ERROR;
    }

    std::unique_ptr<BrotliDecoderState, decltype(&::BrotliDecoderDestroyInstance)> state_{
        ::BrotliDecoderCreateInstance(nullptr, nullptr, nullptr), &::BrotliDecoderDestroyInstance};
};

class Zstd : public ContentDecoder {
  public:
    Zstd() { ::ZSTD_DCtx_setParameter(context_.get(), ZSTD_d_windowLogMax, kMaxWindowLog); }

  private:
    static constexpr int kMaxWindowLog = 23;  // the most that a content coding may ask for (RFC 9659)

    bool decode(base::ByteView& bytes, std::span<uint8_t>& room) override {
        ZSTD_inBuffer from{bytes.data(), bytes.size(), 0};
        ZSTD_outBuffer to{room.data(), room.size(), 0};
        const size_t result = ::ZSTD_decompressStream(context_.get(), &to, &from);
        bytes = bytes.subspan(from.pos);
        room = room.subspan(to.pos);
        // Behind a frame, without more data, it asks for the next one.
        if (from.pos > 0 || to.pos > 0) ended_ = result == 0;
        return ::ZSTD_isError(result) == 0;
    }

    std::unique_ptr<ZSTD_DCtx, decltype(&::ZSTD_freeDCtx)> context_{::ZSTD_createDCtx(), &::ZSTD_freeDCtx};
};

}  // namespace

std::unique_ptr<ContentDecoder> ContentDecoder::make(std::string_view coding) {
    if (equal_fold(coding, "gzip") || equal_fold(coding, "x-gzip") || equal_fold(coding, "deflate"))
        return std::make_unique<Gzip>();
    if (equal_fold(coding, "br")) return std::make_unique<Brotli>();
    if (equal_fold(coding, "zstd")) return std::make_unique<Zstd>();
    return nullptr;
}

bool ContentDecoder::add(base::ByteView& bytes, base::Bytes& out) {
    begun_ = begun_ || !bytes.empty();
    const size_t before = out.size();
    out.resize(before + kPiece);
    std::span<uint8_t> room = std::span(out).subspan(before);
    const bool fine = decode(bytes, room);
    out.resize(out.size() - room.size());
    return fine;
}

}  // namespace boxlite::net::tls
