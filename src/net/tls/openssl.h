// OpenSSL's objects, owned, and its errors.
#pragma once

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>

#include "base/result.h"

namespace boxlite::net::tls {

template <auto free>
struct Free {
    template <typename T>
    void operator()(T* object) const {
        free(object);
    }
};
using Key = std::unique_ptr<EVP_PKEY, Free<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Free<X509_free>>;
using Context = std::unique_ptr<SSL_CTX, Free<SSL_CTX_free>>;
using Ssl = std::unique_ptr<SSL, Free<SSL_free>>;
using Bio = std::unique_ptr<BIO, Free<BIO_free>>;

// "make a key: <OpenSSL's reason>". Empties OpenSSL's queue of errors.
inline Error openssl_error(std::string_view what) {
    const unsigned long code = ::ERR_peek_last_error();
    const char* reason = code ? ::ERR_reason_error_string(code) : nullptr;
    ::ERR_clear_error();
    return base::make_error(ErrorCode::kNetwork, "cannot {}: {}", what,
                            reason ? reason : "OpenSSL does not say why");
}

}  // namespace boxlite::net::tls
