// A box's own certificate authority: it lives as long as the process, and its key never leaves it. The box
// trusts it for the servers whose connections are looked into. Thread safety: the loop's thread.
#pragma once

#include <list>
#include <map>
#include <string>

#include "net/tls/openssl.h"

namespace boxlite::net::tls {

class Authority {
  public:
    static constexpr size_t kMaxCertificates = 256;  // kept for hosts; then the one not used for longest goes

    // ECDSA on P-256. `box_id` makes its name.
    static Result<Authority> make(const std::string& box_id);

    // PEM.
    Result<std::string> certificate() const;
    // Of its subject, as OpenSSL names the files of a folder of certificates.
    std::string hash() const;
    // Makes `ssl`, of a server, one for this host: a name, or the text of an address.
    Result<void> certify(SSL* ssl, const std::string& host);

  private:
    struct Entry {
        Certificate certificate;
        int64_t made_at = 0;  // seconds
        std::list<std::string>::iterator use;
    };
    Authority(Key key, Certificate certificate, Key servers)
        : key_(std::move(key)), certificate_(std::move(certificate)), servers_key_(std::move(servers)) {}
    Result<X509*> certificate_for(const std::string& host);
    Result<Certificate> sign(const std::string& host) const;

    Key key_;
    Certificate certificate_;
    Key servers_key_;  // of all certificates
    std::map<std::string, Entry> entries_;
    std::list<std::string> uses_;  // the latest first
};

}  // namespace boxlite::net::tls
