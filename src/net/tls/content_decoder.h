// Undoes the compression of an answer's content, for a server that compresses though it was asked not to.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "base/bytes.h"

namespace boxlite::net::tls {

class ContentDecoder {
  public:
    // nullptr for a coding but "gzip", "x-gzip", "deflate" (RFC 9110, 8.4.1), "br" (RFC 7932) and "zstd"
    // (RFC 8878).
    static std::unique_ptr<ContentDecoder> make(std::string_view coding);
    virtual ~ContentDecoder() = default;

    // Gives what is in `bytes` piece by piece, so that a little input cannot become a lot of memory: takes
    // from their front and appends at most kPiece bytes to `out`, fewer only when it has no more to give for
    // now. False when the data is damaged.
    static constexpr size_t kPiece = 64 << 10;
    bool add(base::ByteView& bytes, base::Bytes& out);
    // False when the data stops in the middle.
    bool complete() const { return !begun_ || ended_; }

  protected:
    // As add(), into the front of `room`, of which it leaves what it does not fill.
    virtual bool decode(base::ByteView& bytes, std::span<uint8_t>& room) = 0;

    bool ended_ = false;  // what decode() has seen is complete

  private:
    bool begun_ = false;
};

}  // namespace boxlite::net::tls
