#include "net/tls/contexts.h"

#include <unistd.h>

#include <cstdlib>

#include "base/bytes.h"
#include "net/address.h"

namespace boxlite::net::tls {

namespace {

// Of Debian and Alpine, Fedora, openSUSE, and OpenSSL's own.
constexpr const char* kBundles[] = {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
                                    "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"};

Result<std::string> find_bundle() {
    if (const char* chosen = std::getenv("SSL_CERT_FILE"); chosen && *chosen) return std::string(chosen);
    for (const char* path : kBundles)
        if (::access(path, R_OK) == 0) return std::string(path);
    return base::make_error(
        ErrorCode::kConfig,
        "the host has no file of trusted certificates ({}), without which no server can be "
        "verified: install ca-certificates",
        kBundles[0]);
}

Result<Context> make_context(const SSL_METHOD* method) {
    Context context(::SSL_CTX_new(method));
    if (!context || ::SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION) != 1)
        return openssl_error("make a TLS context");
    // Many end a connection without the alert that says so; HTTP's own framing tells what is cut short.
    ::SSL_CTX_set_options(context.get(), SSL_OP_NO_RENEGOTIATION | SSL_OP_IGNORE_UNEXPECTED_EOF);
    ::SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
    return context;
}

}  // namespace

Result<Contexts> make_contexts() {
    Contexts contexts;
    contexts.to_box = TRY(make_context(::TLS_server_method()));
    ::SSL_CTX_set_num_tickets(contexts.to_box.get(), 0);
    contexts.to_server = TRY(make_context(::TLS_client_method()));
    const std::string bundle = TRY(find_bundle());
    if (::SSL_CTX_load_verify_file(contexts.to_server.get(), bundle.c_str()) != 1)
        return openssl_error("read the trusted certificates in " + bundle);
    ::SSL_CTX_set_verify(contexts.to_server.get(), SSL_VERIFY_PEER, nullptr);
    return contexts;
}

Result<Ssl> make_client(const Contexts& contexts, const std::string& host, std::string_view alpn) {
    Ssl ssl(::SSL_new(contexts.to_server.get()));
    if (!ssl) return openssl_error("begin TLS");
    X509_VERIFY_PARAM* verification = ::SSL_get0_param(ssl.get());
    ::X509_VERIFY_PARAM_set_hostflags(verification, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    const bool address = IpAddress::parse(host).has_value();
    const bool set = address ? ::X509_VERIFY_PARAM_set1_ip_asc(verification, host.c_str()) == 1
                             : ::X509_VERIFY_PARAM_set1_host(verification, host.c_str(), host.size()) == 1 &&
                                   SSL_set_tlsext_host_name(ssl.get(), host.c_str()) == 1;
    if (!set) return openssl_error("ask for " + host);
    const base::ByteView offered = base::as_bytes(alpn);
    // This one is 0 when all is well.
    if (!alpn.empty() &&
        ::SSL_set_alpn_protos(ssl.get(), offered.data(), static_cast<unsigned>(offered.size())) != 0)
        return openssl_error("offer protocols");
    ::SSL_set_connect_state(ssl.get());
    return ssl;
}

std::string verification_problem(SSL* ssl) {
    const long result = ::SSL_get_verify_result(ssl);
    return result == X509_V_OK ? std::string() : ::X509_verify_cert_error_string(result);
}

}  // namespace boxlite::net::tls
