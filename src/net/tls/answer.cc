#include "net/tls/answer.h"

#include "base/text.h"

namespace boxlite::net::tls {

AnswerContent::AnswerContent(const Guard& guard, std::string_view coding)
    : rewrites_(guard.has_secrets()), coding_(coding), scrubber_(guard.secrets.scrubs()) {
    if (rewrites_ && !coding.empty()) decoder_ = ContentDecoder::make(coding);
}

std::string AnswerContent::add(base::ByteView piece, base::Bytes& out) {
    if (!rewrites_) {
        out.insert(out.end(), piece.begin(), piece.end());
        return {};
    }
    if (!coding_.empty() && !decoder_)
        return fmt::format("its answer is compressed as '{}', which cannot be looked into",
                           base::printable(coding_, 40));
    if (!decoder_) {
        scrubber_.add(piece, out);
        return {};
    }
    base::Bytes plain;
    do {
        plain.clear();
        if (!decoder_->add(piece, plain)) return "its answer's compression is damaged";
        scrubber_.add(plain, out);
    } while (!piece.empty() || plain.size() == ContentDecoder::kPiece);
    return {};
}

std::string AnswerContent::finish(base::Bytes& out) {
    if (decoder_ && !decoder_->complete()) return "its answer's compression stops in the middle";
    scrubber_.finish(out);
    return {};
}

}  // namespace boxlite::net::tls
