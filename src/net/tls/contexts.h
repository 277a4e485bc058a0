// How connections begin on both sides of an interception.
#pragma once

#include <string>

#include "net/tls/openssl.h"

namespace boxlite::net::tls {

// What a server answers with its choice to, and the box offers: protocols as ALPN has them (RFC 7301), each
// with its length before it.
inline constexpr std::string_view kAlpnHttp2 = "\2h2", kAlpnHttp1 = "\x08http/1.1";

struct Contexts {
    Context to_box;     // we are the server
    Context to_server;  // we are a client that verifies
};
// Reads the host's trusted certificates, so it comes before the process is confined: from $SSL_CERT_FILE,
// else from the first bundle that the host has. kConfig when there is none.
Result<Contexts> make_contexts();

// Towards `host`, whose certificate has to be valid for it. `alpn`: what is offered; empty: nothing.
Result<Ssl> make_client(const Contexts& contexts, const std::string& host, std::string_view alpn);
// Why a handshake failed: the server's certificate is not good; "" when it was something else.
std::string verification_problem(SSL* ssl);

}  // namespace boxlite::net::tls
