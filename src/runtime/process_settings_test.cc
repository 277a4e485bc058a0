#include "runtime/process_settings.h"

#include <gtest/gtest.h>

#include "runtime/names.h"

namespace boxlite::runtime {
namespace {

using Strings = std::vector<std::string>;

struct ArgvCase {
    const char* what;
    Strings image_entrypoint;
    Strings image_cmd;
    std::optional<Strings> entrypoint;
    Strings cmd;
    Strings expected;
};

// The table of Docker's reference, "Understand how CMD and ENTRYPOINT interact" and `docker run
// --entrypoint`.
class ArgvTest : public ::testing::TestWithParam<ArgvCase> {};

TEST_P(ArgvTest, MergesAsDocker) {
    const ArgvCase& c = GetParam();
    image::ImageConfig image;
    image.entrypoint = c.image_entrypoint;
    image.cmd = c.image_cmd;
    BoxOptions options;
    options.job = true;
    options.entrypoint = c.entrypoint;
    options.cmd = c.cmd;
    BoxConfig config;
    const auto applied = apply_image(image, options, config);
    ASSERT_EQ(applied.ok(), !c.expected.empty());
    if (applied.ok()) {
        EXPECT_EQ(config.argv, c.expected);
    }
}

INSTANTIATE_TEST_SUITE_P(
    All, ArgvTest,
    ::testing::Values(ArgvCase{"cmd of the image", {}, {"bash"}, {}, {}, {"bash"}},
                      ArgvCase{"both of the image", {"nginx"}, {"-g", "x"}, {}, {}, {"nginx", "-g", "x"}},
                      ArgvCase{"cmd replaced", {"nginx"}, {"-g"}, {}, {"-v"}, {"nginx", "-v"}},
                      ArgvCase{"entrypoint replaced drops cmd", {"a"}, {"b"}, Strings{"sh"}, {}, {"sh"}},
                      ArgvCase{"both replaced", {"a"}, {"b"}, Strings{"sh"}, {"-c", "x"}, {"sh", "-c", "x"}},
                      ArgvCase{"entrypoint taken away", {"a"}, {"b"}, Strings{}, {"ls"}, {"ls"}},
                      ArgvCase{"nothing left", {"a"}, {"b"}, Strings{}, {}, {}},
                      ArgvCase{"nothing named", {}, {}, {}, {}, {}},
                      ArgvCase{"empty program", {}, {""}, {}, {}, {}}),
    [](const auto& info) {
        std::string name = info.param.what;
        for (char& c : name)
            if (c == ' ') c = '_';
        return name;
    });

TEST(ApplyImage, ABoxWithoutACommandHasNoMainProcess) {
    image::ImageConfig image;
    image.cmd = {"bash"};
    BoxConfig config;
    ASSERT_TRUE(apply_image(image, {}, config).ok());
    EXPECT_FALSE(config.is_job());
}

TEST(ApplyImage, VariablesOfTheCallerWin) {
    image::ImageConfig image;
    image.env = {"PATH=/image", "LANG=C", "EMPTY=", "broken"};
    BoxOptions options;
    options.env = {{"LANG", "C.UTF-8"}, {"NEW", "a=b"}, {"NEW", "c"}};
    BoxConfig config;
    ASSERT_TRUE(apply_image(image, options, config).ok());
    EXPECT_EQ(config.env, (Strings{"PATH=/image", "LANG=C.UTF-8", "EMPTY=", "NEW=c"}));
}

TEST(ApplyImage, PathIsNeverMissing) {
    BoxConfig config;
    ASSERT_TRUE(apply_image({}, {}, config).ok());
    EXPECT_EQ(config.env, Strings{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"});
}

TEST(ApplyImage, BadVariablesAreRefused) {
    for (const std::string& name : {std::string(), std::string("A=B"), std::string("A\0B", 3)}) {
        BoxOptions options;
        options.env = {{name, "x"}};
        BoxConfig config;
        EXPECT_EQ(apply_image({}, options, config).error().code, ErrorCode::kInvalidArgument) << name;
    }
}

TEST(ApplyImage, WorkingDirectoryAndUser) {
    image::ImageConfig image;
    image.working_dir = "/srv";
    image.user = "app:www";
    BoxConfig config;
    ASSERT_TRUE(apply_image(image, {}, config).ok());
    EXPECT_EQ(config.working_dir, "/srv");
    EXPECT_EQ(config.user, "app:www");
    BoxOptions options;
    options.working_dir = "sub";
    options.user = "0";
    ASSERT_TRUE(apply_image(image, options, config).ok());
    EXPECT_EQ(config.working_dir, "/srv/sub");
    EXPECT_EQ(config.user, "0");
    ASSERT_TRUE(apply_image({}, options, config).ok());
    EXPECT_EQ(config.working_dir, "/sub");
}

TEST(ParseSignal, AcceptsNamesAndNumbers) {
    EXPECT_EQ(*parse_signal("SIGTERM"), 15);
    EXPECT_EQ(*parse_signal("int"), 2);
    EXPECT_EQ(*parse_signal("9"), 9);
    EXPECT_EQ(*parse_signal("SIGRTMIN+3"), 37);  // systemd's; signal(7): glibc's SIGRTMIN is 34
    EXPECT_EQ(*parse_signal("RTMAX-1"), 63);
    EXPECT_EQ(*parse_signal("SIGRTMAX"), 64);
    for (const char* bad :
         {"", "0", "65", "-1", "SIG", "SIGFOO", "9x", "RTMIN-1", "RTMIN+31", "RTMAX+1", "RTMINx"})
        EXPECT_FALSE(parse_signal(bad).ok()) << bad;
}

TEST(NormalizeCapabilities, AcceptsDockersSpellings) {
    EXPECT_EQ(*normalize_capabilities({"cap_net_admin", "SYS_PTRACE", "all"}),
              (Strings{"NET_ADMIN", "SYS_PTRACE", "ALL"}));
    EXPECT_EQ(normalize_capabilities({"NET_ADMINS"}).error().code, ErrorCode::kInvalidArgument);
}

TEST(CheckName, FollowsTheRule) {
    for (const std::string& good :
         {std::string("a"), std::string("0"), std::string("a.b_c-D"), std::string(128, 'x')})
        EXPECT_TRUE(check_name(good).ok()) << good;
    for (const std::string& bad :
         {std::string(), std::string("-a"), std::string(".a"), std::string("a b"), std::string("a/b"),
          std::string("ä"), std::string(129, 'x'), std::string("a\0", 2), std::string("a\n")})
        EXPECT_EQ(check_name(bad).error().code, ErrorCode::kInvalidArgument) << bad;
    for (int attempt = 0; attempt < 3; ++attempt) EXPECT_TRUE(check_name(make_name(attempt)).ok());
}

}  // namespace
}  // namespace boxlite::runtime
