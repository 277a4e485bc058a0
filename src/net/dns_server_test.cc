#include "net/dns_server.h"

#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "net/dns_testing.h"

namespace boxlite::net {
namespace {

using std::chrono::milliseconds;

const IpAddress kPublic = *IpAddress::parse("93.184.216.34");

// A name server of the host, on a loopback port.
class FakeServer {
  public:
    // What it answers, if anything.
    using Answer = std::function<std::optional<base::Bytes>(const base::Bytes& query)>;

    FakeServer(base::EventLoop& loop, Answer answer) : loop_(loop), answer_(std::move(answer)) {
        const SocketAddress any({*IpAddress::parse("127.0.0.1"), 0});
        socket_.reset(::socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
        EXPECT_EQ(::bind(socket_.get(), any.get(), any.length), 0);
        EXPECT_TRUE(loop.watch(socket_.get(), EPOLLIN, [this](uint32_t) { receive(); }).ok());
    }
    ~FakeServer() { loop_.unwatch(socket_.get()); }
    FakeServer(const FakeServer&) = delete;
    FakeServer& operator=(const FakeServer&) = delete;

    Endpoint endpoint() const {
        SocketAddress local({});
        local.length = sizeof local.storage;
        ::getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&local.storage), &local.length);
        return *endpoint_of(local.get());
    }
    size_t asked = 0;

  private:
    void receive() {
        base::Bytes query(4096);
        SocketAddress from({});
        from.length = sizeof from.storage;
        auto* address = reinterpret_cast<sockaddr*>(&from.storage);
        const ssize_t n = ::recvfrom(socket_.get(), query.data(), query.size(), 0, address, &from.length);
        if (n <= 0) return;
        ++asked;
        query.resize(static_cast<size_t>(n));
        if (const auto answer = answer_(query))
            (void)::sendto(socket_.get(), answer->data(), answer->size(), 0, address, from.length);
    }
    base::EventLoop& loop_;
    Answer answer_;
    base::Fd socket_;
};

FakeServer::Answer found(std::vector<IpAddress> addresses) {
    return [addresses = std::move(addresses)](const base::Bytes& query) {
        return dns::testing::answer(query, addresses);
    };
}
std::optional<base::Bytes> silence(const base::Bytes&) {
    return std::nullopt;
}
std::optional<base::Bytes> failure(const base::Bytes& query) {
    base::Bytes answer = query;
    answer[2] = 0x81;
    answer[3] = 0x82;
    return answer;
}

struct DnsServerTest : ::testing::Test {
    std::unique_ptr<base::EventLoop> loop = base::EventLoop::make().value();
    Policy policy;
    Pins pins;
    Proxies proxies;
    StandIns stand_ins;
    FlowLog log{*loop, [](const v1::FlowReport&) {}};

