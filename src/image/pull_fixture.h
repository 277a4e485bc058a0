// The store, the image and the options that the tests of pull() share.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>

#include "image/pull.h"
#include "image/test_server.h"

namespace boxlite::image::testing {

class PullTest : public ::testing::Test {
  protected:
    PullTest() {
        options_.docker_config = dir_.path() + "/docker";
        options_.retry_delay = std::chrono::milliseconds(1);
        options_.retries = 2;
    }
    Result<StoredImage> pull_from(const TestServer& server, const std::string& name = "app:1") {
        return pull(store_, server.host() + "/" + name, options_);
    }
    RegistryConfig& registry(const std::string& host) {
        options_.registries.push_back({.host = host});
        return options_.registries.back();
    }
    void expect_nothing_stored() {
        EXPECT_TRUE(store_.list()->empty());
        for (const Blob& blob : image_.layers) EXPECT_FALSE(store_.has_blob(blob.descriptor));
        const std::string partial = store_.root() + "/partial";
        EXPECT_TRUE(!base::path_exists(partial) || std::filesystem::is_empty(partial));
    }
    bool is_blob(const Request& request, const Blob& blob) {
        return request.target.ends_with(blob.descriptor.digest.to_string());
    }
    TestServer::Handler good() {
        return [this](const Request& r) { return serve_image(r, image_, "app", "1"); };
    }

    base::TempDir dir_ = base::TempDir::make().value();
    Store store_ = Store::open(dir_.path() + "/images").value();
    TestImage image_ =
        make_image({std::string(300'000, 'a'), std::string(200'000, 'b'), std::string(100'000, 'c')});
    PullOptions options_;
};

}  // namespace boxlite::image::testing
