// What goes over an intercepted connection, in clear, from one side to the other. It moves bytes between
// buffers and knows nothing of sockets. Memory is bounded by what the caller leaves in `to_box` and
// `to_server`. Thread safety: the loop's thread.
#pragma once

#include <string>

#include "base/bytes.h"

namespace boxlite::net::tls {

class Conversation {
  public:
    static constexpr size_t kBuffer = 128 << 10;

    Conversation() = default;
    Conversation(const Conversation&) = delete;
    Conversation& operator=(const Conversation&) = delete;
    virtual ~Conversation() = default;

    virtual void from_box(base::ByteView bytes) = 0;
    virtual void from_server(base::ByteView bytes) = 0;
    // The side sends no more.
    virtual void box_ended() = 0;
    virtual void server_ended() = 0;
    // Called when the buffers have been written out, as far as the sides take it.
    virtual void written() {}

    // Whether there is room for more of it.
    virtual bool wants_box() const { return to_server.size() < kBuffer; }
    virtual bool wants_server() const { return to_box.size() < kBuffer; }
    // Nothing more will come of it: it ends once `to_box` is written.
    bool over() const { return over_; }

    base::Bytes to_box, to_server;

  protected:
    bool over_ = false;
};

}  // namespace boxlite::net::tls
