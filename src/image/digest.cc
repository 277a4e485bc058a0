#include "image/digest.h"

#include <openssl/evp.h>

#include <algorithm>

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
    struct Free {
        void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
    };
    DigestAlgorithm algorithm;
    std::unique_ptr<EVP_MD_CTX, Free> context;
    bool failed = false;
};

Hasher::Hasher(std::unique_ptr<State> state) : state_(std::move(state)) {}
Hasher::Hasher(Hasher&&) noexcept = default;
Hasher& Hasher::operator=(Hasher&&) noexcept = default;
Hasher::~Hasher() = default;

Result<Hasher> Hasher::make(DigestAlgorithm algorithm) {
    auto state = std::make_unique<State>();
    state->algorithm = algorithm;
    state->context.reset(EVP_MD_CTX_new());
    const EVP_MD* md = algorithm == DigestAlgorithm::kSha512 ? EVP_sha512() : EVP_sha256();
    if (!state->context || EVP_DigestInit_ex(state->context.get(), md, nullptr) != 1)
        return base::make_error(ErrorCode::kInternal, "OpenSSL cannot compute {}",
                                details_of(algorithm).name);
    return Hasher(std::move(state));
}

void Hasher::update(base::ByteView data) {
    if (EVP_DigestUpdate(state_->context.get(), data.data(), data.size()) != 1) state_->failed = true;
}

Result<Digest> Hasher::finish() {
    unsigned char raw[EVP_MAX_MD_SIZE];
    unsigned int length = 0;
    const std::string_view name = details_of(state_->algorithm).name;
    if (state_->failed || EVP_DigestFinal_ex(state_->context.get(), raw, &length) != 1)
        return base::make_error(ErrorCode::kInternal, "OpenSSL cannot compute {}", name);
    std::string text(name);
    text += ':';
    for (unsigned int i = 0; i < length; ++i) fmt::format_to(std::back_inserter(text), "{:02x}", raw[i]);
    return Digest(std::move(text));
}

}  // namespace boxlite::image
