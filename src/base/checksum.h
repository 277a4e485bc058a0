#pragma once

#include "base/bytes.h"

namespace boxlite::base {

// The ones' complement sum of the internet's protocols (RFC 1071), over the pieces of something.
class Checksum {
  public:
    void add(ByteView bytes);
    // A 16-bit field, or more of them, where a piece begins at an even place.
    void add(uint64_t value) { sum_ += value; }
    uint16_t result() const;

  private:
    uint64_t sum_ = 0;
    bool odd_ = false;  // the bytes so far are
};

}  // namespace boxlite::base
