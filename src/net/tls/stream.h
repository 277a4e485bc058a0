// One side of an intercepted connection: TLS over a non-blocking socket.
// Thread safety: the loop's thread.
#pragma once

#include "base/bytes.h"
#include "base/fd.h"
#include "net/tls/openssl.h"

namespace boxlite::net::tls {

enum class Io {
    kMoved,    // something happened
    kBlocked,  // not now
    kEnded,    // the other side sends no more
    kFailed,   // the connection is of no more use
};

class Stream {
  public:
    // `ssl` has no socket yet.
    static Result<Stream> make(Ssl ssl, base::Fd socket);

    SSL* ssl() const { return ssl_.get(); }
    int fd() const { return socket_.get(); }

    // kMoved: it is through.
    Io handshake();
    // Appends at most a record.
    Io read(base::Bytes& into);
    // Takes what went out from the front.
    Io write(base::Bytes& from);
    // Says that no more will come, as far as that can be said at once.
    void finish();

    // What epoll is to look for, after what was blocked.
    uint32_t wanted() const { return wanted_; }
    // Why it failed.
    const std::string& problem() const { return problem_; }

  private:
    Stream(Ssl ssl, base::Fd socket) : ssl_(std::move(ssl)), socket_(std::move(socket)) {}
    Io outcome(int result, const char* what);

    // In this order: OpenSSL's object knows the socket's number.
    Ssl ssl_;
    base::Fd socket_;
    uint32_t wanted_ = 0;
    std::string problem_;
};

}  // namespace boxlite::net::tls
