#include "net/pins.h"

#include <gtest/gtest.h>

namespace boxlite::net {
namespace {

IpAddress numbered(uint32_t number) {
    uint8_t bytes[4];
    base::store_be(bytes, number);
    return IpAddress(bytes);
}

TEST(Pins, AnAddressKeepsItsNames) {
    Pins pins;
    pins.add(numbered(1), "a.example");
    pins.add(numbered(1), "b.example");
    pins.add(numbered(1), "a.example");
    EXPECT_EQ(pins.names(numbered(1)), (std::vector<std::string>{"a.example", "b.example"}));
    EXPECT_TRUE(pins.names(numbered(2)).empty());
}

TEST(Pins, TheOldestOfVeryManyGo) {
    Pins pins;
    for (uint32_t i = 0; i <= Pins::kMaxAddresses; ++i) pins.add(numbered(i), "a.example");
    EXPECT_TRUE(pins.names(numbered(0)).empty());
    EXPECT_FALSE(pins.names(numbered(1)).empty());
    for (size_t i = 0; i <= Pins::kMaxNames; ++i) pins.add(numbered(5), std::to_string(i) + ".example");
    EXPECT_EQ(pins.names(numbered(5)).size(), Pins::kMaxNames);
    EXPECT_EQ(pins.names(numbered(5)).back(), std::to_string(Pins::kMaxNames) + ".example");
}

}  // namespace
}  // namespace boxlite::net
