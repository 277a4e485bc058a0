#include "net/mac.h"

#include <gtest/gtest.h>

#include <set>

namespace boxlite::net {
namespace {

TEST(Mac, EachBoxHasOneOfItsOwnThatNoVendorGaveOut) {
    std::set<MacAddress> seen;
    for (int i = 0; i < 10'000; ++i) {
        const MacAddress mac = box_mac("box" + std::to_string(i));
        EXPECT_EQ(mac[0] & 3, 2);
        EXPECT_TRUE(seen.insert(mac).second) << i;
    }
    EXPECT_EQ(box_mac("abcdefgh1234"), box_mac("abcdefgh1234"));
}

TEST(Mac, OnlySixBytesOfOneStationAreAnAddress) {
    EXPECT_EQ(mac_from(std::string_view("\2\0\0\0\0\1", 6)), (MacAddress{2, 0, 0, 0, 0, 1}));
    EXPECT_FALSE(mac_from(std::string_view("\2\0\0\0\0", 5)));
    EXPECT_FALSE(mac_from(std::string_view("\3\0\0\0\0\1", 6)));
    EXPECT_FALSE(mac_from(std::string_view("\0\0\0\0\0\0", 6)));
    EXPECT_EQ(to_string(MacAddress{2, 0, 0x5e, 0x10, 0, 0xff}), "02:00:5e:10:00:ff");
}

// RFC 4291, appendix A: the universal/local bit is turned over, and ff:fe goes into the middle.
TEST(Mac, TheLinkLocalAddressFollowsFromIt) {
    EXPECT_EQ(link_local({0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde}).to_string(), "fe80::3656:78ff:fe9a:bcde");
    EXPECT_EQ(link_local({2, 0, 0xc0, 0xa8, 0x7f, 2}).to_string(), "fe80::c0ff:fea8:7f02");
}

}  // namespace
}  // namespace boxlite::net
