#include <gtest/gtest.h>

#include "agent/capability.h"
#include "agent/program.h"
#include "agent/user.h"

namespace boxlite::agent {
namespace {

constexpr std::string_view kPasswd =
    "# comment:x:5:5\n"
    "root:x:0:0:root:/root:/bin/sh\n"
    "broken line\n"
    "odd:x:minus:1::\n"
    "1000:x:77:78::/:/bin/false\n"
    "alice:x:1000:1001:Alice:/home/alice:/bin/sh\n"
    "nogroup:x:5\n";
constexpr std::string_view kGroup =
    "root:x:0:\n"
    "staff:x:50:alice,root\n"
    "50:x:51:\n"
    "users:x:100:bob, alice\n"
    "twice:x:50:alice\n"
    "last:x:60:bob,alice";

User resolve(std::string_view spec) {
    return resolve_user(spec, kPasswd, kGroup).value();
}
using Ids = std::vector<gid_t>;

TEST(User, NamesNumbersAndGroups) {
    EXPECT_EQ(resolve("").uid, 0u);
    EXPECT_EQ(resolve("").groups, (Ids{0, 50}));
    EXPECT_EQ(resolve("alice").uid, 1000u);
    EXPECT_EQ(resolve("alice").gid, 1001u);
    EXPECT_EQ(resolve("alice").groups, (Ids{1001, 50, 60}));
    EXPECT_EQ(resolve("alice:staff").gid, 50u);
    EXPECT_EQ(resolve("alice:staff").groups, (Ids{50}));
    EXPECT_EQ(resolve("alice:7").gid, 7u);
    EXPECT_EQ(resolve("4000").uid, 4000u);
    EXPECT_EQ(resolve("4000").gid, 0u);
    EXPECT_EQ(resolve("4000:4001").gid, 4001u);
    EXPECT_EQ(resolve("nogroup").gid, 0u);
    EXPECT_EQ(resolve(":staff").gid, 50u);
    EXPECT_EQ(resolve("alice:").groups, (Ids{1001, 50, 60}));
}

TEST(User, ANameWinsOverANumber) {
    EXPECT_EQ(resolve("1000").uid, 77u);
    EXPECT_EQ(resolve("root:50").gid, 51u);
}

TEST(User, WhatIsNotThere) {
    for (const char* spec :
         {"bob", "alice:nosuch", "-1", "4294967295", "2147483648", "0x0", "root:-1", "comment", "odd", " "})
        EXPECT_EQ(resolve_user(spec, kPasswd, kGroup).error().code, ErrorCode::kInvalidArgument) << spec;
    EXPECT_EQ(resolve_user("", "", "").value().groups, (Ids{0}));
    EXPECT_EQ(resolve_user("12", "", "").value().uid, 12u);
    EXPECT_FALSE(resolve_user("root", "", "").ok());
}

TEST(Capability, DockersDefaultAndItsChanges) {
    EXPECT_EQ(kDefaultCapabilities, 0xa80425fbu);
    const auto set = [](const std::vector<std::string>& add, const std::vector<std::string>& drop) {
        return capability_set(kDefaultCapabilities, add, drop).value();
    };
    EXPECT_EQ(set({}, {}), 0xa80425fbu);
    EXPECT_EQ(set({"SYS_ADMIN"}, {}), 0xa80425fbu | 1u << 21);
    EXPECT_EQ(set({"cap_sys_admin"}, {"CAP_CHOWN"}), 0xa80425fau | 1u << 21);
    EXPECT_EQ(set({}, {"all"}), 0u);
    EXPECT_EQ(set({"NET_ADMIN"}, {"ALL"}), 1u << 12);
    EXPECT_EQ(set({"ALL"}, {"CHOWN"}), ~uint64_t{1});
    EXPECT_EQ(set({"CHECKPOINT_RESTORE"}, {"ALL"}), uint64_t{1} << 40);
    for (const char* name : {"", "CAP_", "NOPE", "SYS_ADMIN ", "CAP_CAP_CHOWN"})
        EXPECT_FALSE(capability_set(0, {name}, {}).ok()) << name;
}

using Strings = std::vector<std::string>;

TEST(Program, CandidatesFollowThePath) {
    EXPECT_EQ(program_candidates("sh", {"PATH=/a:/b", "X=PATH=/c"}), (Strings{"/a/sh", "/b/sh"}));
    EXPECT_EQ(program_candidates("sh", {"PATH=:/b:"}), (Strings{"./sh", "/b/sh", "./sh"}));
    EXPECT_EQ(program_candidates("./sh", {"PATH=/a"}), (Strings{"./sh"}));
    EXPECT_EQ(program_candidates("/bin/sh", {}), (Strings{"/bin/sh"}));
    EXPECT_EQ(program_candidates("sh", {}).front(), "/usr/local/sbin/sh");
    EXPECT_EQ(program_candidates("sh", {}).back(), "/bin/sh");
    // The later of two wins, as in a shell.
    EXPECT_EQ(program_candidates("sh", {"PATH=/a", "PATH=/b"}), (Strings{"/b/sh"}));
}

}  // namespace
}  // namespace boxlite::agent
