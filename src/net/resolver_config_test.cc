#include "net/resolver_config.h"

#include <gtest/gtest.h>

namespace boxlite::net {
namespace {

TEST(ResolverConfig, AsTheManualSays) {
    const auto config = ResolverConfig::parse(
        "# comment\nnameserver 192.0.2.1 ; more\nnameserver 2001:db8::1\nnameserver nonsense\n"
        "nameserver 192.0.2.2\nnameserver 192.0.2.3\n"
        "domain first.example\nsearch a.example b.example\noptions ndots:2 timeout:3 attempts:99\n");
    ASSERT_EQ(config.servers.size(), 3u);
    EXPECT_EQ(config.servers[0].to_string(), "192.0.2.1:53");
    EXPECT_EQ(config.servers[1].to_string(), "[2001:db8::1]:53");
    EXPECT_EQ(config.search, (std::vector<std::string>{"a.example", "b.example"}));
    EXPECT_EQ(config.timeout.count(), 3000);
    EXPECT_EQ(config.attempts, 5u);
    const auto empty = ResolverConfig::parse("");
    ASSERT_EQ(empty.servers.size(), 1u);
    EXPECT_EQ(empty.servers[0].to_string(), "127.0.0.1:53");
    EXPECT_EQ(empty.timeout.count(), 5000);
    EXPECT_EQ(empty.attempts, 2u);
}

}  // namespace
}  // namespace boxlite::net
