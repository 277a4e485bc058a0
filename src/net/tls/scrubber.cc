#include "net/tls/scrubber.h"

#include <algorithm>

namespace boxlite::net::tls {

namespace {

struct Hit {
    size_t at = std::string_view::npos;
    const Replacement* what = nullptr;
};

Hit find_first(const std::vector<Replacement>& replacements, std::string_view text) {
    Hit first;
    for (const Replacement& replacement : replacements) {
        // One that begins behind the first does not matter.
        const size_t end =
            first.what ? std::min(text.size(), first.at + replacement.text.size()) : text.size();
        const size_t at = text.substr(0, end).find(replacement.text);
        if (at == std::string_view::npos) continue;
        const bool longer = first.what && replacement.text.size() > first.what->text.size();
        if (!first.what || at < first.at || (at == first.at && longer)) first = {at, &replacement};
    }
    return first;
}

// Where the end begins that could be the beginning of one.
size_t find_beginning(const std::vector<Replacement>& replacements, std::string_view text) {
    size_t longest = 0;
    for (const Replacement& replacement : replacements)
        for (size_t n = std::min(replacement.text.size() - 1, text.size()); n > longest; --n)
            if (text.ends_with(std::string_view(replacement.text).substr(0, n))) longest = n;
    return text.size() - longest;
}

}  // namespace

bool replace_all(const std::vector<Replacement>& replacements, std::string& text) {
    Scrubber scrubber(replacements);
    base::Bytes out;
    scrubber.add(base::as_bytes(text), out);
    scrubber.finish(out);
    if (scrubber.hits() == 0) return false;
    text = base::as_text(out);
    return true;
}

void Scrubber::add(base::ByteView piece, base::Bytes& out) {
    held_ += base::as_text(piece);
    std::string_view rest = held_;
    for (;;) {
        const Hit hit = find_first(replacements_, rest);
        // A longer one may begin before it, or with it, and not be there yet.
        const size_t open = find_beginning(replacements_, rest);
        if (!hit.what || open <= hit.at) {
            append(out, rest.substr(0, open));
            rest.remove_prefix(open);
            break;
        }
        append(out, rest.substr(0, hit.at));
        append(out, hit.what->with);
        rest.remove_prefix(hit.at + hit.what->text.size());
        ++hits_;
    }
    held_.erase(0, held_.size() - rest.size());
}

void Scrubber::finish(base::Bytes& out) {
    while (!held_.empty()) {
        const Hit hit = find_first(replacements_, held_);
        append(out, std::string_view(held_).substr(0, hit.at));
        if (!hit.what) break;
        append(out, hit.what->with);
        held_.erase(0, hit.at + hit.what->text.size());
        ++hits_;
    }
    held_.clear();
}

}  // namespace boxlite::net::tls
