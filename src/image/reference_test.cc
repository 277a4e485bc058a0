// Expected values follow the grammar and the normalisation of github.com/distribution/reference.
#include "image/reference.h"

#include <gtest/gtest.h>

namespace boxlite::image {
namespace {

const std::string kHex(64, 'a');
const std::string kDigest = "sha256:" + kHex;

struct Spelling {
    std::string text, full, familiar;
};

TEST(Reference, NormalisesAsDockerDoes) {
    const Spelling spellings[] = {
        {"alpine", "docker.io/library/alpine:latest", "alpine:latest"},
        {"alpine:3.20", "docker.io/library/alpine:3.20", "alpine:3.20"},
        {"library/alpine", "docker.io/library/alpine:latest", "alpine:latest"},
        {"docker.io/alpine", "docker.io/library/alpine:latest", "alpine:latest"},
        {"index.docker.io/library/alpine", "docker.io/library/alpine:latest", "alpine:latest"},
        {"index.docker.io/a/b", "docker.io/a/b:latest", "a/b:latest"},
        {"user/app", "docker.io/user/app:latest", "user/app:latest"},
        {"library/a/b", "docker.io/library/a/b:latest", "library/a/b:latest"},
        {"localhost/app", "localhost/app:latest", "localhost/app:latest"},
        {"localhost:5000/app:v1", "localhost:5000/app:v1", "localhost:5000/app:v1"},
        {"local/app", "docker.io/local/app:latest", "local/app:latest"},
        {"127.0.0.1:5000/a/b/c", "127.0.0.1:5000/a/b/c:latest", "127.0.0.1:5000/a/b/c:latest"},
        {"[::1]:5000/app", "[::1]:5000/app:latest", "[::1]:5000/app:latest"},
        {"ghcr.io/o/r__x.y-z---w:A_b.C-1", "ghcr.io/o/r__x.y-z---w:A_b.C-1",
         "ghcr.io/o/r__x.y-z---w:A_b.C-1"},
        {"HOST/app", "HOST/app:latest", "HOST/app:latest"},
        {"alpine@" + kDigest, "docker.io/library/alpine@" + kDigest, "alpine@" + kDigest},
        {"quay.io/x/y:t@" + kDigest, "quay.io/x/y:t@" + kDigest, "quay.io/x/y:t@" + kDigest},
        {"foo:5000", "docker.io/library/foo:5000", "foo:5000"},
        {"docker.io/a.b/c", "docker.io/a.b/c:latest", "docker.io/a.b/c:latest"},
        {"docker.io/localhost/c", "docker.io/localhost/c:latest", "docker.io/localhost/c:latest"},
        {kHex.substr(1), "docker.io/library/" + kHex.substr(1) + ":latest", kHex.substr(1) + ":latest"},
    };
    for (const Spelling& s : spellings) {
        const auto reference = Reference::parse(s.text);
        ASSERT_TRUE(reference.ok()) << s.text << ": " << reference.error().message;
        EXPECT_EQ(reference->to_string(), s.full) << s.text;
        EXPECT_EQ(reference->familiar(), s.familiar) << s.text;
        EXPECT_EQ(Reference::parse(reference->to_string()).value(), *reference) << s.text;
        EXPECT_EQ(Reference::parse(reference->familiar()).value(), *reference) << s.text;
    }
}

TEST(Reference, RefusesWhatTheGrammarDoesNotAllow) {
    for (const std::string& text : {std::string(""),
                                    std::string("Alpine"),
                                    std::string("user/App"),
                                    std::string("a//b"),
                                    std::string("/a"),
                                    std::string("a/"),
                                    std::string("-a"),
                                    std::string("a-"),
                                    std::string("a..b"),
                                    std::string("a___b"),
                                    std::string("a_.b"),
                                    std::string("a b"),
                                    std::string("a:"),
                                    std::string("a:.x"),
                                    std::string("a:-x"),
                                    std::string("a:b:c"),
                                    "a:" + std::string(129, 't'),
                                    std::string("a@"),
                                    std::string("a@sha256:abc"),
                                    std::string("a@md5:d41d8cd98f00b204e9800998ecf8427e"),
                                    "a@sha256:" + std::string(64, 'A'),
                                    kHex,
                                    std::string("-host.io/a"),
                                    std::string("host-.io/a"),
                                    std::string("ho..st/a"),
                                    std::string("host:/a"),
                                    std::string("host:port/a"),
                                    std::string("https://host/a"),
                                    std::string("[::1/a"),
                                    std::string("[::1]x/a"),
                                    std::string("a\0b", 3),
                                    std::string("../a"),
                                    std::string("a/../b"),
                                    fmt::format("a@{0}@{0}", kDigest)}) {
        const auto reference = Reference::parse(text);
        ASSERT_FALSE(reference.ok()) << text << " became " << reference->to_string();
        EXPECT_EQ(reference.error().code, ErrorCode::kInvalidArgument);
    }
}

TEST(Reference, LimitsTheNameTo255Characters) {
    EXPECT_TRUE(Reference::parse("docker.io/a/" + std::string(255 - 12, 'b')).ok());
    EXPECT_FALSE(Reference::parse("docker.io/a/" + std::string(256 - 12, 'b')).ok());
    EXPECT_TRUE(Reference::parse("a:" + std::string(128, 't')).ok());
}

TEST(Reference, DigestWinsOverTag) {
    EXPECT_EQ(Reference::parse("a:t@" + kDigest)->tag_or_digest(), kDigest);
    EXPECT_EQ(Reference::parse("a:t")->tag_or_digest(), "t");
}

TEST(Reference, SearchesOnlyForNamesWithoutRegistry) {
    const std::vector<std::string> search{"localhost:5000", "docker.io"};
    const auto found = Reference::candidates("app:1", search).value();
    ASSERT_EQ(found.size(), 2u);
    EXPECT_EQ(found[0].to_string(), "localhost:5000/app:1");
    EXPECT_EQ(found[1].to_string(), "docker.io/library/app:1");
    EXPECT_EQ(Reference::candidates("u/app", search).value()[0].to_string(), "localhost:5000/u/app:latest");
    EXPECT_EQ(Reference::candidates("ghcr.io/u/app", search).value().size(), 1u);
    EXPECT_EQ(Reference::candidates("app", {}).value()[0].to_string(), "docker.io/library/app:latest");
    EXPECT_FALSE(Reference::candidates("App", search).ok());
}

TEST(Reference, KnowsLoopback) {
    for (const char* host :
         {"localhost", "localhost:5000", "127.0.0.1", "127.1.2.3:80", "[::1]", "[::1]:5000"})
        EXPECT_TRUE(is_loopback_registry(host)) << host;
    for (const char* host : {"docker.io", "127.example.org", "127.0.0.1.example.org", "localhost.example.org",
                             "10.0.0.1:5000", "[::2]", "127.0.0"})
        EXPECT_FALSE(is_loopback_registry(host)) << host;
}

// FIPS 180-4 examples.
TEST(Digest, MatchesTheStandard) {
    EXPECT_EQ(Digest::of(base::as_bytes("abc"))->to_string(),
              "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    EXPECT_EQ(Digest::of(base::as_bytes("abc"), DigestAlgorithm::kSha512)->to_string(),
              "sha512:ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a"
              "2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f");
    Hasher hasher = Hasher::make().value();
    hasher.update(base::as_bytes("a"));
    hasher.update(base::as_bytes("bc"));
    EXPECT_EQ(hasher.finish().value(), Digest::of(base::as_bytes("abc")).value());
}

TEST(Digest, ParsesOnlyWellFormedText) {
    const Digest digest = Digest::parse(kDigest).value();
    EXPECT_EQ(digest.algorithm_name(), "sha256");
    EXPECT_EQ(digest.hex(), kHex);
    EXPECT_EQ(Digest::parse("sha512:" + std::string(128, '0'))->algorithm(), DigestAlgorithm::kSha512);
    for (const std::string& text :
         {std::string(), kHex, "sha256:" + kHex + "a", "sha256:" + std::string(64, 'g'),
          "sha256:../../" + kHex.substr(6), std::string("sha256:"), ":" + kHex})
        EXPECT_FALSE(Digest::parse(text).ok()) << text;
    EXPECT_EQ(Digest::parse("md5:d41d8cd98f00b204e9800998ecf8427e").error().code, ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace boxlite::image
