#include "cli/listener.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/file.h"

namespace boxlite::cli {
namespace {

TEST(Listener, APortAloneIsOnLoopbackAndMayBeChosenByTheHost) {
    const auto listener = listen_on("0");
    ASSERT_TRUE(listener.ok()) << listener.error().message;
    EXPECT_TRUE(listener->shown.starts_with("127.0.0.1:"));
    EXPECT_FALSE(listener->shown.ends_with(":0"));
    const auto again = listen_on(listener->shown);
    ASSERT_FALSE(again.ok());
    EXPECT_NE(again.error().message.find("in use"), std::string::npos) << again.error().message;
    EXPECT_NE(again.error().message.find(listener->shown), std::string::npos);
}

TEST(Listener, AnIpv6AddressIsInBrackets) {
    const auto listener = listen_on("[::1]:0");
    ASSERT_TRUE(listener.ok()) << listener.error().message;
    EXPECT_TRUE(listener->shown.starts_with("[::1]:"));
}

TEST(Listener, AUnixSocketIsForItsUserAloneAndTakesNoOthersPlace) {
    const base::TempDir dir = base::TempDir::make().value();
    const std::string path = dir.path() + "/socket";
    const auto listener = listen_on("unix:" + path);
    ASSERT_TRUE(listener.ok()) << listener.error().message;
    EXPECT_EQ(listener->path, path);
    struct stat info;
    ASSERT_EQ(::stat(path.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600u);
    const auto again = listen_on("unix:" + path);
    ASSERT_FALSE(again.ok());
    EXPECT_EQ(again.error().code, ErrorCode::kAlreadyExists);
}

TEST(Listener, SaysWhatItNeeds) {
    for (const char* text : {"", "x", "65536", "1.2.3:80", "unix:relative", "host:80", ":80", "127.0.0.1:"}) {
        const auto listener = listen_on(text);
        ASSERT_FALSE(listener.ok()) << text;
        EXPECT_EQ(listener.error().code, ErrorCode::kInvalidArgument) << text;
    }
}

}  // namespace
}  // namespace boxlite::cli
