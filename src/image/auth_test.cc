#include "image/auth.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/base64.h"
#include "base/file.h"
#include "image/credentials.h"

namespace boxlite::image {
namespace {

TEST(Challenges, FollowRfc9110) {
    // The first is RFC 9110's own example of two challenges in one field.
    auto list =
        parse_challenges(R"(Basic realm="simple", Newauth realm="apps", type=1, title="Login to \"apps\"")");
    ASSERT_EQ(list.size(), 2u);
    EXPECT_EQ(list[0].scheme, "basic");
    EXPECT_EQ(list[0].parameters.at("realm"), "simple");
    EXPECT_EQ(list[1].scheme, "newauth");
    EXPECT_EQ(list[1].parameters.at("title"), "Login to \"apps\"");

    list = parse_challenges(
        R"(BEARER realm="https://auth.docker.io/token",service="registry.docker.io",scope="repository:a/b:pull,push")");
    ASSERT_EQ(list.size(), 1u);
    EXPECT_EQ(list[0].scheme, "bearer");
    EXPECT_EQ(list[0].parameters.at("scope"), "repository:a/b:pull,push");

    EXPECT_EQ(parse_challenges("Negotiate, Basic realm=x").size(), 2u);
    EXPECT_TRUE(parse_challenges("").empty());
    EXPECT_TRUE(parse_challenges("=\"x\"").empty());
    EXPECT_EQ(parse_challenges(R"(Bearer realm="never closed)").at(0).parameters.size(), 0u);
}

// RFC 4648, section 10.
TEST(Base64, MatchesTheStandard) {
    const std::pair<const char*, const char*> vectors[] = {{"", ""},
                                                           {"f", "Zg=="},
                                                           {"fo", "Zm8="},
                                                           {"foo", "Zm9v"},
                                                           {"foob", "Zm9vYg=="},
                                                           {"fooba", "Zm9vYmE="},
                                                           {"foobar", "Zm9vYmFy"}};
    for (const auto& [plain, encoded] : vectors) {
        EXPECT_EQ(base::base64_encode(plain), encoded);
        EXPECT_EQ(base::base64_decode(encoded), plain);
    }
    EXPECT_EQ(base::base64_decode("Zg"), "f");
    for (const char* wrong : {"Z", "Zg=x", "Z g=", "Zm9v\n"})
        EXPECT_FALSE(base::base64_decode(wrong).has_value()) << wrong;
}

class DockerConfig : public ::testing::Test {
  protected:
    base::TempDir dir_ = base::TempDir::make().value();
    void write(const std::string& name, std::string_view content, mode_t mode = 0600) {
        ASSERT_TRUE(
            base::write_file_atomically(dir_.path() + "/" + name, base::as_bytes(content), mode).ok());
    }
    Result<std::optional<Credentials>> find(const std::string& registry) {
        return find_docker_credentials(dir_.path(), registry);
    }
};

TEST_F(DockerConfig, IsOptional) {
    EXPECT_FALSE(find("docker.io")->has_value());
    write("config.json", "{}");
    EXPECT_FALSE(find("docker.io")->has_value());
}

TEST_F(DockerConfig, ReadsAuths) {
    write("config.json", R"({"auths":{
        "https://index.docker.io/v1/": {"auth": "dXNlcjpwYTpzcw=="},
        "localhost:5000": {"username": "u", "password": "p"},
        "https://old.example.org/v2/": {"auth": "YTpi", "identitytoken": "idt"},
        "empty.example.org": {}, "broken.example.org": {"auth": "!"}, "nocolon.example.org": {"auth": "YWJj"}}})");
    EXPECT_EQ((*find("docker.io"))->username, "user");
    EXPECT_EQ((*find("docker.io"))->password, "pa:ss");
    EXPECT_EQ((*find("localhost:5000"))->password, "p");
    EXPECT_EQ((*find("old.example.org"))->identity_token, "idt");
    EXPECT_FALSE(find("empty.example.org")->has_value());
    EXPECT_FALSE(find("localhost")->has_value());
    EXPECT_EQ(find("broken.example.org").error().code, ErrorCode::kConfig);
    EXPECT_EQ(find("nocolon.example.org").error().code, ErrorCode::kConfig);
}

TEST_F(DockerConfig, RefusesABrokenFile) {
    write("config.json", "{");
    EXPECT_EQ(find("docker.io").error().code, ErrorCode::kConfig);
    EXPECT_NE(find("docker.io").error().message.find(dir_.path()), std::string::npos);
}

class CredentialHelpers : public DockerConfig {
  protected:
    void SetUp() override {
        old_path_ = ::getenv("PATH");
        ::setenv("PATH", (dir_.path() + ":" + old_path_).c_str(), 1);
        // Echoes the server that it is asked about as the user's name.
        write("docker-credential-echo",
              "#!/bin/sh\n[ \"$1\" = get ] || exit 9\nread -r s\n"
              "printf '{\"ServerURL\":\"x\",\"Username\":\"%s\",\"Secret\":\"pw\"}' \"$s\"\n",
              0700);
        write("docker-credential-token",
              "#!/bin/sh\nprintf '{\"Username\":\"<token>\",\"Secret\":\"idt\"}'\n", 0700);
        write("docker-credential-none",
              "#!/bin/sh\necho 'credentials not found in native keychain'\nexit 1\n", 0700);
        write("docker-credential-bad", "#!/bin/sh\necho 'keychain is locked'\nexit 1\n", 0700);
    }
    void TearDown() override { ::setenv("PATH", old_path_.c_str(), 1); }
    std::string old_path_;
};

TEST_F(CredentialHelpers, AreAskedForTheirRegistry) {
    write("config.json", R"({"credHelpers":{"ghcr.io":"echo","id.example.org":"token","no.example.org":"none",
        "bad.example.org":"bad","gone.example.org":"not-installed","evil.example.org":"../../bin/sh"},
        "auths":{"ghcr.io":{"auth":"YTpi"},"no.example.org":{"auth":"YTpi"},"plain.example.org":{"auth":"YTpi"}}})");
    EXPECT_EQ((*find("ghcr.io"))->username, "ghcr.io");
    EXPECT_EQ((*find("ghcr.io"))->password, "pw");
    EXPECT_EQ((*find("id.example.org"))->identity_token, "idt");
    EXPECT_FALSE(find("no.example.org")->has_value());
    EXPECT_EQ((*find("plain.example.org"))->username, "a");
    EXPECT_NE(find("bad.example.org").error().message.find("keychain is locked"), std::string::npos);
    EXPECT_EQ(find("gone.example.org").error().code, ErrorCode::kConfig);
    EXPECT_EQ(find("evil.example.org").error().code, ErrorCode::kConfig);
}

TEST_F(CredentialHelpers, StoreServesEveryRegistryAndFallsBackToAuths) {
    write("config.json", R"({"credsStore":"echo"})");
    EXPECT_EQ((*find("docker.io"))->username, "https://index.docker.io/v1/");
    EXPECT_EQ((*find("localhost:5000"))->username, "localhost:5000");
    write("config.json", R"({"credsStore":"none","auths":{"localhost:5000":{"auth":"YTpi"}}})");
    EXPECT_EQ((*find("localhost:5000"))->username, "a");
}

}  // namespace
}  // namespace boxlite::image
