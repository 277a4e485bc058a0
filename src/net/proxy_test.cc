#include "net/proxy.h"

#include <gtest/gtest.h>

namespace boxlite::net {
namespace {

ProxyServer server(const char* address, uint16_t port) {
    return {{{*IpAddress::parse(address), port}}, {}};
}

TEST(Proxies, PlainHttpAndTheRestHaveTheirOwn) {
    const Proxies both(server("192.0.2.1", 3128), server("192.0.2.2", 3129), {});
    EXPECT_EQ(both.find("example.com", 80)->addresses[0].port, 3128);
    EXPECT_EQ(both.find("example.com", 443)->addresses[0].port, 3129);
    EXPECT_EQ(both.find("198.51.100.7", 22)->addresses[0].port, 3129);
    const Proxies one(server("192.0.2.1", 3128), std::nullopt, {});
    EXPECT_EQ(one.find("example.com", 443), nullptr);
    EXPECT_TRUE(one.carries("example.com"));
    EXPECT_FALSE(Proxies().carries("example.com"));
}

// The cases of curl's manual for NO_PROXY, and Go's ports.
TEST(Proxies, WhatIsReachedWithout) {
    struct Case {
        const char* entry;
        const char* host;
        uint16_t port;
        bool direct;
    };
    for (const Case& c : {Case{"example.com", "example.com", 443, true},
                          {"example.com", "www.example.com", 443, true},
                          {"example.com", "notexample.com", 443, false},
                          {"example.com", "example.com.net", 443, false},
                          {".example.com", "www.example.com", 443, true},
                          {".example.com", "example.com", 443, true},
                          {"example.com:8443", "example.com", 8443, true},
                          {"example.com:8443", "example.com", 443, false},
                          {"192.0.2.0/24", "192.0.2.77", 80, true},
                          {"192.0.2.0/24", "192.0.3.77", 80, false},
                          {"192.0.2.7", "192.0.2.7", 80, true},
                          {"192.0.2.7:81", "192.0.2.7", 80, false},
                          {"0.2.7", "192.0.2.7", 80, false},
                          {"2001:db8::/32", "2001:db8::1", 443, true},
                          {"[2001:db8::1]:443", "2001:db8::1", 443, true},
                          {"[2001:db8::1]:443", "2001:db8::1", 444, false},
                          {"*", "example.com", 443, true},
                          {"", "example.com", 443, false},
                          {"other.org", "localhost", 8080, true},
                          {"other.org", "127.0.0.9", 8080, true},
                          {"other.org", "::1", 8080, true}}) {
        const Proxies proxies(server("192.0.2.1", 1), server("192.0.2.1", 1), {c.entry});
        EXPECT_EQ(proxies.find(c.host, c.port) == nullptr, c.direct)
            << c.entry << " " << c.host << " " << c.port;
    }
}

TEST(Proxies, KnowWhereTheyListen) {
    const Proxies proxies(server("192.0.2.1", 3128), server("192.0.2.2", 3129), {});
    EXPECT_TRUE(proxies.listens_at({*IpAddress::parse("192.0.2.2"), 3129}));
    EXPECT_FALSE(proxies.listens_at({*IpAddress::parse("192.0.2.2"), 3128}));
}

}  // namespace
}  // namespace boxlite::net
