// Streaming decompression. Private to the layer stream.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/result.h"
#include "image/layer_stream.h"

namespace boxlite::image {

class Decompressor {
  public:
    static Result<std::unique_ptr<Decompressor>> make(Compression compression);
    virtual ~Decompressor() = default;

    struct Progress {
        size_t consumed = 0;
        size_t produced = 0;
    };
    // Makes progress with at least one of both, unless the input is empty and nothing is held back. Several
    // members or frames in a row are one stream. kImage for damaged data.
    virtual Result<Progress> step(std::span<const uint8_t> in, std::span<uint8_t> out) = 0;
    // Whether the input may end here.
    virtual bool complete() const = 0;
};

}  // namespace boxlite::image