    void rules(const std::optional<std::vector<std::string>>& allow) {
        policy = Policy::parse({allow, {}}).value();
    }
    // The answer, as the box gets it from name servers of these kinds.
    base::Bytes ask(const base::Bytes& query, const std::vector<FakeServer::Answer>& servers) {
        std::vector<std::unique_ptr<FakeServer>> fakes;
        ResolverConfig config;
        config.timeout = milliseconds(200);
        for (const auto& server : servers) {
            fakes.push_back(std::make_unique<FakeServer>(*loop, server));
            config.servers.push_back(fakes.back()->endpoint());
        }
        HostResolver resolver(*loop, config);
        DnsServer server(*loop, policy, pins, log, resolver, {proxies, stand_ins, {"corp.example"}}, "me");
        base::Bytes answer;
        server.query(query, false, [&](base::ByteView bytes) {
            answer.assign(bytes.begin(), bytes.end());
            loop->stop();
        });
        const auto timer = loop->after(std::chrono::seconds(20), [&] { loop->stop(); });
        EXPECT_TRUE(loop->run().ok());
        loop->cancel(timer);
        asked.clear();
        for (const auto& fake : fakes) asked.push_back(fake->asked);
        return answer;
    }
    static int code(const base::Bytes& answer) { return answer.size() < 4 ? -1 : answer[3] & 0xf; }
    static base::Bytes query(std::string_view name, uint16_t type = dns::kA) {
        return dns::testing::query(name, type);
    }
    std::vector<size_t> asked;  // the servers, how often
};

TEST_F(DnsServerTest, AnswersArePassedOnAndRemembered) {
    const base::Bytes answer = ask(query("WWW.example.com"), {found({kPublic})});
    EXPECT_EQ(code(answer), 0);
    EXPECT_EQ(answer[0], 0x12);
    EXPECT_EQ(answer[1], 0x34);
    EXPECT_EQ(dns::addresses(answer), std::vector<IpAddress>{kPublic});
    EXPECT_EQ(pins.names(kPublic), std::vector<std::string>{"www.example.com"});
    // And then the other way round, without asking anybody.
    const base::Bytes reverse = ask(query("34.216.184.93.in-addr.arpa", dns::kPtr), {found({})});
    EXPECT_EQ(code(reverse), 0);
    EXPECT_EQ(asked, std::vector<size_t>{0});
}

TEST_F(DnsServerTest, OneServerAfterTheOther) {
    EXPECT_EQ(code(ask(query("a.example"), {silence, found({kPublic})})), 0);
    EXPECT_EQ(asked, (std::vector<size_t>{1, 1}));
    EXPECT_EQ(code(ask(query("a.example"), {failure, found({kPublic})})), 0);
    EXPECT_EQ(code(ask(query("a.example"), {silence})), 2);
    EXPECT_EQ(asked, std::vector<size_t>{2});
    EXPECT_EQ(code(ask(query("a.example"), {failure})), 2);
}

TEST_F(DnsServerTest, AnswersToOtherQuestionsDoNotCount) {
    const auto other_id = [](const base::Bytes& query) {
        base::Bytes answer = dns::testing::answer(query, {kPublic});
        answer[0] ^= 1;
        return answer;
    };
    const auto other_name = [](const base::Bytes& query) {
        base::Bytes answer = dns::testing::answer(query, {kPublic});
        answer[13] ^= 1;
        return answer;
    };
    EXPECT_EQ(code(ask(query("a.example"), {other_id, other_name})), 2);
    EXPECT_TRUE(pins.names(kPublic).empty());
}

TEST_F(DnsServerTest, AddressesThatAreClosedAreNotTold) {
    for (const char* text :
         {"127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "fd00::1", "::ffff:10.0.0.1", "0.0.0.0"}) {
        const IpAddress address = *IpAddress::parse(text);
        const uint16_t type = address.is_v4() ? dns::kA : dns::kAaaa;
        EXPECT_EQ(code(ask(query("rebind.example", type), {found({kPublic, address})})), 3) << text;
        EXPECT_TRUE(pins.names(address).empty());
    }
    EXPECT_TRUE(pins.names(kPublic).empty());
    EXPECT_EQ(log.refused(), 7u);
    rules({{"*.example", "10.0.0.0/8"}});
    EXPECT_EQ(code(ask(query("intern.example"), {found({*IpAddress::parse("10.0.0.1")})})), 0);
}

TEST_F(DnsServerTest, OnlyNamesOnTheListAreAskedFor) {
    rules({{"a.example"}});
    EXPECT_EQ(code(ask(query("a.example"), {found({kPublic})})), 0);
    EXPECT_EQ(code(ask(query("secret.b.example"), {found({kPublic})})), 3);
    EXPECT_EQ(asked, std::vector<size_t>{0});
    EXPECT_EQ(code(ask(query("1.1.1.1.in-addr.arpa", dns::kPtr), {found({})})), 3);
    EXPECT_EQ(asked, std::vector<size_t>{0});
    const base::Bytes https = ask(query("a.example", dns::kHttps), {found({kPublic})});
    EXPECT_EQ(code(https), 0);
    EXPECT_EQ(asked, std::vector<size_t>{0});
}

TEST_F(DnsServerTest, TheBoxsOwnNames) {
    EXPECT_EQ(dns::addresses(ask(query("host.boxlite.internal"), {silence})),
              std::vector<IpAddress>{*IpAddress::parse("192.168.127.254")});
    EXPECT_EQ(dns::addresses(ask(query("me", dns::kAaaa), {silence})),
              std::vector<IpAddress>{*IpAddress::parse("fd00::2")});
    EXPECT_EQ(code(ask(query("other.boxlite.internal"), {silence})), 3);
    EXPECT_EQ(code(ask(query("x.localhost"), {silence})), 0);
    EXPECT_EQ(code(ask(query("10.0.0.10.in-addr.arpa", dns::kPtr), {silence})), 3);
    EXPECT_EQ(code(ask(query("a.example", dns::kAny), {silence})), 4);
    EXPECT_EQ(code(ask(query("1.2.3.4"), {silence})), 3);
}

TEST_F(DnsServerTest, WhatOnlyTheProxyCanResolveGetsAnAddressThatStandsForIt) {
    const auto unknown = [](const base::Bytes& query) {
        std::optional<base::Bytes> answer = failure(query);
        (*answer)[3] = 0x83;
        return answer;
    };
    EXPECT_EQ(code(ask(query("www.example.com"), {unknown})), 3);
    const ProxyServer server{{{*IpAddress::parse("192.0.2.1"), 3128}}, {}};
    proxies = Proxies(std::nullopt, server, {"direct.example"});
    const std::vector<IpAddress> stand_in{*IpAddress::parse("198.18.0.1")};
    const base::Bytes none = ask(query("www.example.com", dns::kAaaa), {unknown});
    EXPECT_EQ(code(none), 0);
    EXPECT_TRUE(dns::addresses(none)->empty());
    EXPECT_EQ(dns::addresses(ask(query("www.example.com"), {found({kPublic})})), stand_in);
    EXPECT_EQ(asked, std::vector<size_t>{0});
    EXPECT_EQ(code(ask(query("1.0.18.198.in-addr.arpa", dns::kPtr), {silence})), 0);
    // The host's own answers count where there are some.
    EXPECT_EQ(dns::addresses(ask(query("known.example"), {found({kPublic})})),
              std::vector<IpAddress>{kPublic});
    EXPECT_EQ(code(ask(query("silent.example"), {silence})), 0);
    EXPECT_EQ(code(ask(query("broken.example"), {failure})), 0);
    EXPECT_EQ(code(ask(query("x.direct.example"), {unknown})), 3);
    EXPECT_EQ(code(ask(query("short"), {unknown})), 3);
    EXPECT_EQ(code(ask(query("short.corp.example"), {unknown})), 3);
    EXPECT_EQ(code(ask(query("other.example", 16), {unknown})), 3);
    for (const char* host : {"metadata.google.internal", "printer.local", "x.home.arpa"})
        EXPECT_EQ(code(ask(query(host), {unknown})), 3) << host;
    rules({{"db.internal:5432"}});
    EXPECT_EQ(code(ask(query("db.internal"), {unknown})), 0);
    rules({{"a.example"}});
    EXPECT_EQ(code(ask(query("b.example"), {unknown})), 3);
    EXPECT_EQ(code(ask(query("a.example"), {unknown})), 0);
}

}  // namespace
}  // namespace boxlite::net
