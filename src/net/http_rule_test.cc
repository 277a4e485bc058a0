#include "net/http_rule.h"

#include <gtest/gtest.h>

namespace boxlite::net {
namespace {

TEST(HttpRule, Parses) {
    const HttpRuleText text = parse_http_rule("GET,HEAD https://api.example.com/v1/*").value();
    EXPECT_EQ(text.authority, "api.example.com:443");
    EXPECT_TRUE(text.rule.matches(true, "HEAD", "/v1/"));
    EXPECT_TRUE(text.rule.matches(true, "GET", "/v1/a/b"));
    EXPECT_FALSE(text.rule.matches(true, "GET", "/v1"));
    EXPECT_FALSE(text.rule.matches(true, "POST", "/v1/a"));
    EXPECT_FALSE(text.rule.matches(false, "GET", "/v1/a"));
    EXPECT_EQ(parse_http_rule("* http://[2001:db8::1]/x")->authority, "[2001:db8::1]:80");
    EXPECT_EQ(parse_http_rule("* http://[2001:db8::1]:8080")->authority, "[2001:db8::1]:8080");
    EXPECT_TRUE(parse_http_rule("* https://a.example:8443")->rule.matches(true, "BREW", "/any/thing"));
    EXPECT_TRUE(parse_http_rule("* https://a.example/*/x*z")->rule.matches(true, "GET", "/a/b/xyzz"));
    EXPECT_FALSE(parse_http_rule("* https://a.example/*/x*z")->rule.matches(true, "GET", "/a/b/xyzy"));
}

TEST(HttpRule, NoneAre) {
    for (const char* text :
         {"get https://a.example/", " https://a.example/", "GET, https://a.example", "GET ftp://a.example/",
          "GET a.example/", "GET https:///x", "GET https://a.example/x?y", "GET https://a.example/../x",
          "GET https://a.example/x y"})
        EXPECT_FALSE(parse_http_rule(text).ok()) << text;
}

TEST(HttpRule, PathsOfTargets) {
    const std::pair<const char*, const char*> cases[] = {
        {"/", "/"},         {"/a/b?c=/d#e", "/a/b"}, {"/%61%2Db", "/a-b"}, {"*", "*"}, {"http://h/x?y", "/x"},
        {"https://h", "/"}, {"//a//b", "//a//b"},    {"/...", "/..."},
    };
    for (const auto& [target, path] : cases) EXPECT_EQ(http_path(target), path) << target;
    for (const char* target : {"x", "/a/../b", "/..", "/a/./b", "/.", "/%2e%2e/", "/a%2fb", "/a%5cb", "/a\\b",
                               "/%", "/%zz", "/%00", "/a b", "/..;x/y", "/%252e"})
        EXPECT_EQ(http_path(target), std::nullopt) << target;
}

}  // namespace
}  // namespace boxlite::net
