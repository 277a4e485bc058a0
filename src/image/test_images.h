// Small images for tests.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "image/store.h"

namespace boxlite::image::testing {

struct Blob {
    Descriptor descriptor;
    std::string content;
};

Blob blob_of(std::string_view media_type, std::string content);

// An image for this host whose layers are the given contents, taken as uncompressed tars.
struct TestImage {
    Blob manifest;
    Blob config;
    std::vector<Blob> layers;
    std::vector<Blob> blobs() const;  // all of them, the manifest last
};
TestImage make_image(const std::vector<std::string>& layers);

// make_image() into the store, unnamed. Fails the running test on error.
Descriptor put_image(Store& store, const std::vector<std::string>& layers);

}  // namespace boxlite::image::testing
