#include "net/policy.h"

#include <gtest/gtest.h>

namespace boxlite::net {
namespace {

using Rules = std::vector<std::string>;

Policy policy(const std::optional<Rules>& allow, const Rules& deny = {}) {
    auto parsed = Policy::parse({allow, deny});
    EXPECT_TRUE(parsed.ok()) << parsed.error().message;
    return std::move(parsed).value();
}

bool may(const Policy& policy, const char* address, uint16_t port, const Rules& names = {},
         Protocol protocol = Protocol::kTcp) {
    return policy.connect(protocol, {*IpAddress::parse(address), port}, names).allowed;
}

constexpr const char* kSpecial[] = {
    "127.0.0.1", "10.1.2.3",      "192.168.1.1",   "172.20.0.1",       "169.254.169.254", "100.64.1.1",
    "224.0.0.1", "0.0.0.0",       "::1",           "fe80::1",          "fc00::1",         "ff02::1",
    "::",        "2002:7f00:1::", "fd00:ec2::254", "::ffff:127.0.0.1", "::ffff:8.8.8.8",  "64:ff9b::10.0.0.1",
};

TEST(Policy, WithoutAListThePublicInternetIsOpen) {
    const Policy open = policy(std::nullopt);
    EXPECT_TRUE(may(open, "8.8.8.8", 443));
    EXPECT_TRUE(may(open, "8.8.8.8", 53, {}, Protocol::kUdp));
    EXPECT_TRUE(may(open, "8.8.8.8", 0, {}, Protocol::kIcmp));
    EXPECT_TRUE(may(open, "2606:4700::1", 443));
    EXPECT_TRUE(may(open, "64:ff9b::8.8.8.8", 443));
    for (const char* address : kSpecial) {
        EXPECT_FALSE(may(open, address, 80)) << address;
        EXPECT_FALSE(may(open, address, 80, {"public.example"}, Protocol::kUdp)) << address;
    }
    EXPECT_FALSE(open.connect_host(Protocol::kTcp, 80).allowed);
    EXPECT_TRUE(open.resolve("anything.example").allowed);
    EXPECT_FALSE(open.goes_by_names());
}

TEST(Policy, AnEmptyListIsNothing) {
    for (const Rules& list : {Rules{}, Rules{""}}) {
        const Policy none = policy(list);
        EXPECT_FALSE(may(none, "8.8.8.8", 443));
        EXPECT_FALSE(may(none, "8.8.8.8", 443, {"a.example"}));
        EXPECT_FALSE(none.resolve("a.example").allowed);
        EXPECT_FALSE(none.connect_host(Protocol::kTcp, 80).allowed);
    }
}

TEST(Policy, Names) {
    const Policy named = policy(Rules{"Example.COM", "*.sub.example.org:443", "dns.example:53/udp"});
    EXPECT_TRUE(named.goes_by_names());
    EXPECT_TRUE(may(named, "93.184.216.34", 1234, {"example.com"}));
    EXPECT_FALSE(may(named, "93.184.216.34", 1234));
    EXPECT_FALSE(may(named, "93.184.216.34", 1234, {"www.example.com"}));
    EXPECT_FALSE(may(named, "93.184.216.34", 1234, {"notexample.com"}));
    EXPECT_TRUE(may(named, "93.184.216.34", 443, {"a.sub.example.org"}));
    EXPECT_TRUE(may(named, "93.184.216.34", 443, {"other.test", "a.b.sub.example.org"}));
    EXPECT_FALSE(may(named, "93.184.216.34", 80, {"a.sub.example.org"}));
    EXPECT_FALSE(may(named, "93.184.216.34", 443, {"sub.example.org"}));
    EXPECT_FALSE(may(named, "93.184.216.34", 443, {"evilsub.example.org"}));
    // TCP unless it says so.
    EXPECT_FALSE(may(named, "93.184.216.34", 443, {"example.com"}, Protocol::kUdp));
    EXPECT_TRUE(may(named, "9.9.9.9", 53, {"dns.example"}, Protocol::kUdp));
    EXPECT_FALSE(may(named, "9.9.9.9", 53, {"dns.example"}));
    EXPECT_TRUE(named.resolve("example.com").allowed);
    EXPECT_TRUE(named.resolve("x.sub.example.org").allowed);
    EXPECT_FALSE(named.resolve("sub.example.org").allowed);
    EXPECT_FALSE(named.resolve("secret-data.attacker.example").allowed);
    const Verdict verdict =
        named.connect(Protocol::kTcp, {*IpAddress::parse("93.184.216.34"), 80}, {"example.com"});
    EXPECT_EQ(verdict.rule, "--allow-net Example.COM");
    EXPECT_EQ(verdict.name, "example.com");
    EXPECT_TRUE(verdict.by_name);
}

// A name that an attacker controls must not open what is closed.
TEST(Policy, NoNameOpensASpecialAddress) {
    for (const Rules& list :
         {Rules{"a.example"}, Rules{"*"}, Rules{"0.0.0.0/0", "::/0"}, Rules{"*.example"}}) {
        const Policy listed = policy(list);
        for (const char* address : kSpecial) {
            EXPECT_FALSE(may(listed, address, 80, {"a.example"})) << address << " " << list[0];
            EXPECT_FALSE(listed.answer(*IpAddress::parse(address)).allowed) << address << " " << list[0];
        }
    }
}

TEST(Policy, AddressesAndBlocks) {
    const Policy listed = policy(Rules{"93.184.216.34:80", "10.1.0.0/16:8000-8010", "[2606:4700::1]:443",
                                       "fd00:1::/32", "169.254.169.254"});
    EXPECT_FALSE(listed.goes_by_names());
    EXPECT_TRUE(may(listed, "93.184.216.34", 80));
    EXPECT_FALSE(may(listed, "93.184.216.34", 81));
    EXPECT_FALSE(may(listed, "93.184.216.35", 80));
    EXPECT_TRUE(may(listed, "10.1.2.3", 8000));
    EXPECT_TRUE(may(listed, "10.1.2.3", 8010));
    EXPECT_FALSE(may(listed, "10.1.2.3", 8011));
    EXPECT_FALSE(may(listed, "10.2.2.3", 8000));
    EXPECT_TRUE(may(listed, "2606:4700::1", 443));
    EXPECT_FALSE(may(listed, "2606:4700::1", 80));
    EXPECT_TRUE(may(listed, "fd00:1::5", 1));
    EXPECT_TRUE(may(listed, "169.254.169.254", 80));
    EXPECT_FALSE(may(listed, "::ffff:169.254.169.254", 80));
    EXPECT_TRUE(listed.answer(*IpAddress::parse("10.1.2.3")).allowed);
    EXPECT_FALSE(listed.answer(*IpAddress::parse("10.2.2.3")).allowed);
    EXPECT_FALSE(listed.resolve("a.example").allowed);
    // An echo has no port: only rules about all of them let it through.
    EXPECT_TRUE(may(listed, "fd00:1::5", 0, {}, Protocol::kIcmp));
    EXPECT_FALSE(may(listed, "10.1.2.3", 0, {}, Protocol::kIcmp));
}

TEST(Policy, EverythingPublic) {
    const Policy star = policy(Rules{"*", "10.0.0.5"});
    EXPECT_TRUE(may(star, "8.8.8.8", 443));
    EXPECT_TRUE(may(star, "10.0.0.5", 443));
    EXPECT_FALSE(may(star, "10.0.0.6", 443));
    EXPECT_TRUE(star.resolve("a.example").allowed);
    EXPECT_TRUE(policy(Rules{"0.0.0.0/0"}).resolve("a.example").allowed);
}

TEST(Policy, DenyGoesFirst) {
    const Policy denied = policy(
        std::nullopt, {"*.evil.example", "8.8.0.0/16", "1.1.1.1:53", "9.9.9.9/udp", "mail.example:25"});
    EXPECT_FALSE(may(denied, "5.5.5.5", 443, {"a.evil.example"}));
    EXPECT_TRUE(may(denied, "5.5.5.5", 443, {"good.example"}));
    EXPECT_FALSE(may(denied, "8.8.8.8", 443));
    EXPECT_FALSE(may(denied, "8.8.8.8", 443, {}, Protocol::kUdp));
    EXPECT_FALSE(may(denied, "8.8.8.8", 0, {}, Protocol::kIcmp));
    EXPECT_FALSE(may(denied, "64:ff9b::8.8.8.8", 443));
    EXPECT_FALSE(may(denied, "1.1.1.1", 53, {}, Protocol::kUdp));
    EXPECT_TRUE(may(denied, "1.1.1.1", 443));
    EXPECT_TRUE(may(denied, "9.9.9.9", 53));
    EXPECT_FALSE(may(denied, "9.9.9.9", 53, {}, Protocol::kUdp));
    EXPECT_FALSE(denied.resolve("a.evil.example").allowed);
    EXPECT_TRUE(denied.resolve("mail.example").allowed);
    EXPECT_FALSE(may(denied, "5.5.5.5", 25, {"mail.example"}));
    const Policy both = policy(Rules{"10.0.0.0/8"}, {"10.0.0.1"});
    EXPECT_TRUE(may(both, "10.0.0.2", 80));
    EXPECT_FALSE(may(both, "10.0.0.1", 80));
}

TEST(Policy, TheHostItself) {
    EXPECT_TRUE(policy(Rules{"host.boxlite.internal:8080"}).connect_host(Protocol::kTcp, 8080).allowed);
    EXPECT_FALSE(policy(Rules{"host.boxlite.internal:8080"}).connect_host(Protocol::kTcp, 8081).allowed);
    EXPECT_FALSE(policy(Rules{"host.boxlite.internal:8080"}).connect_host(Protocol::kUdp, 8080).allowed);
    EXPECT_TRUE(policy(Rules{"192.168.127.254"}).connect_host(Protocol::kTcp, 1).allowed);
    EXPECT_FALSE(policy(Rules{"192.168.0.0/16"}).connect_host(Protocol::kTcp, 1).allowed);
    EXPECT_FALSE(policy(Rules{"*"}).connect_host(Protocol::kTcp, 1).allowed);
    EXPECT_FALSE(policy(Rules{"*.internal"}).connect_host(Protocol::kTcp, 1).allowed);
    EXPECT_FALSE(policy(Rules{"host.boxlite.internal"}, {"host.boxlite.internal:22"})
                     .connect_host(Protocol::kTcp, 22)
                     .allowed);
}

TEST(Policy, NonsenseIsAnError) {
    for (const char* rule : {"a b",
                             "http://example.com",
                             "example.com/path",
                             "example.com:",
                             "example.com:0",
                             "example.com:65536",
                             "example.com:2-1",
                             "example.com:http",
                             "*example.com",
                             "a.*.example",
                             "10.0.0.1/8",
                             "0177.0.0.1",
                             "127.1",
                             "2130706433",
                             "0x7f000001",
                             "1.2.3.4.5",
                             "[::1",
                             "[::1]x",
                             "[::1]:",
                             ":80",
                             "-",
                             "..",
                             "a..b",
                             "example.com/sctp",
                             "fe80::1%eth0",
                             "/udp"}) {
        EXPECT_FALSE(Policy::parse({Rules{rule}, {}}).ok()) << rule;
        EXPECT_FALSE(Policy::parse({std::nullopt, {rule}}).ok()) << rule;
    }
    EXPECT_FALSE(Policy::parse({Rules{std::string("evil\0.example.com", 17)}, {}}).ok());
    EXPECT_FALSE(Policy::parse({Rules{std::string(254, 'a')}, {}}).ok());
}

TEST(Policy, HostNames) {
    EXPECT_EQ(normalize_host("WWW.Example.com."), "www.example.com");
    EXPECT_EQ(normalize_host("_sip._tcp.example.com"), "_sip._tcp.example.com");
    EXPECT_EQ(normalize_host("localhost"), "localhost");
    for (const char* text : {"", ".", "a..b", ".a", "a b", "1.2.3.4", "a.1", "a.0x1f", "ex\\.ample",
                             "b\xc3\xbc"
                             "cher.de"})
        EXPECT_FALSE(normalize_host(text)) << text;
}

TEST(Policy, RulesAboutRequests) {
    const Policy rules =
        policy(Rules{"GET,HEAD https://api.example.com/v1/*", "other.example.org", "* http://10.0.0.7/x"},
               Rules{"DELETE https://other.example.org/*"});
    EXPECT_TRUE(rules.has_https_rules());
    const auto connect = [&](const char* address, uint16_t port, const Rules& names) {
        return rules.connect(Protocol::kTcp, {*IpAddress::parse(address), port}, names);
    };
    EXPECT_TRUE(connect("8.8.8.8", 443, {"api.example.com"}).by_request);
    EXPECT_FALSE(connect("8.8.8.8", 80, {"api.example.com"}).allowed);
    EXPECT_FALSE(connect("8.8.8.8", 443, {"www.example.com"}).allowed);
    EXPECT_TRUE(connect("8.8.8.8", 443, {"other.example.org"}).allowed);
    EXPECT_FALSE(connect("8.8.8.8", 443, {"other.example.org"}).by_request);
    EXPECT_TRUE(connect("10.0.0.7", 80, {}).by_request);
    EXPECT_FALSE(connect("10.0.0.8", 80, {}).allowed);
    EXPECT_TRUE(rules.resolve("api.example.com").allowed);
    EXPECT_TRUE(rules.resolve("other.example.org").allowed);

    const auto request = [&](const char* host, const char* method, const char* target, bool by_request) {
        return rules.request({true, host, 443, method, target, by_request}).allowed;
    };
    EXPECT_TRUE(request("api.example.com", "GET", "/v1/x?y", true));
    EXPECT_FALSE(request("api.example.com", "POST", "/v1/x", true));
    EXPECT_FALSE(request("api.example.com", "GET", "/v2", true));
    EXPECT_FALSE(request("api.example.com", "GET", "/v1/../v2", true));
    EXPECT_TRUE(request("other.example.org", "GET", "/", false));
    EXPECT_FALSE(request("other.example.org", "DELETE", "/", false));
    EXPECT_FALSE(request("other.example.org", "GET", "/a/%2e%2e/", false));
    EXPECT_TRUE(request("unrelated.example", "GET", "/a/../b", false));
    EXPECT_TRUE(rules.request({false, "10.0.0.7", 80, "PUT", "/x", true}).allowed);
    EXPECT_FALSE(rules.request({false, "10.0.0.7", 80, "PUT", "/y", true}).allowed);
    EXPECT_FALSE(rules.request({true, "10.0.0.7", 80, "PUT", "/x", true}).allowed);
}

TEST(Policy, ADeniedRequestDeniesNotTheConnection) {
    const Policy rules = policy(std::nullopt, Rules{"POST https://api.example.com/*"});
    const Endpoint to{*IpAddress::parse("8.8.8.8"), 443};
    EXPECT_TRUE(rules.connect(Protocol::kTcp, to, {"api.example.com"}).allowed);
    EXPECT_TRUE(rules.looks_at("api.example.com", 443, true));
    EXPECT_FALSE(rules.looks_at("api.example.com", 8443, true));
    EXPECT_FALSE(rules.looks_at("www.example.com", 443, true));
    // HTTP/3 would not be looked at.
    EXPECT_FALSE(rules.connect(Protocol::kUdp, to, {"api.example.com"}).allowed);
    EXPECT_TRUE(rules.connect(Protocol::kUdp, to, {"www.example.com"}).allowed);
}

TEST(Policy, RulesAboutRequestsThatAreNone) {
    for (const char* rule : {"GET https://10.0.0.1/", "GET https://a.example:x/", "GET https://a.example/?q",
                             "get https://a.example/", "https://a.example/", "GET a.example"})
        EXPECT_FALSE(Policy::parse({Rules{rule}, {}}).ok()) << rule;
}

TEST(Policy, AHostThatOnlyItsNameIsKnownOf) {
    const Policy open = Policy::parse({std::nullopt, {"*.bad.example"}}).value();
    EXPECT_TRUE(open.connect_name(Protocol::kTcp, 443, "a.example").allowed);
    EXPECT_EQ(open.connect_name(Protocol::kTcp, 443, "a.example").name, "a.example");
    EXPECT_FALSE(open.connect_name(Protocol::kTcp, 443, "x.bad.example").allowed);
    const Policy listed = Policy::parse({{{"a.example:443", "0.0.0.0/0:80"}}, {}}).value();
    EXPECT_TRUE(listed.connect_name(Protocol::kTcp, 443, "a.example").by_name);
    EXPECT_FALSE(listed.connect_name(Protocol::kTcp, 444, "a.example").allowed);
    EXPECT_FALSE(listed.connect_name(Protocol::kUdp, 443, "a.example").allowed);
    // No block says anything about it.
    EXPECT_FALSE(listed.connect_name(Protocol::kTcp, 80, "b.example").allowed);
}

TEST(Policy, TellsWhatIsOpenWithTheWholeInternet) {
    const Endpoint to{*IpAddress::parse("93.184.216.34"), 80};
    const auto verdict = [&](std::optional<std::vector<std::string>> allow) {
        return Policy::parse({std::move(allow), {}}).value().connect(Protocol::kTcp, to, {"a.example"});
    };
    EXPECT_TRUE(verdict(std::nullopt).is_public);
    EXPECT_TRUE(verdict({{"*"}}).is_public);
    EXPECT_FALSE(verdict({{"a.example"}}).is_public);
    EXPECT_FALSE(verdict({{"93.184.216.34"}}).is_public);
}

}  // namespace
}  // namespace boxlite::net
