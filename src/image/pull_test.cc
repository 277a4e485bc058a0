// Pulls from a hand-written registry that misbehaves on demand.
#include "image/pull.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/mount.h>

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <filesystem>

#include "image/credentials.h"
#include "image/http.h"
#include "image/test_server.h"

namespace boxlite::image {
namespace {

using testing::Blob;
using testing::blob_of;
using testing::make_image;
using testing::Reply;
using testing::Request;
using testing::serve_image;
using testing::TestImage;
using testing::TestServer;
using namespace std::chrono_literals;

class PullTest : public ::testing::Test {
  protected:
    PullTest() {
        options_.docker_config = dir_.path() + "/docker";
        options_.retry_delay = 1ms;
        options_.retries = 2;
        options_.stall_timeout = 1s;
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

TEST_F(PullTest, AFullDiskIsToldAndNotKeptFull) {
    const std::string disk = dir_.path() + "/small";
    ASSERT_TRUE(base::make_directories(disk).ok());
    ASSERT_EQ(::mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=400k"), 0) << strerror(errno);
    {
        Store small = Store::open(disk + "/images").value();
        TestServer server(good());
        const auto pulled = pull(small, server.host() + "/app:1", options_);
        EXPECT_EQ(pulled.error().code, ErrorCode::kStorage);
        EXPECT_NE(pulled.error().message.find("No space left"), std::string::npos) << pulled.error().message;
        EXPECT_EQ(small.usage()->blob_count, 0u);
        EXPECT_EQ(small.usage()->partial_bytes, 0u);
    }
    EXPECT_EQ(::umount2(disk.c_str(), MNT_DETACH), 0);
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

TEST_F(PullTest, ResumesAfterACut) {
    std::atomic<int> attempts = 0;
    TestServer server([&](const Request& r) {
        Reply reply = serve_image(r, image_, "app", "1");
        if (is_blob(r, image_.layers[0]) && attempts++ < 5) reply.cut_after = 40'000;
        return reply;
    });
    const auto pulled = pull_from(server);  // progress renews the two retries
    ASSERT_TRUE(pulled.ok()) << pulled.error().message;
    size_t i = 0;
    for (const Request& r : server.requests()) {
        if (!is_blob(r, image_.layers[0])) continue;
        const auto range = r.headers.find("range");
        EXPECT_EQ(range == r.headers.end() ? "" : range->second,
                  i == 0 ? "" : fmt::format("bytes={}-", i * 40'000));
        ++i;
    }
    EXPECT_EQ(i, 6u);
}

TEST_F(PullTest, ResumesWhereARegistryKnowsNoRanges) {
    std::atomic<int> attempts = 0;
    TestServer server([&](Request r) {
        r.headers.erase("range");
        Reply reply = serve_image(r, image_, "app", "1");
        if (is_blob(r, image_.layers[0]) && attempts++ < 1) reply.cut_after = 40'000;
        return reply;
    });
    const auto pulled = pull_from(server);
    ASSERT_TRUE(pulled.ok()) << pulled.error().message;
}

TEST_F(PullTest, ResumesInALaterPull) {
    options_.retries = 0;
    bool broken = true;
    TestServer server([&](const Request& r) {
        Reply reply = serve_image(r, image_, "app", "1");
        if (broken && is_blob(r, image_.layers[0])) reply.cut_after = 123'456;
        return reply;
    });
    const auto failed = pull_from(server);
    EXPECT_EQ(failed.error().code, ErrorCode::kNetwork);
    EXPECT_EQ(store_.partial_size(image_.layers[0].descriptor.digest), 123'456u);
    broken = false;
    ASSERT_TRUE(pull_from(server).ok());
    std::vector<std::string> ranges;
    for (const Request& r : server.requests())
        if (r.headers.contains("range")) ranges.push_back(r.headers.at("range"));
    EXPECT_EQ(ranges, std::vector<std::string>{"bytes=123456-"});
}

TEST_F(PullTest, StartsAnewWhenTheEarlierPartWasDamaged) {
    TestServer server(good());
    const Descriptor& blob = image_.layers[0].descriptor;
    {
        BlobStart start = store_.begin_blob(blob).value();
        ASSERT_TRUE(start.writer->append(base::as_bytes("garbage")).ok());
    }
    const auto pulled = pull_from(server);
    ASSERT_TRUE(pulled.ok()) << pulled.error().message;
    EXPECT_EQ(server.count("GET", blob.digest.to_string()), 2u);
}

TEST_F(PullTest, RefusesABlobWithAnotherContent) {
    TestServer server([&](const Request& r) {
        Reply reply = serve_image(r, image_, "app", "1");
        if (is_blob(r, image_.layers[1])) reply.body[5] = 'X';
        return reply;
    });
    const auto pulled = pull_from(server);
    ASSERT_FALSE(pulled.ok());
    EXPECT_EQ(pulled.error().code, ErrorCode::kImage);
    EXPECT_NE(pulled.error().message.find(image_.layers[1].descriptor.digest.to_string()), std::string::npos);
    EXPECT_FALSE(store_.has_blob(image_.layers[1].descriptor));
    EXPECT_EQ(store_.partial_size(image_.layers[1].descriptor.digest), 0u);
    EXPECT_TRUE(store_.list()->empty());
}

TEST_F(PullTest, AReaderNeverSeesTheEndOfAWrongBlob) {
    TestServer server([&](const Request& r) {
        Reply reply = serve_image(r, image_, "app", "1");
        if (is_blob(r, image_.layers[0])) reply.body.back() = 'X';
        return reply;
    });
    bool end_seen = false;
    options_.layer = [&](size_t, const Layer&, BlobReader& reader) -> Result<void> {
        std::vector<uint8_t> buffer(4096);
        for (;;) {
            const auto n = reader.read(buffer);
            if (!n.ok()) return n.error();
            if (*n == 0) break;
        }
        end_seen = true;
        return {};
    };
    EXPECT_EQ(pull_from(server).error().code, ErrorCode::kImage);
    EXPECT_FALSE(end_seen);
}

TEST_F(PullTest, RefusesATruncatedBlob) {
    TestServer server([&](const Request& r) {
        Reply reply = serve_image(r, image_, "app", "1");
        if (is_blob(r, image_.layers[0])) reply.body.resize(1000);
        return reply;
    });
    EXPECT_EQ(pull_from(server).error().code, ErrorCode::kImage);
    EXPECT_FALSE(store_.has_blob(image_.layers[0].descriptor));
    EXPECT_EQ(store_.partial_size(image_.layers[0].descriptor.digest), 0u);
}

TEST_F(PullTest, RefusesABlobLongerThanAnnounced) {
    TestServer server([&](const Request& r) {
        Reply reply = serve_image(r, image_, "app", "1");
        if (is_blob(r, image_.layers[0])) reply.body += "more";
        return reply;
    });
    EXPECT_EQ(pull_from(server).error().code, ErrorCode::kImage);
    EXPECT_FALSE(store_.has_blob(image_.layers[0].descriptor));
}

TEST_F(PullTest, RefusesAManifestThatIsNotTheOneAskedFor) {
    const TestImage other = make_image({"other"});
    TestServer server([&](const Request& r) {
        Reply reply = serve_image(r, image_, "app", "1");
        if (r.target.find("/manifests/sha256:") != std::string::npos) reply.body = other.manifest.content;
        return reply;
    });
    // The header tells the truth about what should have come.
    EXPECT_EQ(pull_from(server, "app@" + image_.manifest.descriptor.digest.to_string()).error().code,
              ErrorCode::kImage);
    expect_nothing_stored();
}

TEST_F(PullTest, RefusesAManifestThatItsDigestHeaderContradicts) {
    TestServer server([&](const Request& r) {
        Reply reply = serve_image(r, image_, "app", "1");
        for (auto& [name, value] : reply.headers)
            if (name == "Docker-Content-Digest") value = "sha256:" + std::string(64, '0');
        return reply;
    });
    EXPECT_EQ(pull_from(server).error().code, ErrorCode::kImage);
    expect_nothing_stored();
}

TEST_F(PullTest, RefusesTypeConfusion) {
    TestServer server([&](const Request& r) {
        Reply reply = serve_image(r, image_, "app", "1");
        for (auto& [name, value] : reply.headers)
            if (name == "Content-Type" && r.target.find("manifests") != std::string::npos)
                value = media_type::kOciIndex;
        return reply;
    });
    EXPECT_EQ(pull_from(server).error().code, ErrorCode::kImage);
    expect_nothing_stored();
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

TEST_F(PullTest, RetriesPassingFaults) {
    std::map<std::string, int> seen;
    TestServer server([&](const Request& r) -> Reply {
        const int n = seen[r.method + r.target]++;
        if (n == 0) return {.status = 500};
        if (n == 1 && r.method == "GET") return {.status = 429, .headers = {{"Retry-After", "0"}}};
        return serve_image(r, image_, "app", "1");
    });
    const auto pulled = pull_from(server);
    ASSERT_TRUE(pulled.ok()) << pulled.error().message;
}

TEST_F(PullTest, WaitsAsLongAsTheServerAsks) {
    TestServer server([&, first = true](const Request& r) mutable -> Reply {
        if (r.target.find("manifests") != std::string::npos && r.method == "GET" &&
            std::exchange(first, false))
            return {.status = 503, .headers = {{"Retry-After", "1"}}};
        return serve_image(r, image_, "app", "1");
    });
    const auto start = std::chrono::steady_clock::now();
    ASSERT_TRUE(pull_from(server).ok());
    EXPECT_GE(std::chrono::steady_clock::now() - start, 1s);
}

TEST_F(PullTest, GivesUpAndSaysWhy) {
    TestServer down([](const Request&) -> Reply { return {.status = 503}; });
    const auto failed = pull_from(down);
    EXPECT_EQ(failed.error().code, ErrorCode::kNetwork);
    EXPECT_NE(failed.error().message.find("503"), std::string::npos);
    EXPECT_EQ(down.count("GET", "manifests"), 3u);

    TestServer empty(good());
    const auto missing = pull_from(empty, "app:2");
    EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
    EXPECT_NE(missing.error().message.find("manifest unknown"), std::string::npos);
    EXPECT_EQ(empty.count("GET", "manifests"), 1u);

    const auto refused = pull(store_, "127.0.0.1:1/app", options_);
    EXPECT_EQ(refused.error().code, ErrorCode::kNetwork);
    EXPECT_NE(refused.error().message.find("127.0.0.1:1"), std::string::npos);
}

TEST_F(PullTest, AStalledConnectionIsTriedAgain) {
    std::atomic<int> attempts = 0;
    TestServer server([&](const Request& r) {
        Reply reply = serve_image(r, image_, "app", "1");
        if (is_blob(r, image_.layers[0]) && attempts++ == 0) {
            reply.cut_after = 1000;
            reply.stall = true;
        }
        return reply;
    });
    const auto pulled = pull_from(server);
    ASSERT_TRUE(pulled.ok()) << pulled.error().message;
    EXPECT_EQ(attempts, 2);
}

TEST_F(PullTest, CanBeStopped) {
    std::stop_source source;
    options_.stop = source.get_token();
    options_.stall_timeout = 60s;
    TestServer server([&](const Request& r) {
        Reply reply = serve_image(r, image_, "app", "1");
        if (is_blob(r, image_.layers[0])) {
            reply.cut_after = 1000;
            reply.stall = true;
        }
        return reply;
    });
    options_.progress = [&](const BlobProgress& p) {
        if (p.digest == image_.layers[0].descriptor.digest && p.state == BlobState::kDownloading)
            source.request_stop();
    };
    EXPECT_EQ(pull_from(server).error().code, ErrorCode::kStopped);
}

TEST_F(PullTest, RedirectsDoNotCarryCredentials) {
    std::string leaked = "nothing";
    TestServer storage([&](const Request& r) {
        const auto it = r.headers.find("authorization");
        leaked = it == r.headers.end() ? "" : it->second;
        return serve_image(r, image_, "app", "1");
    });
    TestServer server([&](const Request& r) -> Reply {
        if (!r.headers.contains("authorization"))
            return {.status = 401, .headers = {{"WWW-Authenticate", "Basic realm=\"r\""}}};
        if (r.target.find("/blobs/") != std::string::npos)
            return {.status = 307, .headers = {{"Location", "http://" + storage.host() + r.target}}};
        return serve_image(r, image_, "app", "1");
    });
    registry(server.host()).auth = AuthBasic{"user", "secret"};
    const auto pulled = pull_from(server);
    ASSERT_TRUE(pulled.ok()) << pulled.error().message;
    EXPECT_EQ(leaked, "");
    EXPECT_EQ(storage.count("GET", "/blobs/"), 4u);
}

TEST_F(PullTest, RedirectsEnd) {
    TestServer server([](const Request& r) -> Reply {
        return {.status = 302, .headers = {{"Location", r.target}}};
    });
    EXPECT_NE(pull_from(server).error().message.find("too many redirects"), std::string::npos);
    TestServer file([](const Request&) -> Reply {
        return {.status = 302, .headers = {{"Location", "file:///etc/passwd"}}};
    });
    EXPECT_EQ(pull_from(file).error().code, ErrorCode::kNetwork);
}

class TokenTest : public PullTest {
  protected:
    // A registry whose repository wants the tokens t1, t2 … that its token server hands out.
    Reply token_registry(const Request& r) {
        if (r.target.starts_with("/token")) {
            token_requests_.push_back(r);
            if (!wanted_login_.empty() && r.method == "GET") {
                const auto it = r.headers.find("authorization");
                if (it == r.headers.end() || it->second != wanted_login_) return {.status = 401};
            }
            return {.body = fmt::format(R"({{"token":"t{}","expires_in":300}})", ++issued_)};
        }
        const auto it = r.headers.find("authorization");
        if (it == r.headers.end() || it->second != fmt::format("Bearer t{}", issued_))
            return {.status = 401,
                    .headers = {
                        {"WWW-Authenticate",
                         fmt::format(
                             R"(Bearer realm="http://{}/token",service="reg",scope="repository:app:pull")",
                             r.headers.at("host"))}}};
        if (expire_after_ && --expire_after_ == 0) issued_ += 100;  // the token in use becomes void
        return serve_image(r, image_, "app", "1");
    }
    void write_docker_config(std::string_view content) {
        ASSERT_TRUE(base::make_directories(options_.docker_config).ok());
        ASSERT_TRUE(
            base::write_file_atomically(options_.docker_config + "/config.json", base::as_bytes(content))
                .ok());
    }
    int issued_ = 0;
    int expire_after_ = 0;
    std::string wanted_login_;
    std::vector<Request> token_requests_;
    TestServer server_{[this](const Request& r) { return token_registry(r); }};
};

TEST_F(TokenTest, AnonymousPullFetchesOneToken) {
    const auto pulled = pull_from(server_);
    ASSERT_TRUE(pulled.ok()) << pulled.error().message;
    ASSERT_EQ(token_requests_.size(), 1u);
    EXPECT_EQ(token_requests_[0].target, "/token?service=reg&scope=repository%3Aapp%3Apull");
    EXPECT_FALSE(token_requests_[0].headers.contains("authorization"));
}

TEST_F(TokenTest, AnExpiredTokenIsRenewed) {
    expire_after_ = 2;
    options_.parallel = 1;
    const auto pulled = pull_from(server_);
    ASSERT_TRUE(pulled.ok()) << pulled.error().message;
    EXPECT_EQ(token_requests_.size(), 2u);
}

TEST_F(TokenTest, LogsInWithTheDockerConfig) {
    wanted_login_ = "Basic " + base64_encode("me:pw");
    EXPECT_EQ(pull_from(server_).error().code, ErrorCode::kImage);
    write_docker_config(
        fmt::format(R"({{"auths":{{"{}":{{"auth":"{}"}}}}}})", server_.host(), base64_encode("me:pw")));
    const auto pulled = pull_from(server_);
    ASSERT_TRUE(pulled.ok()) << pulled.error().message;
    EXPECT_NE(token_requests_.back().target.find("&account=me"), std::string::npos);
    write_docker_config(
        fmt::format(R"({{"auths":{{"{}":{{"auth":"{}"}}}}}})", server_.host(), base64_encode("me:no")));
    const auto refused = pull_from(server_);
    EXPECT_NE(refused.error().message.find("password is wrong"), std::string::npos);
}

TEST_F(TokenTest, AnIdentityTokenIsExchanged) {
    write_docker_config(fmt::format(R"({{"auths":{{"{}":{{"identitytoken":"i+d"}}}}}})", server_.host()));
    const auto pulled = pull_from(server_);
    ASSERT_TRUE(pulled.ok()) << pulled.error().message;
    EXPECT_EQ(token_requests_[0].method, "POST");
    EXPECT_EQ(token_requests_[0].body,
              "grant_type=refresh_token&client_id=boxlite&service=reg&scope=repository%3Aapp%3Apull&refresh_"
              "token=i%2Bd");
}

TEST_F(TokenTest, AGivenTokenIsUsedAsItIs) {
    issued_ = 7;
    registry(server_.host()).auth = AuthBearer{"t7"};
    ASSERT_TRUE(pull_from(server_).ok());
    EXPECT_TRUE(token_requests_.empty());
    options_.registries[0].auth = AuthBearer{"wrong"};
    EXPECT_EQ(pull_from(server_, "app:other").error().code, ErrorCode::kImage);
}

TEST_F(TokenTest, AnonymousMeansThatNoCredentialsAreSent) {
    write_docker_config(
        fmt::format(R"({{"auths":{{"{}":{{"auth":"{}"}}}}}})", server_.host(), base64_encode("me:pw")));
    registry(server_.host()).auth = AuthAnonymous{};
    ASSERT_TRUE(pull_from(server_).ok());
    EXPECT_FALSE(token_requests_[0].headers.contains("authorization"));
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
