#include "cli/args.h"

#include <gtest/gtest.h>

namespace boxlite::cli {
namespace {

using Strings = std::vector<std::string>;

const std::vector<Flag> kFlags = {
    {'i', "interactive", "", ""}, {'t', "tty", "", ""},        {'e', "env", "NAME", "", true},
    {'w', "workdir", "PATH", ""}, {0, "detach-keys", "K", ""}, {'n', "tail", "N", ""},
};

Arguments parse(const Strings& args, Operands style = Operands::kLast) {
    auto parsed = parse_arguments(kFlags, style, args);
    EXPECT_TRUE(parsed.ok()) << parsed.error().message;
    return parsed.ok() ? *parsed : Arguments{};
}

std::string failure(const Strings& args) {
    auto parsed = parse_arguments(kFlags, Operands::kLast, args);
    if (parsed.ok()) return {};
    EXPECT_EQ(parsed.error().code, ErrorCode::kInvalidArgument);
    return parsed.error().message;
}

TEST(Arguments, ShortFlagsCombine) {
    const Arguments a = parse({"-itw", "/srv", "image", "-x"});
    EXPECT_TRUE(a.enabled("interactive"));
    EXPECT_TRUE(a.enabled("tty"));
    EXPECT_EQ(a.value("workdir"), "/srv");
    EXPECT_EQ(a.operands, (Strings{"image", "-x"}));
}

TEST(Arguments, ValuesInEverySpelling) {
    EXPECT_EQ(parse({"--env=A=1", "--env", "B=2", "-eC=3", "-e=D=4", "-e", "E=5", "-e", ""}).values("env"),
              (Strings{"A=1", "B=2", "C=3", "D=4", "E=5", ""}));
    EXPECT_EQ(parse({"--workdir=", "--workdir=/a", "-w/b"}).value("workdir"), "/b") << "the last one counts";
    EXPECT_EQ(parse({"-e", "-i"}).values("env"), Strings{"-i"}) << "a value may look like a flag";
}

TEST(Arguments, BooleansTakeValues) {
    EXPECT_FALSE(parse({"--tty=false"}).enabled("tty"));
    EXPECT_TRUE(parse({"--tty=true"}).enabled("tty"));
    EXPECT_FALSE(parse({"-t", "--tty=0"}).enabled("tty"));
    EXPECT_FALSE(parse({"-t=false"}).enabled("tty"));
    EXPECT_NE(failure({"--tty=maybe"}).find("maybe"), std::string::npos);
}

TEST(Arguments, TheFirstOperandEndsTheFlags) {
    EXPECT_EQ(parse({"-i", "img", "sh", "-c", "x", "--", "-t"}).operands,
              (Strings{"img", "sh", "-c", "x", "--", "-t"}));
    EXPECT_EQ(parse({"--", "-i"}).operands, Strings{"-i"});
    EXPECT_EQ(parse({"-", "-i"}).operands, (Strings{"-", "-i"})) << "a lone dash is an operand";
    const Arguments anywhere = parse({"a", "-i", "b", "--", "-t"}, Operands::kAnywhere);
    EXPECT_TRUE(anywhere.enabled("interactive"));
    EXPECT_EQ(anywhere.operands, (Strings{"a", "b", "-t"}));
}

TEST(Arguments, ErrorsNameTheFlagAndTheNearestOne) {
    EXPECT_EQ(failure({"--interactiv"}), "unknown flag: --interactiv (did you mean --interactive?)");
    EXPECT_EQ(failure({"--tyt=1"}), "unknown flag: --tyt (did you mean --tty?)");
    EXPECT_EQ(failure({"--frobnicate"}), "unknown flag: --frobnicate");
    EXPECT_EQ(failure({"-iz"}), "unknown flag: -z");
    EXPECT_NE(failure({"--env"}).find("--env NAME"), std::string::npos);
    EXPECT_NE(failure({"-ie"}).find("--env NAME"), std::string::npos);
    EXPECT_NE(failure({"--=x"}), "");
}

TEST(Arguments, Numbers) {
    EXPECT_EQ(*parse({"-n", "7"}).number("tail", 0, 0, 9), 7u);
    EXPECT_EQ(*parse({}).number("tail", 3, 0, 9), 3u);
    for (const char* bad : {"10", "-1", "x", "", "7 ", "0x1", "18446744073709551616"})
        EXPECT_FALSE(parse({"-n", bad}).number("tail", 0, 0, 9).ok()) << bad;
}

}  // namespace
}  // namespace boxlite::cli
