// Replaces texts in what comes in pieces, also where one lies across the border of two.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"

namespace boxlite::net::tls {

inline void append(base::Bytes& out, std::string_view text) {
    const base::ByteView bytes = base::as_bytes(text);
    out.insert(out.end(), bytes.begin(), bytes.end());
}

struct Replacement {
    std::string text;  // not empty
    std::string with;
};

// The same in one text. Returns whether there was any.
bool replace_all(const std::vector<Replacement>& replacements, std::string& text);

class Scrubber {
  public:
    // Of several that begin at one place, the longest counts. `replacements` outlives it, and may change.
    explicit Scrubber(const std::vector<Replacement>& replacements) : replacements_(replacements) {}

    // Appends to `out` what can be told of the piece. What could be the beginning of a text is held back.
    void add(base::ByteView piece, base::Bytes& out);
    // The end: the rest.
    void finish(base::Bytes& out);
    // How often something was replaced.
    uint64_t hits() const { return hits_; }

  private:
    const std::vector<Replacement>& replacements_;
    std::string held_;
    uint64_t hits_ = 0;
};

}  // namespace boxlite::net::tls
