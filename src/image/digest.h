// Content digests as in the OCI image specification 1.1, "Digests": "<algorithm>:<lower-case hex>".
#pragma once

#include <compare>
#include <memory>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"

namespace boxlite::image {

enum class DigestAlgorithm { kSha256, kSha512 };

// A well-formed digest of an algorithm that we can check. There is no empty digest.
class Digest {
  public:
    // kImage for malformed text, kUnsupported for an unknown algorithm.
    static Result<Digest> parse(std::string_view text);
    // sha256 of `data`.
    static Result<Digest> of(base::ByteView data, DigestAlgorithm algorithm = DigestAlgorithm::kSha256);

    DigestAlgorithm algorithm() const;
    std::string_view algorithm_name() const;  // "sha256"
    std::string_view hex() const;
    const std::string& to_string() const { return text_; }

    auto operator<=>(const Digest&) const = default;

  private:
    friend class Hasher;
    explicit Digest(std::string text) : text_(std::move(text)) {}
    std::string text_;
};

// Streaming digest of bytes. Not thread safe.
class Hasher {
  public:
    static Result<Hasher> make(DigestAlgorithm algorithm = DigestAlgorithm::kSha256);
    Hasher(Hasher&&) noexcept;
    Hasher& operator=(Hasher&&) noexcept;
    ~Hasher();

    void update(base::ByteView data);
    // Ends this hasher: nothing but destruction may follow.
    Result<Digest> finish();

  private:
    struct State;
    explicit Hasher(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
};

}  // namespace boxlite::image
