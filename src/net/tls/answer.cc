#include "net/tls/answer.h"

#include "base/text.h"

namespace boxlite::net::tls {

AnswerContent::AnswerContent(const Guard& guard, std::string_view coding)
    : rewrites_(guard.has_secrets()), coding_(coding), scrubber_(guard.secrets.scrubs()) {
    if (rewrites_ && !coding.empty()) inflater_ = Inflater::make(coding);
}

std::string AnswerContent::add(base::ByteView piece, base::Bytes& out) {
    if (!rewrites_) {
        out.insert(out.end(), piece.begin(), piece.end());
        return {};
    }
    if (!coding_.empty() && !inflater_)
        return fmt::format("its answer is compressed as '{}', which cannot be looked into",
                           base::printable(coding_, 40));
    if (!inflater_) {
        scrubber_.add(piece, out);
        return {};
    }
    base::Bytes plain;
    do {
        plain.clear();
        if (!inflater_->add(piece, plain)) return "its answer's compression is damaged";
        scrubber_.add(plain, out);
    } while (!piece.empty() || plain.size() == Inflater::kPiece);
    return {};
}

void AnswerContent::finish(base::Bytes& out) {
    scrubber_.finish(out);
}

}  // namespace boxlite::net::tls
