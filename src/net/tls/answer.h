// The content of one answer on its way to the box: without its compression, and without the values of
// secrets. Thread safety: the loop's thread.
#pragma once

#include <memory>
#include <string>

#include "net/tls/content_decoder.h"
#include "net/tls/guard.h"

namespace boxlite::net::tls {

class AnswerContent {
  public:
    // `coding`: of the content, "" for none. `guard` outlives it.
    AnswerContent(const Guard& guard, std::string_view coding);

    // Whether anything may become of the content that changes its length.
    bool rewrites() const { return rewrites_; }
    // Appends what the box gets of the next piece. "" or why it gets no more.
    std::string add(base::ByteView piece, base::Bytes& out);
    // As add(), when all of it has come.
    std::string finish(base::Bytes& out);

  private:
    bool rewrites_;
    std::string coding_;
    std::unique_ptr<ContentDecoder> decoder_;
    Scrubber scrubber_;
};

}  // namespace boxlite::net::tls
