#include "net/placeholders.h"

#include <gtest/gtest.h>

namespace boxlite::net {
namespace {

SecretName token() {
    return {"TOKEN", "<BOXLITE_SECRET:TOKEN>", {"api.example.com", "*.example.org"}, false};
}

TEST(SecretName, IsForItsHosts) {
    for (const char* host : {"api.example.com", "a.example.org", "a.b.example.org"})
        EXPECT_TRUE(token().is_for(host)) << host;
    for (const char* host : {"example.com", "x.api.example.com", "example.org", "badexample.org", ""})
        EXPECT_FALSE(token().is_for(host)) << host;
}

TEST(SecretName, IsChecked) {
    SecretName good = token();
    good.hosts = {"API.Example.com."};
    ASSERT_TRUE(check_secret_name(good).ok());
    EXPECT_EQ(good.hosts[0], "api.example.com");
    for (const auto& change : std::vector<std::function<void(SecretName&)>>{
             [](SecretName& s) { s.name = ""; }, [](SecretName& s) { s.name = "A-B"; },
             [](SecretName& s) { s.hosts.clear(); }, [](SecretName& s) { s.hosts = {"*"}; },
             [](SecretName& s) { s.hosts = {"10.0.0.1"}; }, [](SecretName& s) { s.hosts = {"a.b:443"}; },
             [](SecretName& s) { s.placeholder = "short"; },
             [](SecretName& s) { s.placeholder = "with a blank"; },
             [](SecretName& s) { s.placeholder = "quote\"quote"; }}) {
        SecretName bad = token();
        change(bad);
        EXPECT_EQ(check_secret_name(bad).error().code, ErrorCode::kInvalidArgument);
    }
}

// The second: printf 'me:<BOXLITE_SECRET:TOKEN>' | base64
TEST(Placeholders, AreFoundInHeads) {
    const Placeholders names({token()});
    for (const char* head :
         {"GET / HTTP/1.1\r\nX: <BOXLITE_SECRET:TOKEN>\r\n\r\n",
          "GET / HTTP/1.1\r\nAuthorization: basic bWU6PEJPWExJVEVfU0VDUkVUOlRPS0VOPg==\r\n\r\n",
          "GET /%3CBOXLITE_SECRET%3ATOKEN%3e HTTP/1.1\r\n\r\n"})
        EXPECT_NE(names.find_in_head(head), nullptr) << head;
    EXPECT_EQ(
        names.find_in_head("GET / HTTP/1.1\r\nX: <BOXLITE_SECRET:OTHER>\r\nAuthorization: Basic x\r\n\r\n"),
        nullptr);
}

TEST(Seam, FindsAcrossBorders) {
    const std::string text = "some words <BOXLITE_SECRET:TOKEN> and more of them";
    const Placeholders names({token()});
    for (size_t piece = 1; piece < text.size(); ++piece) {
        Seam seam;
        int found = 0;
        for (size_t at = 0; at < text.size(); at += piece)
            found +=
                seam.add(base::as_bytes(text).subspan(at, std::min(piece, text.size() - at)), names.longest(),
                         [&](std::string_view part) { return names.find(part); }) != nullptr;
        EXPECT_GE(found, 1) << piece;
    }
    Seam seam;
    EXPECT_FALSE(seam.add(base::as_bytes("<BOXLITE_SECRET:TOKE"), names.longest(),
                          [&](auto part) { return names.find(part); }));
    EXPECT_FALSE(
        seam.add(base::as_bytes("x>"), names.longest(), [&](auto part) { return names.find(part); }));
}

TEST(SecretValue, IsChecked) {
    EXPECT_TRUE(check_secret_value("T", "abcd").ok());
    for (const std::string value : {"", "abc", "a\nbcd", "a\rbcd"})
        EXPECT_FALSE(check_secret_value("T", value).ok());
    EXPECT_FALSE(check_secret_value("T", std::string(kMaxSecret + 1, 'x')).ok());
    EXPECT_FALSE(check_secret_value("T", std::string("abc\0d", 5)).ok());
}

}  // namespace
}  // namespace boxlite::net
