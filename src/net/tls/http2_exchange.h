// One request over HTTP/2 and its answer.
#pragma once

#include "net/tls/http2.h"

namespace boxlite::net::tls {

struct Http2::Exchange {
    // What goes one way: to the server, or to the box.
    struct Flow {
        base::Bytes waiting;      // for the session that sends it
        uint64_t unconsumed = 0;  // received, and not yet told to the sender that there is room again
        bool ended = false;
        bool begun = false;  // the head has gone out
        Headers trailers;
    };
    int32_t box_stream = 0;
    int32_t server_stream = -1;  // -1: none, or no more
    bool box_open = true;
    Headers headers;  // of the head that is coming in, from either side
    size_t head_bytes = 0;
    bool head_only = false;  // the answer has no content
    bool refused = false;
    bool cancelled = false;  // at the server
    Seam seam;
    Flow up, down;
    std::unique_ptr<AnswerContent> content;

    // Towards `side`.
    Flow& to(Side side) { return side == Side::kServer ? up : down; }
    int32_t stream(Side side) const { return side == Side::kBox ? box_stream : server_stream; }
};

}  // namespace boxlite::net::tls
