// What the first bytes of a connection say about where it wants to go. Pure functions over bytes that are not
// trusted.
#pragma once

#include <string>

#include "base/bytes.h"

namespace boxlite::net {

struct Opening {
    enum class Kind {
        kIncomplete,  // more bytes are needed to tell
        kOther,       // neither TLS nor HTTP
        kHost,        // for `host`
        kBad,         // TLS or HTTP that hides or garbles it: `problem`
    };
    Kind kind = Kind::kIncomplete;
    std::string host;  // normalized, or the text of an address
    std::string problem;
    bool http = false;  // and more requests may follow
};

Opening read_opening(base::ByteView bytes);

// The parts of it.
Opening read_client_hello(base::ByteView bytes);  // RFC 8446, 4.1.2
Opening read_http_head(base::ByteView bytes);     // RFC 9112

}  // namespace boxlite::net
