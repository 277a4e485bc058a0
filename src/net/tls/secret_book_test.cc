#include "net/tls/secret_book.h"

#include <gtest/gtest.h>

#include "net/tls/testing.h"

namespace boxlite::net::tls {
namespace {

using namespace testing;  // NOLINT: the setting that all of it is about

std::string field(SecretBook& book, std::string value, const char* host = kHost) {
    const std::string why = book.fill_field(host, value);
    return why.empty() ? value : "!" + why;
}

std::string target(SecretBook& book, std::string value, const char* host = kHost) {
    const std::string why = book.fill_target(host, value);
    return why.empty() ? value : "!" + why;
}

TEST(SecretBook, FillsFieldsForItsHosts) {
    Setting setting;
    EXPECT_EQ(field(setting.book, "Bearer <BOXLITE_SECRET:TOKEN>"), "Bearer s3cret-value");
    EXPECT_EQ(field(setting.book, "a <BOXLITE_SECRET:TOKEN>,<BOXLITE_SECRET:TOKEN>"),
              "a s3cret-value,s3cret-value");
    EXPECT_EQ(field(setting.book, "nothing"), "nothing");
    EXPECT_EQ(field(setting.book, "<BOXLITE_SECRET:OTHER>"),
              "!secret OTHER is for other.example.org, not for api.example.com");
    EXPECT_EQ(field(setting.book, "<BOXLITE_SECRET:QUERY>", "example.com").substr(0, 1), "!");
    EXPECT_EQ(field(setting.book, "<BOXLITE_SECRET:QUERY>", "x.example.com"), "a&b c");
}

// printf 'me:<BOXLITE_SECRET:TOKEN>' | base64, and of what it has to become.
TEST(SecretBook, FillsBasicCredentials) {
    Setting setting;
    EXPECT_EQ(field(setting.book, "basic bWU6PEJPWExJVEVfU0VDUkVUOlRPS0VOPg=="),
              "Basic bWU6czNjcmV0LXZhbHVl");
    std::string reflected = "you sent bWU6czNjcmV0LXZhbHVl";
    EXPECT_TRUE(replace_all(setting.book.scrubs(), reflected));
    EXPECT_EQ(reflected, "you sent bWU6PEJPWExJVEVfU0VDUkVUOlRPS0VOPg==");
    EXPECT_EQ(field(setting.book, "Basic bWU6cHc="), "Basic bWU6cHc=");
    EXPECT_EQ(field(setting.book, "Basic bWU6PEJPWExJVEVfU0VDUkVUOk9USEVSPg=="),
              "!secret OTHER is for other.example.org, not for api.example.com");
}

TEST(SecretBook, FillsQueriesOnlyWhereAsked) {
    Setting setting;
    EXPECT_EQ(target(setting.book, "/x?key=<BOXLITE_SECRET:QUERY>&y=1"), "/x?key=a%26b%20c&y=1");
    EXPECT_EQ(target(setting.book, "/x?key=%3CBOXLITE_SECRET%3aQUERY%3e#"), "/x?key=a%26b%20c%23");
    EXPECT_EQ(target(setting.book, "/x?a=b%20c&&d"), "/x?a=b%20c&&d");
    for (const char* refused : {"/x?key=<BOXLITE_SECRET:TOKEN>", "/x?key=%3CBOXLITE_SECRET%3ATOKEN%3E",
                                "/<BOXLITE_SECRET:QUERY>", "/%3CBOXLITE_SECRET:QUERY%3E?x"})
        EXPECT_EQ(target(setting.book, refused).substr(0, 1), "!") << refused;
    EXPECT_EQ(target(setting.book, "/x?key=<BOXLITE_SECRET:QUERY>", "example.com").substr(0, 1), "!");
}

TEST(SecretBook, WithoutAValueNothingGoesOut) {
    SecretBook book({{"TOKEN", kPlaceholder, {kHost}, false}});
    EXPECT_NE(field(book, kPlaceholder).find("has no value"), std::string::npos);
    EXPECT_TRUE(book.scrubs().empty());
}

TEST(SecretBook, AnotherValueTakesThePlaceOfTheOne) {
    Setting setting;
    ASSERT_TRUE(setting.book.set({{"TOKEN", "next-value"}}).ok());
    EXPECT_EQ(field(setting.book, kPlaceholder), "next-value");
    for (const char* value : {"next-value", kValue}) {
        std::string text = value;
        EXPECT_TRUE(replace_all(setting.book.scrubs(), text));
        EXPECT_EQ(text, kPlaceholder);
    }
    EXPECT_EQ(setting.book.set({{"TOKEN", "third"}, {"NONE", "xxxx"}}).error().code, ErrorCode::kNotFound);
    for (const char* value : {"", "abc", "line\nend", "carriage\rreturn"})
        EXPECT_EQ(setting.book.set({{"TOKEN", value}}).error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(field(setting.book, kPlaceholder), "next-value");
}

TEST(SecretBook, EncodedFormsAreTakenOut) {
    Setting setting;
    std::string text = R"({"q":"a%26b%20c","h":"a&amp;b c","x":"a&b c"})";
    EXPECT_TRUE(replace_all(setting.book.scrubs(), text));
    EXPECT_EQ(text,
              R"({"q":"<BOXLITE_SECRET:QUERY>","h":"<BOXLITE_SECRET:QUERY>","x":"<BOXLITE_SECRET:QUERY>"})");
}

}  // namespace
}  // namespace boxlite::net::tls
