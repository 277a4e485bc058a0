#include "net/tls/authority.h"

#include <openssl/pem.h>
#include <openssl/rand.h>

#include <ctime>

#include "net/address.h"

namespace boxlite::net::tls {

namespace {

// Clocks of boxes are the host's; those of what was paused may be late.
constexpr long kBackdated = -24L * 3600;
constexpr long kAuthorityLife = 10L * 365 * 24 * 3600, kServerLife = 7L * 24 * 3600, kServerUse = 24L * 3600;
constexpr long kVersion3 = 2;
constexpr size_t kMaxCommonName = 64;  // RFC 5280, appendix A

Result<Key> make_key() {
    Key key(::EVP_EC_gen("P-256"));
    if (!key) return openssl_error("make a key");
    return key;
}

bool set_serial(X509* certificate) {
    uint8_t bytes[16];
    if (::RAND_bytes(bytes, sizeof bytes) != 1) return false;
    bytes[0] &= 0x7f;  // positive
    const std::unique_ptr<BIGNUM, Free<BN_free>> number(::BN_bin2bn(bytes, sizeof bytes, nullptr));
    return number && ::BN_to_ASN1_INTEGER(number.get(), ::X509_get_serialNumber(certificate));
}

bool add_name(X509_NAME* name, const std::string& common) {
    const std::string text = common.substr(0, kMaxCommonName);
    return ::X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8,
                                        reinterpret_cast<const uint8_t*>(text.data()),
                                        static_cast<int>(text.size()), -1, 0) == 1;
}

bool add_extension(X509* certificate, X509* issuer, int kind, const std::string& value) {
    X509V3_CTX context;
    X509V3_set_ctx_nodb(&context);
    ::X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
    const std::unique_ptr<X509_EXTENSION, Free<X509_EXTENSION_free>> extension(
        ::X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str()));
    return extension && ::X509_add_ext(certificate, extension.get(), -1) == 1;
}

bool begin(X509* certificate, EVP_PKEY* key, const std::string& name, long life) {
    return ::X509_set_version(certificate, kVersion3) == 1 && set_serial(certificate) &&
           ::X509_gmtime_adj(::X509_getm_notBefore(certificate), kBackdated) &&
           ::X509_gmtime_adj(::X509_getm_notAfter(certificate), life) &&
           ::X509_set_pubkey(certificate, key) == 1 && add_name(::X509_get_subject_name(certificate), name);
}

}  // namespace

Result<Authority> Authority::make(const std::string& box_id) {
    Key key = TRY(make_key());
    Key servers = TRY(make_key());
    Certificate certificate(::X509_new());
    X509* raw = certificate.get();
    const bool made = raw && begin(raw, key.get(), "BoxLite box " + box_id, kAuthorityLife) &&
                      ::X509_set_issuer_name(raw, ::X509_get_subject_name(raw)) == 1 &&
                      add_extension(raw, raw, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
                      add_extension(raw, raw, NID_key_usage, "critical,keyCertSign,cRLSign") &&
                      add_extension(raw, raw, NID_subject_key_identifier, "hash") &&
                      ::X509_sign(raw, key.get(), ::EVP_sha256()) > 0;
    if (!made) return openssl_error("make a certificate authority");
    return Authority(std::move(key), std::move(certificate), std::move(servers));
}

Result<std::string> Authority::certificate() const {
    const Bio bio(::BIO_new(::BIO_s_mem()));
    char* text = nullptr;
    if (!bio || ::PEM_write_bio_X509(bio.get(), certificate_.get()) != 1)
        return openssl_error("write a certificate");
    const long size = BIO_get_mem_data(bio.get(), &text);
    return std::string(text, static_cast<size_t>(size));
}

std::string Authority::hash() const {
    return fmt::format("{:08x}", ::X509_subject_name_hash(certificate_.get()));
}

Result<void> Authority::certify(SSL* ssl, const std::string& host) {
    X509* certificate = TRY(certificate_for(host));
    if (::SSL_use_certificate(ssl, certificate) != 1 || ::SSL_use_PrivateKey(ssl, servers_key_.get()) != 1)
        return openssl_error("use a certificate");
    return {};
}

Result<X509*> Authority::certificate_for(const std::string& host) {
    const int64_t now = ::time(nullptr);
    const auto found = entries_.find(host);
    if (found != entries_.end()) {
        uses_.splice(uses_.begin(), uses_, found->second.use);
        if (now - found->second.made_at < kServerUse) return found->second.certificate.get();
        found->second.certificate = TRY(sign(host));
        found->second.made_at = now;
        return found->second.certificate.get();
    }
    Certificate certificate = TRY(sign(host));
    if (entries_.size() == kMaxCertificates) {
        entries_.erase(uses_.back());
        uses_.pop_back();
    }
    uses_.push_front(host);
    X509* raw = certificate.get();
    entries_[host] = {std::move(certificate), now, uses_.begin()};
    return raw;
}

Result<Certificate> Authority::sign(const std::string& host) const {
    Certificate certificate(::X509_new());
    X509* raw = certificate.get();
    X509* issuer = certificate_.get();
    const bool made =
        raw && begin(raw, servers_key_.get(), host, kServerLife) &&
        ::X509_set_issuer_name(raw, ::X509_get_subject_name(issuer)) == 1 &&
        add_extension(raw, issuer, NID_basic_constraints, "critical,CA:FALSE") &&
        add_extension(raw, issuer, NID_key_usage, "critical,digitalSignature") &&
        add_extension(raw, issuer, NID_ext_key_usage, "serverAuth") &&
        add_extension(raw, issuer, NID_authority_key_identifier, "keyid") &&
        add_extension(raw, issuer, NID_subject_alt_name, (IpAddress::parse(host) ? "IP:" : "DNS:") + host) &&
        ::X509_sign(raw, key_.get(), ::EVP_sha256()) > 0;
    if (!made) return openssl_error("make a certificate for " + host);
    return certificate;
}

}  // namespace boxlite::net::tls
