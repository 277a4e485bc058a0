#include "net/address.h"

#include <gtest/gtest.h>

namespace boxlite::net {
namespace {

std::string use_of(std::string_view text) {
    const auto address = IpAddress::parse(text);
    if (!address) return "no address";
    const char* use = special_use(*address);
    return use ? use : "public";
}

// By the IANA special-purpose address registries.
TEST(Address, SpecialUses) {
    const std::pair<const char*, const char*> table[] = {
        {"1.1.1.1", "public"},
        {"93.184.216.34", "public"},
        {"0.0.0.0", "unspecified"},
        {"0.1.2.3", "unspecified"},
        {"10.0.0.1", "private"},
        {"11.0.0.0", "public"},
        {"100.63.255.255", "public"},
        {"100.64.0.1", "shared"},
        {"100.127.255.255", "shared"},
        {"100.128.0.0", "public"},
        {"100.100.100.200", "metadata"},
        {"127.0.0.1", "loopback"},
        {"127.255.255.254", "loopback"},
        {"169.254.1.1", "link-local"},
        {"169.254.169.254", "metadata"},
        {"169.254.170.2", "metadata"},
        {"168.63.129.16", "metadata"},
        {"172.15.255.255", "public"},
        {"172.16.0.0", "private"},
        {"172.31.255.255", "private"},
        {"172.32.0.0", "public"},
        {"192.0.0.1", "reserved"},
        {"192.0.0.192", "metadata"},
        {"192.0.2.1", "documentation"},
        {"192.88.99.1", "reserved"},
        {"192.168.0.1", "private"},
        {"198.18.0.1", "benchmarking"},
        {"198.19.255.255", "benchmarking"},
        {"198.51.100.1", "documentation"},
        {"203.0.113.1", "documentation"},
        {"224.0.0.1", "multicast"},
        {"239.255.255.250", "multicast"},
        {"240.0.0.1", "reserved"},
        {"255.255.255.255", "broadcast"},
        {"2606:4700:4700::1111", "public"},
        {"::", "unspecified"},
        {"::1", "loopback"},
        {"::7f00:1", "IPv4-compatible"},
        {"::ffff:1.1.1.1", "IPv4-mapped"},
        {"::ffff:127.0.0.1", "IPv4-mapped"},
        {"::ffff:169.254.169.254", "IPv4-mapped"},
        {"64:ff9b::1.1.1.1", "public"},
        {"64:ff9b::10.0.0.1", "private"},
        {"64:ff9b::169.254.169.254", "metadata"},
        {"64:ff9b:1::1", "private"},
        {"100::1", "reserved"},
        {"2001::1", "reserved"},  // Teredo
        {"2001:db8::1", "documentation"},
        {"2001:4860:4860::8888", "public"},
        {"2002:101:101::1", "public"},  // 6to4 of 1.1.1.1
        {"2002:7f00:1::1", "loopback"},
        {"2002:a9fe:a9fe::", "metadata"},
        {"2002:c0a8:1::", "private"},
        {"3fff::1", "documentation"},
        {"fc00::1", "private"},
        {"fd00:ec2::254", "metadata"},
        {"fd12:3456::1", "private"},
        {"fe80::1", "link-local"},
        {"fec0::1", "private"},
        {"ff02::1", "multicast"},
        {"4000::1", "reserved"},
    };
    for (const auto& [address, use] : table) EXPECT_EQ(use_of(address), use) << address;
}

TEST(Address, OtherWaysToWriteOneAreNone) {
    for (const char* text :
         {"", "1.2.3", "1.2.3.4.5", "0177.0.0.1", "0x7f.0.0.1", "2130706433", "1.2.3.256", "1.2.3.4 ",
          " 1.2.3.4", "1.2.3.4%eth0", "fe80::1%eth0", "::1::", "[::1]", "1.2.3.-4", "::ffff:1.2.3"})
        EXPECT_FALSE(IpAddress::parse(text)) << text;
    EXPECT_FALSE(IpAddress::parse(std::string_view("1.2.3.4\0", 8)));
}

TEST(Address, Prefixes) {
    const auto ten = Prefix::parse("10.0.0.0/8");
    ASSERT_TRUE(ten);
    EXPECT_TRUE(ten->contains(*IpAddress::parse("10.255.0.1")));
    EXPECT_FALSE(ten->contains(*IpAddress::parse("11.0.0.0")));
    EXPECT_FALSE(ten->contains(*IpAddress::parse("::a00:1")));
    const auto odd = Prefix::parse("192.0.2.128/27");
    ASSERT_TRUE(odd);
    EXPECT_TRUE(odd->contains(*IpAddress::parse("192.0.2.159")));
    EXPECT_FALSE(odd->contains(*IpAddress::parse("192.0.2.160")));
    EXPECT_TRUE(Prefix::parse("0.0.0.0/0")->contains(*IpAddress::parse("255.1.2.3")));
    EXPECT_TRUE(Prefix::parse("2001:db8::/33")->contains(*IpAddress::parse("2001:db8:7fff::")));
    EXPECT_FALSE(Prefix::parse("2001:db8::/33")->contains(*IpAddress::parse("2001:db8:8000::")));
    for (const char* text :
         {"10.0.0.1/8", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/-1", "10.0.0.0/8x", "::/129", "10/8"})
        EXPECT_FALSE(Prefix::parse(text)) << text;
    EXPECT_TRUE(is_special(*Prefix::parse("10.1.0.0/16")));
    EXPECT_TRUE(is_special(*Prefix::parse("169.254.169.254")));
    EXPECT_FALSE(is_special(*Prefix::parse("0.0.0.0/0")));
    EXPECT_FALSE(is_special(*Prefix::parse("8.0.0.0/6")));
}

TEST(Address, TextAndSystemFormsAgree) {
    for (const char* text : {"192.0.2.1:80", "[2001:db8::1]:65535"}) {
        const std::string_view view(text);
        const size_t colon = view.rfind(':');
        std::string_view host = view.substr(0, colon);
        if (host.starts_with('[')) host = host.substr(1, host.size() - 2);
        const Endpoint endpoint{*IpAddress::parse(host),
                                static_cast<uint16_t>(std::stoi(std::string(view.substr(colon + 1))))};
        EXPECT_EQ(endpoint.to_string(), text);
        EXPECT_EQ(endpoint_of(SocketAddress(endpoint).get()), endpoint);
    }
}

}  // namespace
}  // namespace boxlite::net
