#include "runtime/networks.h"

#include <gtest/gtest.h>

#include <set>

#include "net/address.h"

namespace boxlite::runtime {
namespace {

TEST(Networks, Names) {
    for (const char* good : {"a", "backend", "7", "my-net_2"}) EXPECT_TRUE(check_network_name(good).ok());
    EXPECT_TRUE(check_network_name(std::string(63, 'a')).ok());
    for (const std::string& bad : {std::string(), std::string(64, 'a'), std::string("-a"), std::string("A"),
                                   std::string("a.b"), std::string("a/b"), std::string(".."),
                                   std::string("a b"), std::string("n\xc3\xa4"), std::string("a\0b", 3)})
        EXPECT_EQ(check_network_name(bad).error().code, ErrorCode::kInvalidArgument) << bad;
    for (const char* word : {"none", "default", "host", "bridge"})
        EXPECT_NE(check_network_name(word).error().message.find("another name"), std::string::npos) << word;
}

TEST(Networks, AddressesArePrivateAndOfTheNetworksOwnBlocks) {
    const auto first = choose_address("backend", {}).value();
    EXPECT_TRUE(net::Prefix::parse("10.128.0.0/9")->contains(*net::IpAddress::parse(first.v4))) << first.v4;
    EXPECT_TRUE(net::Prefix::parse("fd00::/8")->contains(*net::IpAddress::parse(first.v6))) << first.v6;
    EXPECT_FALSE(net::Prefix::parse("fd00::/64")->contains(*net::IpAddress::parse(first.v6)));
    EXPECT_EQ(choose_address("backend", {}).value().v4, first.v4) << "it follows from the name";
    const auto second = choose_address("backend", {first}).value();
    EXPECT_EQ(second.v4, first.v4.substr(0, first.v4.rfind('.')) + ".3");
    EXPECT_EQ(second.v6, first.v6.substr(0, first.v6.rfind(':')) + ":3");
    EXPECT_EQ(choose_address("backend", {second}).value().v4, first.v4) << "a place that became free";
}

TEST(Networks, NoTwoNetworksShareABlock) {
    const auto first = choose_address("one", {}).value();
    // Another network has what the name of this one leads to.
    const auto moved = choose_address("one", {{"two", first.v4, first.v6}}).value();
    EXPECT_NE(moved.v4.substr(0, moved.v4.rfind('.')), first.v4.substr(0, first.v4.rfind('.')));
    EXPECT_EQ(choose_address("one", {{"two", first.v4, first.v6}, moved}).value().v4,
              moved.v4.substr(0, moved.v4.rfind('.')) + ".3");
    std::vector<NetworkAddress> all;
    std::set<std::string> blocks;
    for (int i = 0; i < 500; ++i) {
        all.push_back(choose_address("net" + std::to_string(i), all).value());
        EXPECT_TRUE(blocks.insert(all.back().v4).second);
    }
}

TEST(Networks, AFullOneSaysSo) {
    std::vector<NetworkAddress> taken;
    for (int i = 0; i < 253; ++i) taken.push_back(choose_address("small", taken).value());
    const auto full = choose_address("small", taken);
    ASSERT_FALSE(full.ok());
    EXPECT_EQ(full.error().code, ErrorCode::kResourceExhausted);
    EXPECT_NE(full.error().message.find("'small' is full"), std::string::npos) << full.error().message;
    EXPECT_TRUE(choose_address("other", taken).ok());
}

}  // namespace
}  // namespace boxlite::runtime
