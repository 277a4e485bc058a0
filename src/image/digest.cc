#include "image/digest.h"

// The functions of before OpenSSL 3: its EVP interface knows every algorithm there is, and setting up their
// tables takes a third of the time that starting a program takes.
#define OPENSSL_API_COMPAT 0x10100000L
#include <openssl/sha.h>

#include <algorithm>
#include <variant>

namespace boxlite::image {

namespace {

struct Algorithm {
    DigestAlgorithm algorithm;
    std::string_view name;
    size_t hex_length;
};
constexpr Algorithm kAlgorithms[] = {{DigestAlgorithm::kSha256, "sha256", 64},
                                     {DigestAlgorithm::kSha512, "sha512", 128}};

const Algorithm& details_of(DigestAlgorithm algorithm) {
    return kAlgorithms[static_cast<size_t>(algorithm)];
}

bool is_lower_hex(char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

// A message shows no more of hostile text than this.
std::string_view shown(std::string_view text) {
    return text.substr(0, 160);
}

}  // namespace

Result<Digest> Digest::parse(std::string_view text) {
    const size_t colon = text.find(':');
    if (colon == std::string_view::npos || colon == 0)
        return base::make_error(ErrorCode::kImage, "'{}' is not a digest: <algorithm>:<hex> is wanted",
                                shown(text));
    const auto found = std::find_if(std::begin(kAlgorithms), std::end(kAlgorithms),
                                    [&](const Algorithm& a) { return a.name == text.substr(0, colon); });
    if (found == std::end(kAlgorithms))
        return base::make_error(ErrorCode::kUnsupported, "digest '{}' is not sha256 or sha512", shown(text));
    const std::string_view hex = text.substr(colon + 1);
    if (hex.size() != found->hex_length || !std::all_of(hex.begin(), hex.end(), is_lower_hex))
        return base::make_error(ErrorCode::kImage, "digest '{}' does not have {} lower-case hex digits",
                                shown(text), found->hex_length);
    return Digest(std::string(text));
}

Result<Digest> Digest::of(base::ByteView data, DigestAlgorithm algorithm) {
    Hasher hasher = TRY(Hasher::make(algorithm));
    hasher.update(data);
    return hasher.finish();
}

DigestAlgorithm Digest::algorithm() const {
    return text_.starts_with("sha512:") ? DigestAlgorithm::kSha512 : DigestAlgorithm::kSha256;
}
std::string_view Digest::algorithm_name() const {
    return std::string_view(text_).substr(0, text_.find(':'));
}
std::string_view Digest::hex() const {
    return std::string_view(text_).substr(text_.find(':') + 1);
}

struct Hasher::State {
    std::variant<SHA256_CTX, SHA512_CTX> context;
};

Hasher::Hasher(std::unique_ptr<State> state) : state_(std::move(state)) {}
Hasher::Hasher(Hasher&&) noexcept = default;
Hasher& Hasher::operator=(Hasher&&) noexcept = default;
Hasher::~Hasher() = default;

Result<Hasher> Hasher::make(DigestAlgorithm algorithm) {
    auto state = std::make_unique<State>();
    if (algorithm == DigestAlgorithm::kSha512)
        ::SHA512_Init(&state->context.emplace<SHA512_CTX>());
    else
        ::SHA256_Init(&state->context.emplace<SHA256_CTX>());
    return Hasher(std::move(state));
}

void Hasher::update(base::ByteView data) {
    if (auto* sha512 = std::get_if<SHA512_CTX>(&state_->context))
        ::SHA512_Update(sha512, data.data(), data.size());
    else
        ::SHA256_Update(&std::get<SHA256_CTX>(state_->context), data.data(), data.size());
}

Result<Digest> Hasher::finish() {
    unsigned char raw[SHA512_DIGEST_LENGTH];
    const auto* algorithm = &details_of(DigestAlgorithm::kSha256);
    if (auto* sha512 = std::get_if<SHA512_CTX>(&state_->context)) {
        algorithm = &details_of(DigestAlgorithm::kSha512);
        ::SHA512_Final(raw, sha512);
    } else {
        ::SHA256_Final(raw, &std::get<SHA256_CTX>(state_->context));
    }
    std::string text(algorithm->name);
    text += ':';
    for (size_t i = 0; i < algorithm->hex_length / 2; ++i)
        fmt::format_to(std::back_inserter(text), "{:02x}", raw[i]);
    return Digest(std::move(text));
}

}  // namespace boxlite::image
