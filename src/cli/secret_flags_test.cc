#include "cli/secret_flags.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace boxlite::cli {
namespace {

TEST(SecretFlag, NamesHostsAndSource) {
    const Secret plain = parse_secret("TOKEN@api.example.com,*.example.org=a,b=c").value();
    EXPECT_EQ(plain.name, "TOKEN");
    EXPECT_EQ(plain.hosts, (std::vector<std::string>{"api.example.com", "*.example.org"}));
    EXPECT_EQ(plain.value, "a,b=c");
    const Secret from_env = parse_secret("T@a.example,env=VAR,query,placeholder=XXXXXXXX").value();
    EXPECT_EQ(from_env.env, "VAR");
    EXPECT_TRUE(from_env.in_query);
    EXPECT_EQ(from_env.placeholder, "XXXXXXXX");
    EXPECT_EQ(parse_secret("T@a.example")->env, "T");
    EXPECT_EQ(parse_secret("T@a.example,file=/x/y")->file, "/x/y");
    EXPECT_EQ(parse_secret("T@a.example,query=v=w")->value, "v=w");
    EXPECT_TRUE(parse_secret("T@a.example,query=v=w")->in_query);
}

TEST(SecretFlag, WhatIsNone) {
    for (const char* text :
         {"", "=x", "@a.example=x", "T", "T=x", "T@", "T@a.example=", "T@a.example,", "T@,a.example",
          "T@a.example,env=", "T@a.example,env=A,file=/x", "T@a.example,env=A,b.example=x"}) {
        const auto parsed = parse_secret(text);
        EXPECT_FALSE(parsed.ok()) << text;
    }
    // A value that was given wrongly is not shown.
    EXPECT_EQ(parse_secret("TOKEN=hunter2").error().message.find("hunter2"), std::string::npos);
}

TEST(SecretFlag, ValuesForABoxThatIsThere) {
    ::setenv("SECRET_FLAG_TEST", "from-env", 1);
    EXPECT_EQ(parse_secret_value("T=a,b@c")->value, "a,b@c");
    EXPECT_EQ(parse_secret_value("SECRET_FLAG_TEST")->value, "from-env");
    EXPECT_EQ(parse_secret_value("T,env=SECRET_FLAG_TEST")->value, "from-env");
    for (const char* text :
         {"T@a.example=x", "T,query=x", "T,env=SECRET_FLAG_TEST_NOT_SET", "T,file=/not/there"})
        EXPECT_FALSE(parse_secret_value(text).ok()) << text;
}

}  // namespace
}  // namespace boxlite::cli
