#include "net/tls/inflater.h"

#include <zlib.h>

#include "net/http_text.h"

namespace boxlite::net::tls {

namespace {

constexpr int kGzipOrZlib = 32;  // added to the bits of the window: whichever the data is

}  // namespace

std::unique_ptr<Inflater> Inflater::make(std::string_view coding) {
    if (!equal_fold(coding, "gzip") && !equal_fold(coding, "x-gzip") && !equal_fold(coding, "deflate"))
        return nullptr;
    std::unique_ptr<Inflater> self(new Inflater());
    if (::inflateInit2(self->stream_.get(), MAX_WBITS + kGzipOrZlib) != Z_OK) return nullptr;
    return self;
}

Inflater::Inflater() : stream_(std::make_unique<z_stream>()) {}

Inflater::~Inflater() {
    ::inflateEnd(stream_.get());
}

bool Inflater::add(base::ByteView& bytes, base::Bytes& out) {
    const size_t before = out.size();
    out.resize(before + kPiece);
    stream_->next_in = const_cast<Bytef*>(bytes.data());
    stream_->avail_in = static_cast<uInt>(bytes.size());
    stream_->next_out = out.data() + before;
    stream_->avail_out = kPiece;
    // gzip files may follow one another (RFC 1952, 2.2).
    if (ended_ && !bytes.empty() && ::inflateReset(stream_.get()) == Z_OK) ended_ = false;
    const int result = ended_ ? Z_OK : ::inflate(stream_.get(), Z_NO_FLUSH);
    if (result == Z_STREAM_END) ended_ = true;
    bytes = bytes.subspan(bytes.size() - stream_->avail_in);
    out.resize(out.size() - stream_->avail_out);
    return result == Z_OK || result == Z_STREAM_END || result == Z_BUF_ERROR;
}

}  // namespace boxlite::net::tls
