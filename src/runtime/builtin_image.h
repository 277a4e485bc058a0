// The image that BoxLite brings along, so that a first box needs no registry: `base`.
#pragma once

#include <string_view>

#include "image/store.h"
#include "runtime/runtime_impl.h"

namespace boxlite::runtime {

// "base" and "base:latest". A full name, such as docker.io/library/base, means the registry's image.
bool is_builtin_image(std::string_view name);

// Puts the image into the store when it is not there, or when this BoxLite brings another one.
Result<image::StoredImage> builtin_image(RuntimeImpl& runtime);

}  // namespace boxlite::runtime
