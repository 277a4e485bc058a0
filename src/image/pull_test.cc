// What a pull does when all goes well, or nearly.
#include <stdlib.h>

#include <condition_variable>
#include <mutex>

#include "image/http.h"
#include "image/pull_fixture.h"

namespace boxlite::image {
namespace {

using testing::Blob;
using testing::make_image;
using testing::PullTest;
using testing::Reply;
using testing::Request;
using testing::serve_image;
using testing::TestServer;
using namespace std::chrono_literals;

TEST_F(PullTest, StoresWhatTheRegistryHas) {
    TestServer server(good());
    std::map<Digest, BlobProgress> last;
    options_.progress = [&](const BlobProgress& p) { last.insert_or_assign(p.digest, p); };
    const auto pulled = pull_from(server);
    ASSERT_TRUE(pulled.ok()) << pulled.error().message;
    EXPECT_EQ(pulled->reference.to_string(), server.host() + "/app:1");
    EXPECT_EQ(pulled->image.manifest.digest, image_.manifest.descriptor.digest);
    for (const Blob& blob : image_.layers) {
        EXPECT_EQ(base::read_file(store_.blob_path(blob.descriptor.digest)).value(), blob.content);
        EXPECT_EQ(last.at(blob.descriptor.digest).state, BlobState::kDone);
        EXPECT_EQ(last.at(blob.descriptor.digest).done, blob.content.size());
    }
    // The same again: one question, no download.
    const size_t before = server.requests().size();
    ASSERT_TRUE(pull_from(server).ok());
    EXPECT_EQ(server.requests().size(), before + 1);
    EXPECT_EQ(server.requests().back().method, "HEAD");
}

TEST_F(PullTest, FindsWhatIsStoredAsAPullWould) {
    TestServer server(good());
    registry(server.host()).search = true;
    ASSERT_TRUE(pull(store_, "app:1", options_).ok());
    ASSERT_TRUE(
        store_.tag(Reference::parse(server.host() + "/app:1").value(), Reference::parse("other").value())
            .ok());
    EXPECT_EQ(find_stored(store_, "app:1", options_)->reference.registry, server.host());
    EXPECT_EQ(find_stored(store_, "other", options_)->reference.registry, "docker.io");
    EXPECT_TRUE(find_stored(store_, image_.config.descriptor.digest.hex().substr(0, 12), options_).ok());
    EXPECT_EQ(find_stored(store_, "app:2", options_).error().code, ErrorCode::kNotFound);
    options_.policy = PullPolicy::kNever;
    EXPECT_TRUE(pull(store_, "other", options_).ok());
}

TEST_F(PullTest, FollowsATagThatMoved) {
    TestServer server(good());
    ASSERT_TRUE(pull_from(server).ok());
    image_ = make_image({std::string(300'000, 'a'), "new"});
    const auto again = pull_from(server);
    ASSERT_TRUE(again.ok()) << again.error().message;
    EXPECT_EQ(again->image.layers.size(), 2u);
    EXPECT_EQ(server.count("GET", image_.layers[0].descriptor.digest.to_string()), 1u);
    EXPECT_EQ(store_.list()->size(), 1u);
}

TEST_F(PullTest, PoliciesDecideWhetherToAsk) {
    TestServer server(good());
    options_.policy = PullPolicy::kNever;
    EXPECT_EQ(pull_from(server).error().code, ErrorCode::kNotFound);
    options_.policy = PullPolicy::kMissing;
    ASSERT_TRUE(pull_from(server).ok());
    const size_t asked = server.requests().size();
    ASSERT_TRUE(pull_from(server).ok());
    options_.policy = PullPolicy::kNever;
    ASSERT_TRUE(pull_from(server).ok());
    EXPECT_EQ(server.requests().size(), asked);
}

TEST_F(PullTest, ByDigestNeedsNoQuestionWhenStored) {
    TestServer server(good());
    const std::string name = "app@" + image_.manifest.descriptor.digest.to_string();
    ASSERT_TRUE(pull_from(server, name).ok());
    const size_t asked = server.requests().size();
    ASSERT_TRUE(pull_from(server, name).ok());
    EXPECT_EQ(server.requests().size(), asked);
}

TEST_F(PullTest, HandsOutLayersInOrderWhileLaterOnesAreOnTheirWay) {
    std::mutex mutex;
    std::condition_variable changed;
    bool first_layer_read = false;
    TestServer server([&](const Request& r) {
        // The last layer is not sent before the first has been read by the callback.
        if (r.method == "GET" && is_blob(r, image_.layers[2])) {
            std::unique_lock lock(mutex);
            EXPECT_TRUE(changed.wait_for(lock, 30s, [&] { return first_layer_read; }));
        }
        return serve_image(r, image_, "app", "1");
    });
    options_.parallel = 1;
    std::vector<std::string> seen;
    size_t layers_known = 0;
    options_.image = [&](const Image& image) -> Result<void> {
        layers_known = image.layers.size();
        return {};
    };
    options_.layer = [&](size_t index, const Layer&, BlobReader& reader) -> Result<void> {
        EXPECT_EQ(index, seen.size());
        std::string content;
        std::vector<uint8_t> buffer(7777);
        for (;;) {
            const auto n = reader.read(buffer);
            if (!n.ok()) return n.error();
            if (*n == 0) break;
            content.append(reinterpret_cast<const char*>(buffer.data()), *n);
        }
        seen.push_back(std::move(content));
        const std::lock_guard lock(mutex);
        first_layer_read = true;
        changed.notify_all();
        return {};
    };
    for (int round = 0; round < 2; ++round) {  // the second time from the store
        seen.clear();
        const auto pulled = pull_from(server);
        ASSERT_TRUE(pulled.ok()) << pulled.error().message;
        EXPECT_EQ(layers_known, 3u);
        ASSERT_EQ(seen.size(), 3u);
        for (size_t i = 0; i < 3; ++i) EXPECT_EQ(seen[i], image_.layers[i].content);
    }
}

TEST_F(PullTest, AnErrorOfTheCallbackEndsThePull) {
    TestServer server(good());
    options_.layer = [](size_t, const Layer&, BlobReader&) -> Result<void> {
        return base::make_error(ErrorCode::kStorage, "no room for layers");
    };
    const auto pulled = pull_from(server);
    EXPECT_EQ(pulled.error().code, ErrorCode::kStorage);
    EXPECT_NE(pulled.error().message.find("no room for layers"), std::string::npos);
    EXPECT_TRUE(store_.list()->empty());
}

TEST_F(PullTest, ChoosesFromAnIndex) {
    const Descriptor& manifest = image_.manifest.descriptor;
    const auto entry = [&](std::string_view arch, const Digest& digest, uint64_t size) {
        return fmt::format(
            R"({{"mediaType":"{}","digest":"{}","size":{},"platform":{{"os":"linux","architecture":"{}"}}}})",
            media_type::kOciManifest, digest.to_string(), size, arch);
    };
    uint64_t announced = manifest.size;
    const auto index = [&] {
        return fmt::format(R"({{"schemaVersion":2,"mediaType":"{}","manifests":[{},{}]}})",
                           media_type::kOciIndex,
                           entry("s390x", Digest::of(base::as_bytes("other")).value(), 5),
                           entry(Platform::host().architecture, manifest.digest, announced));
    };
    TestServer server([&](const Request& r) {
        if (r.target == "/v2/app/manifests/multi")
            return Reply{.body = index(), .headers = {{"Content-Type", std::string(media_type::kOciIndex)}}};
        return serve_image(r, image_, "app", "1");
    });
    announced = manifest.size + 1;
    EXPECT_EQ(pull_from(server, "app:multi").error().code, ErrorCode::kImage);
    expect_nothing_stored();
    announced = manifest.size;
    const auto pulled = pull_from(server, "app:multi");
    ASSERT_TRUE(pulled.ok()) << pulled.error().message;
    EXPECT_EQ(pulled->image.manifest.digest, manifest.digest);
    EXPECT_EQ(store_.source_digest(pulled->reference)->value(), Digest::of(base::as_bytes(index())).value());
    options_.platform = Platform::parse("riscv64").value();
    EXPECT_EQ(pull_from(server, "app:multi").error().code, ErrorCode::kNotFound);
}

TEST_F(PullTest, MirrorsComeFirstAndMayFail) {
    TestServer origin(good());
    TestServer down([](const Request&) -> Reply { return {.status = 404}; });
    TestServer wrong([&](const Request& r) {
        Reply reply = serve_image(r, image_, "cache/app", "1");
        if (is_blob(r, image_.layers[0])) reply.body[0] = 'X';
        return reply;
    });
    registry(origin.host()).mirrors = {down.host(), wrong.host() + "/cache"};
    const auto pulled = pull_from(origin);
    ASSERT_TRUE(pulled.ok()) << pulled.error().message;
    EXPECT_EQ(pulled->reference.registry, origin.host());
    EXPECT_GT(down.requests().size(), 0u);
    EXPECT_EQ(wrong.count("GET", image_.layers[1].descriptor.digest.to_string()), 1u);
    EXPECT_EQ(origin.count("GET", image_.layers[1].descriptor.digest.to_string()), 0u);
    EXPECT_EQ(origin.count("GET", image_.layers[0].descriptor.digest.to_string()), 1u);
}

TEST_F(PullTest, SearchesRegistriesInOrder) {
    TestServer first([](const Request&) -> Reply { return {.status = 404}; });
    TestServer second(good());
    registry(first.host()).search = true;
    registry(second.host()).search = true;
    const auto pulled = pull(store_, "app:1", options_);
    ASSERT_TRUE(pulled.ok()) << pulled.error().message;
    EXPECT_EQ(pulled->reference.registry, second.host());
    const auto missing = pull(store_, "app:2", options_);
    EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
    EXPECT_NE(missing.error().message.find(first.host()), std::string::npos);
    EXPECT_NE(missing.error().message.find(second.host()), std::string::npos);
}

TEST_F(PullTest, UsesTheProxyOfTheEnvironment) {
    TestServer proxy([&](Request r) -> Reply {
        constexpr std::string_view kOrigin = "http://registry.invalid:5000";
        if (!r.target.starts_with(kOrigin)) return {.status = 502};
        r.target.erase(0, kOrigin.size());
        return serve_image(r, image_, "app", "1");
    });
    registry("registry.invalid:5000").transport = Transport::kHttp;
    for (const char* variable : {"http_proxy", "HTTP_PROXY"}) {
        ::setenv(variable, ("http://" + proxy.host()).c_str(), 1);
        const auto pulled = pull(store_, "registry.invalid:5000/app:1", options_);
        ::unsetenv(variable);
        EXPECT_TRUE(pulled.ok()) << variable << ": " << pulled.error().message;
    }
    EXPECT_EQ(pull(store_, "registry.invalid:5000/app:1", options_).error().code, ErrorCode::kNetwork);
    // Loopback is never asked through a proxy.
    TestServer server(good());
    ::setenv("http_proxy", "http://127.0.0.1:1", 1);
    const auto local = pull_from(server);
    ::unsetenv("http_proxy");
    EXPECT_TRUE(local.ok()) << local.error().message;
}

TEST_F(PullTest, RefusesArtifactsAndOtherPlatforms) {
    const std::string manifest = fmt::format(
        R"({{"schemaVersion":2,"mediaType":"{}","config":{{"mediaType":"application/vnd.cncf.helm.config.v1+json","digest":"{}","size":2}},"layers":[]}})",
        media_type::kOciManifest, Digest::of(base::as_bytes("{}"))->to_string());
    TestServer server([&](const Request& r) -> Reply {
        if (r.target.ends_with("/chart"))
            return {.body = manifest, .headers = {{"Content-Type", std::string(media_type::kOciManifest)}}};
        return serve_image(r, image_, "app", "1");
    });
    EXPECT_NE(pull_from(server, "app:chart").error().message.find("helm"), std::string::npos);
    options_.platform = Platform::parse("riscv64").value();
    EXPECT_NE(pull_from(server).error().message.find("linux/riscv64"), std::string::npos);
    expect_nothing_stored();
}

TEST(Http, ComparesOrigins) {
    EXPECT_EQ(origin_of("https://Host/a"), "https://host:443");
    EXPECT_EQ(origin_of("https://host:443/b?c"), "https://host:443");
    EXPECT_NE(origin_of("https://host:444/"), origin_of("https://host/"));
    EXPECT_NE(origin_of("http://host:443/"), origin_of("https://host:443/"));
    for (const char* other : {"file:///etc/passwd", "ftp://host/", "", "host", "https://"})
        EXPECT_EQ(origin_of(other), "") << other;
}

}  // namespace
}  // namespace boxlite::image
