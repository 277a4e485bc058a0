#include "net/tls/stream.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>

namespace boxlite::net::tls {

namespace {

constexpr size_t kRecord = 16 << 10;

}  // namespace

Result<Stream> Stream::make(Ssl ssl, base::Fd socket) {
    TRY(base::set_nonblocking(socket.get(), true));
    ::SSL_set_mode(ssl.get(), SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                  SSL_MODE_RELEASE_BUFFERS);
    if (::SSL_set_fd(ssl.get(), socket.get()) != 1) return openssl_error("begin TLS on a connection");
    return Stream(std::move(ssl), std::move(socket));
}

Io Stream::outcome(int result, const char* what) {
    if (result > 0) return Io::kMoved;
    const int error = ::SSL_get_error(ssl_.get(), result);
    switch (error) {
        case SSL_ERROR_WANT_READ:
            wanted_ |= EPOLLIN;
            return Io::kBlocked;
        case SSL_ERROR_WANT_WRITE:
            wanted_ |= EPOLLOUT;
            return Io::kBlocked;
        case SSL_ERROR_WANT_CLIENT_HELLO_CB:
            return Io::kBlocked;
        case SSL_ERROR_ZERO_RETURN:
            return Io::kEnded;
        default:
            problem_ = openssl_error(what).message;
            return Io::kFailed;
    }
}

Io Stream::handshake() {
    wanted_ = 0;
    ::ERR_clear_error();
    return outcome(::SSL_do_handshake(ssl_.get()), "begin TLS");
}

Io Stream::read(base::Bytes& into) {
    wanted_ = 0;
    const size_t before = into.size();
    into.resize(before + kRecord);
    ::ERR_clear_error();
    const int n = ::SSL_read(ssl_.get(), into.data() + before, kRecord);
    into.resize(before + static_cast<size_t>(std::max(n, 0)));
    return outcome(n, "receive over TLS");
}

Io Stream::write(base::Bytes& from) {
    if (from.empty()) return Io::kBlocked;
    ::ERR_clear_error();
    const int n =
        ::SSL_write(ssl_.get(), from.data(), static_cast<int>(std::min<size_t>(from.size(), 4 * kRecord)));
    if (n > 0) from.erase(from.begin(), from.begin() + n);
    return outcome(n, "send over TLS");
}

void Stream::finish() {
    ::ERR_clear_error();
    (void)::SSL_shutdown(ssl_.get());
    ::ERR_clear_error();
    ::shutdown(socket_.get(), SHUT_WR);
}

}  // namespace boxlite::net::tls
