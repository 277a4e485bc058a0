#include "runtime/proxy_settings.h"

#include <gtest/gtest.h>

#include <map>

namespace boxlite::runtime {
namespace {

using Variables = std::map<std::string, std::string>;

class ProxySettings : public testing::Test {
  protected:
    std::optional<v1::ProxyConfig> of(const Variables& variables) {
        notices_.clear();
        return proxies_of(
            [&](const std::string& name) {
                const auto found = variables.find(name);
                return found == variables.end() ? std::string() : found->second;
            },
            [this](const std::string& notice) { notices_.push_back(notice); });
    }
    std::vector<std::string> notices_;
};

TEST(ProxyUrl, PartsAndWhatStandsForThem) {
    const auto full = parse_proxy_url("http://us%40er:p%3Aw@proxy.example.com:3128/").value();
    EXPECT_EQ(full.host, "proxy.example.com");
    EXPECT_EQ(full.port, 3128);
    EXPECT_EQ(full.authorization, "Basic dXNAZXI6cDp3");  // us@er:p:w
    const auto bare = parse_proxy_url("proxy").value();
    EXPECT_EQ(bare.host, "proxy");
    EXPECT_EQ(bare.port, 80);
    EXPECT_EQ(bare.authorization, "");
    EXPECT_EQ(parse_proxy_url("http://[2001:db8::1]:8080").value().host, "2001:db8::1");
    EXPECT_EQ(parse_proxy_url("http://[2001:db8::1]").value().port, 80);
    EXPECT_EQ(parse_proxy_url("user@proxy:1").value().authorization, "Basic dXNlcjo=");
}

TEST(ProxyUrl, WhatIsNone) {
    EXPECT_EQ(parse_proxy_url("socks5://proxy:1080").error().code, ErrorCode::kUnsupported);
    EXPECT_EQ(parse_proxy_url("https://proxy").error().code, ErrorCode::kUnsupported);
    for (const char* text : {"", "http://", "http://user:hidden@:80", "proxy:x", "proxy:0", "proxy:65536"}) {
        const auto url = parse_proxy_url(text);
        ASSERT_FALSE(url.ok()) << text;
        EXPECT_EQ(url.error().code, ErrorCode::kInvalidArgument) << text;
        EXPECT_EQ(url.error().message.find("hidden"), std::string::npos);
    }
}

TEST_F(ProxySettings, LowerCaseGoesBeforeAndAllStandsInForTheOthers) {
    EXPECT_FALSE(of({}));
    EXPECT_FALSE(of({{"NO_PROXY", "example.com"}}));
    const auto mixed =
        of({{"http_proxy", "127.0.0.1:1"}, {"HTTP_PROXY", "127.0.0.1:2"}, {"ALL_PROXY", "127.0.0.1:3"}});
    EXPECT_EQ(mixed->plain().port(), 1u);
    EXPECT_EQ(mixed->plain().addresses(0), "127.0.0.1");
    EXPECT_EQ(mixed->others().port(), 3u);
    const auto one = of({{"HTTP_PROXY", "http://u:p@127.0.0.1:2"}});
    EXPECT_EQ(one->plain().authorization(), "Basic dTpw");
    EXPECT_FALSE(one->has_others());
}

TEST_F(ProxySettings, TheListOfExceptionsIsTakenApart) {
    const auto config =
        of({{"HTTPS_PROXY", "127.0.0.1:1"}, {"no_proxy", " a.example,.B.example, 10.0.0.0/8,,"}});
    EXPECT_EQ((std::vector<std::string>{config->direct().begin(), config->direct().end()}),
              (std::vector<std::string>{"a.example", ".b.example", "10.0.0.0/8"}));
}

TEST_F(ProxySettings, OneThatCannotBeUsedIsLeftOutAndTold) {
    EXPECT_FALSE(of({{"ALL_PROXY", "socks5://user:hidden@proxy:1080"}}));
    ASSERT_EQ(notices_.size(), 1u);
    EXPECT_NE(notices_[0].find("all_proxy"), std::string::npos);
    EXPECT_NE(notices_[0].find("socks5"), std::string::npos);
    EXPECT_EQ(notices_[0].find("hidden"), std::string::npos);
}

}  // namespace
}  // namespace boxlite::runtime
