// Undoes the compression of an answer's content, for a server that compresses though it was asked not to.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "base/bytes.h"

struct z_stream_s;

namespace boxlite::net::tls {

class Inflater {
  public:
    // nullptr for a coding but "gzip", "x-gzip" and "deflate" (RFC 9110, 8.4.1).
    static std::unique_ptr<Inflater> make(std::string_view coding);
    ~Inflater();
    Inflater(const Inflater&) = delete;
    Inflater& operator=(const Inflater&) = delete;

    // Gives what is in `bytes` piece by piece, so that a little input cannot become a lot of memory: takes
    // from their front and appends at most kPiece bytes to `out`. False when the data is damaged.
    static constexpr size_t kPiece = 64 << 10;
    bool add(base::ByteView& bytes, base::Bytes& out);

  private:
    Inflater();
    std::unique_ptr<z_stream_s> stream_;
    bool ended_ = false;
};

}  // namespace boxlite::net::tls
