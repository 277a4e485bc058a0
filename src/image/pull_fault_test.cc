// Pulls from a registry that misbehaves, and over lines that do.
#include <sys/mount.h>

#include <atomic>
#include <cstring>

#include "image/pull_fixture.h"

namespace boxlite::image {
namespace {

using testing::make_image;
using testing::PullTest;
using testing::Reply;
using testing::Request;
using testing::serve_image;
using testing::TestImage;
using testing::TestServer;
using namespace std::chrono_literals;

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
    // The other layer may have been stopped on its way too.
    std::vector<std::string> ranges;
    for (const Request& r : server.requests())
        if (is_blob(r, image_.layers[0]) && r.headers.contains("range"))
            ranges.push_back(r.headers.at("range"));
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
    options_.stall_timeout = 1s;
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

}  // namespace
}  // namespace boxlite::image
