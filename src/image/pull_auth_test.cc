// Tokens, logins, and where credentials must not go.
#include "base/base64.h"
#include "image/credentials.h"
#include "image/pull_fixture.h"

namespace boxlite::image {
namespace {

using testing::PullTest;
using testing::Reply;
using testing::Request;
using testing::serve_image;
using testing::TestServer;

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
    wanted_login_ = "Basic " + base::base64_encode("me:pw");
    EXPECT_EQ(pull_from(server_).error().code, ErrorCode::kImage);
    write_docker_config(
        fmt::format(R"({{"auths":{{"{}":{{"auth":"{}"}}}}}})", server_.host(), base::base64_encode("me:pw")));
    const auto pulled = pull_from(server_);
    ASSERT_TRUE(pulled.ok()) << pulled.error().message;
    EXPECT_NE(token_requests_.back().target.find("&account=me"), std::string::npos);
    write_docker_config(
        fmt::format(R"({{"auths":{{"{}":{{"auth":"{}"}}}}}})", server_.host(), base::base64_encode("me:no")));
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
        fmt::format(R"({{"auths":{{"{}":{{"auth":"{}"}}}}}})", server_.host(), base::base64_encode("me:pw")));
    registry(server_.host()).auth = AuthAnonymous{};
    ASSERT_TRUE(pull_from(server_).ok());
    EXPECT_FALSE(token_requests_[0].headers.contains("authorization"));
}

}  // namespace
}  // namespace boxlite::image
