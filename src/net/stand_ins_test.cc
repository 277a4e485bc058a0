#include "net/stand_ins.h"

#include <gtest/gtest.h>

namespace boxlite::net {
namespace {

TEST(StandIns, ANameKeepsItsAddress) {
    StandIns names;
    EXPECT_FALSE(names.find("a.example"));
    const auto a = names.add("a.example"), b = names.add("b.example");
    EXPECT_EQ(a->to_string(), "198.18.0.1");
    EXPECT_EQ(b->to_string(), "198.18.0.2");
    EXPECT_EQ(names.add("a.example"), a);
    EXPECT_EQ(names.find("b.example"), b);
    EXPECT_EQ(*names.name_of(*b), "b.example");
    EXPECT_EQ(names.name_of(*IpAddress::parse("198.18.0.3")), nullptr);
    EXPECT_EQ(names.name_of(*IpAddress::parse("198.18.0.0")), nullptr);
    EXPECT_EQ(names.name_of(*IpAddress::parse("192.0.2.1")), nullptr);
}

TEST(StandIns, ThereAreOnlySoMany) {
    StandIns names;
    for (size_t i = 0; i < StandIns::kMaxNames; ++i) ASSERT_TRUE(names.add(std::to_string(i)));
    EXPECT_FALSE(names.add("one more"));
    EXPECT_TRUE(names.add("7"));
    EXPECT_TRUE(StandIns::covers(*names.find(std::to_string(StandIns::kMaxNames - 1))));
}

}  // namespace
}  // namespace boxlite::net
