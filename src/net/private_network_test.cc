#include "net/private_network.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cctype>
#include <deque>

#include "base/file.h"
#include "net/neighbour.h"

namespace boxlite::net {
namespace {

using std::chrono::milliseconds;

constexpr uint8_t kFin = 1, kSyn = 2, kRst = 4, kAck = 16;
constexpr uint8_t kTcp = 6, kUdp = 17, kIcmp = 1, kIcmp6 = 58;

v1::NetworkMember member(const std::string& name, int host) {
    Member self;
    self.box_id = "id";
    for (const char c : name)
        if (c != '.') self.box_id += static_cast<char>(std::tolower(c));
    self.name = name;
    self.mac = box_mac(self.box_id);
    self.v4 = *IpAddress::parse("10.200.7." + std::to_string(host));
    self.v6 = *IpAddress::parse("fd12:3456:789a:1::" + std::to_string(host));
    return to_message(self);
}

// A box on the network "test": what its netd sends to it, and what the log says.
struct Node {
    Node(base::EventLoop& loop, const std::string& folder, const v1::NetworkMember& who,
         const std::vector<std::string>& deny = {})
        : self(member_from(who).value()), log(loop, [this](const v1::FlowReport& report) {
              flows.insert(flows.end(), report.flows().begin(), report.flows().end());
          }) {
        set_rules(deny);
        v1::PrivateNetwork spec;
        spec.set_name("test");
        spec.set_folder(folder);
        *spec.mutable_self() = who;
        auto joined = PrivateNetwork::join(loop, spec, policy, log, [this](base::ByteView frame) {
            frames.emplace_back(frame.begin(), frame.end());
        });
        EXPECT_TRUE(joined.ok()) << joined.error().message;
        if (joined.ok()) network = std::move(joined).value();
    }
    void set_rules(const std::vector<std::string>& deny) { policy = Policy::parse({{}, deny}).value(); }
    bool take(const base::Bytes& frame) {
        const auto ip = parse_ip(frame);
        return network->take(frame, ip ? &*ip : nullptr);
    }
    // The next frame for the box, as what it holds.
    std::optional<PeerPacket> next() {
        if (frames.empty()) return std::nullopt;
        last = std::move(frames.front());
        frames.pop_front();
        const auto ip = parse_ip(last);
        return ip ? parse_peer_packet(*ip) : std::nullopt;
    }

    Member self;
    Policy policy;
    FlowLog log;
    std::vector<v1::Flow> flows;
    std::deque<base::Bytes> frames;
    base::Bytes last;
    std::unique_ptr<PrivateNetwork> network;
};

// A packet from one box to an address of another one, as the first one's kernel makes it.
base::Bytes packet(const Member& from, const IpAddress& to, uint8_t protocol, const base::Bytes& content,
                   std::optional<IpAddress> source = std::nullopt) {
    base::Bytes frame =
        ip_frame(source.value_or(from.address(to.is_v4())), to, protocol, content.size(), kGatewayMac);
    std::copy(from.mac.begin(), from.mac.end(), frame.begin() + 6);
    std::copy(content.begin(), content.end(), frame.end() - static_cast<ptrdiff_t>(content.size()));
    return frame;
}

base::Bytes tcp(uint16_t from, uint16_t to, uint8_t flags, uint32_t sequence = 1, uint32_t acknowledged = 0,
                size_t data = 0) {
    base::Bytes segment(20 + data);
    base::store_be(&segment[0], from);
    base::store_be(&segment[2], to);
    base::store_be(&segment[4], sequence);
    base::store_be(&segment[8], acknowledged);
    segment[12] = 0x50;
    segment[13] = flags;
    return segment;
}

base::Bytes udp(uint16_t from, uint16_t to) {
    base::Bytes datagram(8 + 4);
    base::store_be(&datagram[0], from);
    base::store_be(&datagram[2], to);
    base::store_be<uint16_t>(&datagram[4], 12);
    return datagram;
}

base::Bytes echo(bool v4, bool answer = false) {
    return {static_cast<uint8_t>(v4 ? (answer ? 0 : 8) : (answer ? 129 : 128)), 0, 0, 0, 0x12, 0x34, 0, 1};
}

struct PrivateNetworkTest : ::testing::Test {
    std::string folder() const { return dir.path() + "/networks/test"; }

    // Runs the loop until the condition holds, or for so long that it never will.
    template <typename Condition>
    bool until(Condition condition) {
        const auto give_up = loop->after(milliseconds(5000), [this] { loop->stop(); });
        std::function<void()> look = [&] {
            if (condition()) return loop->stop();
            loop->after(milliseconds(1), look);
        };
        loop->post(look);
        EXPECT_TRUE(loop->run().ok());
        loop->cancel(give_up);
        return condition();
    }
    void settle() {
        loop->after(milliseconds(100), [this] { loop->stop(); });
        EXPECT_TRUE(loop->run().ok());
    }
    bool linked(const Node& a, const Node& b) {
        return until(
            [&] { return !a.network->name_of(b.self.v4).empty() && !b.network->name_of(a.self.v4).empty(); });
    }
    // Whether what one box sends arrives at the other as it was, but for the station that it is for.
    ::testing::AssertionResult arrives(Node& from, Node& to, base::Bytes frame) {
        if (!from.take(frame)) return ::testing::AssertionFailure() << "not taken";
        if (!until([&] { return !to.frames.empty(); })) return ::testing::AssertionFailure() << "lost";
        std::copy(to.self.mac.begin(), to.self.mac.end(), frame.begin());
        to.last = to.frames.front();
        to.frames.pop_front();
        if (to.last != frame) return ::testing::AssertionFailure() << "changed";
        return ::testing::AssertionSuccess();
    }

    base::TempDir dir = base::TempDir::make().value();
    std::unique_ptr<base::EventLoop> loop = base::EventLoop::make().value();
};

TEST_F(PrivateNetworkTest, PacketsOfAllKindsGoBothWays) {
    Node web(*loop, folder(), member("web", 2)), db(*loop, folder(), member("db", 3));
    ASSERT_TRUE(linked(web, db));
    struct stat status {};
    ASSERT_EQ(::stat(folder().c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0700u);
    for (const bool v4 : {true, false}) {
        const IpAddress to = db.self.address(v4), back = web.self.address(v4);
        EXPECT_TRUE(arrives(web, db, packet(web.self, to, kTcp, tcp(1000, 80, kSyn))));
        EXPECT_TRUE(arrives(db, web, packet(db.self, back, kTcp, tcp(80, 1000, kSyn | kAck, 9, 2))));
        EXPECT_TRUE(arrives(web, db, packet(web.self, to, kTcp, tcp(1000, 80, kAck, 2, 10, 100))));
        EXPECT_TRUE(arrives(db, web, packet(db.self, back, kTcp, tcp(80, 1000, kAck | kFin, 10, 102, 7))));
        EXPECT_TRUE(arrives(web, db, packet(web.self, to, kTcp, tcp(1000, 80, kAck | kFin, 102, 18))));
        EXPECT_TRUE(arrives(db, web, packet(db.self, back, kTcp, tcp(80, 1000, kAck, 18, 103))));
        EXPECT_TRUE(arrives(web, db, packet(web.self, to, kUdp, udp(1000, 53))));
        EXPECT_TRUE(arrives(db, web, packet(db.self, back, kUdp, udp(53, 1000))));
        const uint8_t icmp = v4 ? kIcmp : kIcmp6;
        EXPECT_TRUE(arrives(web, db, packet(web.self, to, icmp, echo(v4))));
        EXPECT_TRUE(arrives(db, web, packet(db.self, back, icmp, echo(v4, true))));
    }
    EXPECT_EQ(web.log.open_flows(), 4u);  // of UDP and echoes
    ASSERT_TRUE(until([&] { return web.flows.size() == 2 && db.flows.size() == 2; }));
    const v1::Flow& out = web.flows[0];
    EXPECT_EQ(out.protocol(), "tcp");
    EXPECT_EQ(out.name(), "db.boxlite.internal");
    EXPECT_EQ(out.address(), "10.200.7.3");
    EXPECT_EQ(out.port(), 80u);
    EXPECT_EQ(out.rule(), "--network test");
    EXPECT_EQ(out.sent_bytes(), 100u);
    EXPECT_EQ(out.received_bytes(), 7u);
    EXPECT_FALSE(out.incoming());
    EXPECT_TRUE(db.flows[0].incoming());
    EXPECT_EQ(db.flows[0].name(), "web.boxlite.internal");
    EXPECT_EQ(db.flows[0].received_bytes(), 100u);
}

TEST_F(PrivateNetworkTest, NobodySpeaksForAnother) {
    Node web(*loop, folder(), member("web", 2)), db(*loop, folder(), member("db", 3)),
        other(*loop, folder(), member("other", 4));
    ASSERT_TRUE(linked(web, db) && linked(other, db));
    for (const bool v4 : {true, false}) {
        const IpAddress to = db.self.address(v4);
        // In its own netd: with another's address, the one of its own network, another station.
        const IpAddress own = *IpAddress::parse(v4 ? "192.168.127.2" : "fd00::2");
        for (const IpAddress& source : {web.self.address(v4), own}) {
            EXPECT_TRUE(other.take(packet(other.self, to, kTcp, tcp(1, 80, kSyn), source)));
            const auto told = other.next();
            ASSERT_TRUE(told);
            EXPECT_TRUE(told->resets);
        }
        EXPECT_FALSE(other.take(packet(web.self, to, kTcp, tcp(1, 80, kSyn))));
        // Not to the other one's gateway, host or own network through its netd.
        for (const char* address :
             {"192.168.127.1", "192.168.127.2", "192.168.127.254", "fd00::1", "fd00::2"})
            EXPECT_FALSE(other.take(packet(other.self, *IpAddress::parse(address), kUdp, udp(1, 53))));
    }
    settle();
    EXPECT_TRUE(db.frames.empty());
}

// A netd that a guest has taken over can put anything on its link.
TEST_F(PrivateNetworkTest, WhatALinkBringsIsChecked) {
    Node db(*loop, folder(), member("db", 3));
    const v1::NetworkMember evil = member("evil", 9);
    const Member self = member_from(evil).value(), web = member_from(member("web", 2)).value();
    base::Fd link = base::connect_unix(folder() + "/iddb", SOCK_SEQPACKET).value();
    const std::string hello = evil.SerializeAsString();
    ASSERT_EQ(::send(link.get(), hello.data(), hello.size(), 0), static_cast<ssize_t>(hello.size()));
    ASSERT_TRUE(until([&] { return !db.network->name_of(self.v4).empty(); }));
    const auto put = [&](base::Bytes frame, bool addressed = true) {
        if (addressed) std::copy(db.self.mac.begin(), db.self.mac.end(), frame.begin());
        ASSERT_EQ(::send(link.get(), frame.data(), frame.size(), 0), static_cast<ssize_t>(frame.size()));
    };
    for (const bool v4 : {true, false}) {
        const IpAddress to = db.self.address(v4);
        const base::Bytes good = packet(self, to, kTcp, tcp(1, 80, kSyn));
        put(packet(web, to, kTcp, tcp(1, 80, kSyn)));                        // another station
        put(packet(self, to, kTcp, tcp(1, 80, kSyn), web.address(v4)));      // another address
        put(packet(self, to, kTcp, tcp(1, 80, kSyn), db.self.address(v4)));  // the box's own
        put(good, false);                                                    // for another station
        put(packet(self, *IpAddress::parse(v4 ? "192.168.127.2" : "fd00::2"), kTcp, tcp(1, 80, kSyn)));
        put(packet(self, *IpAddress::parse(v4 ? "10.200.7.255" : "ff02::1"), kUdp, udp(1, 5353)));
        put(packet(self, to, 47, base::Bytes(40)));                  // no protocol that passes
        put(packet(self, to, v4 ? kIcmp : kIcmp6, echo(v4, true)));  // not asked for
        put(packet(self, to, kTcp, base::Bytes(19)));
        for (size_t size = 1; size < good.size(); ++size)
            put({good.begin(), good.begin() + static_cast<ptrdiff_t>(size)}, size >= 6);
        base::Bytes bare = neighbour_answer({db.self.mac, to, web.address(v4)});
        put(bare);
    }
    put(base::Bytes(60000, 0xff));
    settle();
    EXPECT_TRUE(db.frames.empty());
    EXPECT_EQ(db.log.total_flows(), 0u);
    put(packet(self, db.self.v4, kTcp, tcp(1, 80, kSyn)));
    EXPECT_TRUE(until([&] { return db.frames.size() == 1; }));
}

TEST_F(PrivateNetworkTest, WhoSaysNothingOfItselfOrTooMuchHasNoLink) {
    Node db(*loop, folder(), member("db", 3)), web(*loop, folder(), member("web", 2));
    ASSERT_TRUE(linked(db, web));
    v1::NetworkMember elsewhere = member("elsewhere", 9);
    elsewhere.set_address("10.200.8.9");
    v1::NetworkMember taken = member("taken", 2);
    v1::NetworkMember itself = member("db", 3);
    v1::NetworkMember path = member("path", 9);
    path.set_box_id("../path");
    v1::NetworkMember group = member("group", 9);
    group.set_mac(std::string("\1\2\3\4\5\6"));
    for (const std::string& hello :
         {elsewhere.SerializeAsString(), taken.SerializeAsString(), itself.SerializeAsString(),
          path.SerializeAsString(), group.SerializeAsString(), std::string("garbage"),
          std::string(5000, 'x')}) {
        const base::Fd link = base::connect_unix(folder() + "/iddb", SOCK_SEQPACKET).value();
        ASSERT_EQ(::send(link.get(), hello.data(), hello.size(), 0), static_cast<ssize_t>(hello.size()));
        // It is hung up on.
        char byte;
        EXPECT_TRUE(until([&] { return ::recv(link.get(), &byte, 1, MSG_DONTWAIT) == 0; }));
    }
    EXPECT_EQ(db.network->name_of(web.self.v4), "web.boxlite.internal");
    EXPECT_TRUE(arrives(db, web, packet(db.self, web.self.v4, kUdp, udp(1, 2))));
}

TEST_F(PrivateNetworkTest, OfAnyTwoThereIsOneLinkWhateverCameFirst) {
    constexpr int kCount = 12;
    std::vector<std::unique_ptr<Node>> nodes;
    nodes.reserve(kCount);
    for (int i = 0; i < kCount; ++i)
        nodes.push_back(std::make_unique<Node>(*loop, folder(), member("n" + std::to_string(i), 2 + i)));
    for (const auto& a : nodes)
        for (const auto& b : nodes)
            if (a != b) {
                EXPECT_TRUE(linked(*a, *b));
            }
    for (const auto& a : nodes)
        for (const auto& b : nodes)
            if (a != b) {
                EXPECT_TRUE(arrives(*a, *b, packet(a->self, b->self.v4, kUdp, udp(1, 2))));
            }
    settle();
    for (const auto& node : nodes) EXPECT_TRUE(node->frames.empty()) << "it came twice";
}

TEST_F(PrivateNetworkTest, OneThatIsStartedAgainTakesItsPlace) {
    Node web(*loop, folder(), member("web", 2));
    auto db = std::make_unique<Node>(*loop, folder(), member("db", 3));
    ASSERT_TRUE(linked(web, *db));
    ASSERT_TRUE(arrives(web, *db, packet(web.self, db->self.v4, kTcp, tcp(1, 80, kSyn))));
    ASSERT_TRUE(arrives(*db, web, packet(db->self, web.self.v4, kTcp, tcp(80, 1, kSyn | kAck, 9, 2))));
    ASSERT_TRUE(arrives(web, *db, packet(web.self, db->self.v4, kTcp, tcp(1, 80, kAck, 2, 10))));
    db.reset();
    ASSERT_TRUE(until([&] { return web.network->name_of(*IpAddress::parse("10.200.7.3")).empty(); }));
    // The box learns that its connection is over, at the place where it is.
    const auto reset = web.next();
    ASSERT_TRUE(reset);
    EXPECT_TRUE(reset->resets);
    EXPECT_EQ(reset->sequence, 10u);
    EXPECT_EQ(reset->destination, (Endpoint{web.self.v4, 1}));
    EXPECT_TRUE(web.network->addresses("db").empty());
    // The socket of before is still there, and nobody listens.
    ASSERT_TRUE(base::path_exists(folder() + "/iddb"));
    Node third(*loop, folder(), member("third", 4));
    EXPECT_FALSE(base::path_exists(folder() + "/iddb"));
    EXPECT_FALSE(base::path_exists(folder() + "/iddb.member"));
    db = std::make_unique<Node>(*loop, folder(), member("db", 3));
    ASSERT_TRUE(linked(web, *db) && linked(third, *db));
    EXPECT_TRUE(arrives(web, *db, packet(web.self, db->self.v4, kUdp, udp(1, 2))));
}

TEST_F(PrivateNetworkTest, RulesThatDenyGoBeforeMembership) {
    for (const char* rule :
         {"db", "db.boxlite.internal:80", "10.200.7.3", "fd12:3456:789a:1::3", "*", "GET http://db/*"}) {
        Node web(*loop, folder(), member("web", 2), {rule}), db(*loop, folder(), member("db", 3));
        ASSERT_TRUE(linked(web, db));
        const bool v4 = std::string_view(rule).find("::") == std::string_view::npos;
        EXPECT_TRUE(web.take(packet(web.self, db.self.address(v4), kTcp, tcp(1000, 80, kSyn, 41))));
        const auto told = web.next();
        ASSERT_TRUE(told) << rule;
        EXPECT_TRUE(told->resets) << rule;
        EXPECT_EQ(told->acknowledged, 42u) << rule;
        ASSERT_TRUE(until([&] { return web.flows.size() == 1; }));
        EXPECT_FALSE(web.flows[0].allowed());
        EXPECT_EQ(web.flows[0].rule(), std::string("--deny-net ") + rule);
        EXPECT_EQ(web.flows[0].name(), "db.boxlite.internal");
        // It is about what the box opens: the other one may still come to it.
        EXPECT_TRUE(arrives(db, web, packet(db.self, web.self.address(v4), kTcp, tcp(80, 1001, kSyn))));
        EXPECT_TRUE(
            arrives(web, db, packet(web.self, db.self.address(v4), kTcp, tcp(1001, 80, kSyn | kAck))));
    }
}

TEST_F(PrivateNetworkTest, RefusedDatagramsAndEchoesAreAnsweredAtOnce) {
    Node web(*loop, folder(), member("web", 2), {"db"}), db(*loop, folder(), member("db", 3));
    ASSERT_TRUE(linked(web, db));
    for (const bool v4 : {true, false})
        for (const auto& [protocol, content] :
             {std::pair(kUdp, udp(1, 53)), std::pair(v4 ? kIcmp : kIcmp6, echo(v4))}) {
            EXPECT_TRUE(web.take(packet(web.self, db.self.address(v4), protocol, content)));
            const auto told = web.next();
            ASSERT_TRUE(told);
            EXPECT_EQ(told->kind, PeerPacket::Kind::kError);
            EXPECT_EQ(told->source.address, db.self.address(v4));
        }
}

TEST_F(PrivateNetworkTest, NewRulesEndWhatIsOpen) {
    Node web(*loop, folder(), member("web", 2)), db(*loop, folder(), member("db", 3));
    ASSERT_TRUE(linked(web, db));
    const IpAddress to = db.self.v4, back = web.self.v4;
    ASSERT_TRUE(arrives(web, db, packet(web.self, to, kTcp, tcp(1, 80, kSyn))));
    ASSERT_TRUE(arrives(db, web, packet(db.self, back, kTcp, tcp(80, 1, kSyn | kAck, 9, 2))));
    ASSERT_TRUE(arrives(web, db, packet(web.self, to, kTcp, tcp(1, 80, kAck, 2, 10))));
    ASSERT_TRUE(arrives(web, db, packet(web.self, to, kUdp, udp(1, 53))));
    web.set_rules({"db"});
    web.network->recheck();
    const auto reset = web.next();
    ASSERT_TRUE(reset);
    EXPECT_TRUE(reset->resets);
    EXPECT_EQ(reset->sequence, 10u);
    ASSERT_TRUE(until([&] { return web.flows.size() == 4; }));  // two refusals, two ends
    EXPECT_EQ(web.log.open_flows(), 0u);
    // Nor does anything come in on them any more.
    EXPECT_TRUE(db.take(packet(db.self, back, kTcp, tcp(80, 1, kAck, 10, 2, 5))));
    EXPECT_TRUE(db.take(packet(db.self, back, kUdp, udp(53, 1))));
    settle();
    EXPECT_TRUE(web.frames.empty());
}

TEST_F(PrivateNetworkTest, NeighboursAreBehindTheGatewaysStation) {
    Node web(*loop, folder(), member("web", 2));
    const auto asks = [&](const char* about) {
        base::Bytes frame(14 + 28);
        std::fill_n(frame.begin(), 6, uint8_t{0xff});
        std::copy(web.self.mac.begin(), web.self.mac.end(), frame.begin() + 6);
        base::store_be<uint16_t>(&frame[12], 0x0806);
        const uint8_t begin[] = {0, 1, 8, 0, 6, 4, 0, 1};
        std::copy(std::begin(begin), std::end(begin), frame.begin() + 14);
        std::copy(web.self.mac.begin(), web.self.mac.end(), frame.begin() + 22);
        std::copy_n(web.self.v4.bytes().begin(), 4, frame.begin() + 28);
        std::copy_n(IpAddress::parse(about)->bytes().begin(), 4, frame.begin() + 38);
        return frame;
    };
    EXPECT_TRUE(web.take(asks("10.200.7.3")));
    ASSERT_EQ(web.frames.size(), 1u);
    const base::Bytes answer = web.frames[0];
    EXPECT_TRUE(std::equal(kGatewayMac.begin(), kGatewayMac.end(), answer.begin() + 22));
    EXPECT_EQ(IpAddress(base::ByteView(answer).subspan(28, 4)).to_string(), "10.200.7.3");
    web.frames.clear();
    EXPECT_TRUE(web.take(asks("10.200.7.2")));  // its own
    EXPECT_TRUE(web.frames.empty());
    EXPECT_FALSE(web.take(asks("192.168.127.1")));

    base::Bytes solicit(24);
    solicit[0] = 135;
    const IpAddress about = *IpAddress::parse("fd12:3456:789a:1::3");
    std::copy(about.bytes().begin(), about.bytes().end(), solicit.begin() + 8);
    base::Bytes frame = packet(web.self, *IpAddress::parse("ff02::1:ff00:3"), kIcmp6, solicit);
    EXPECT_FALSE(web.take(frame)) << "it could have come from elsewhere";
    frame[14 + 7] = 255;
    EXPECT_TRUE(web.take(frame));
    ASSERT_EQ(web.frames.size(), 1u);
    const auto ip = parse_ip(web.frames[0]);
    EXPECT_EQ(ip->source, about);
    EXPECT_EQ(ip->destination, web.self.v6);
    EXPECT_EQ(ip->payload[0], 136);
    EXPECT_TRUE(std::equal(kGatewayMac.begin(), kGatewayMac.end(), ip->payload.end() - 6));
}

TEST_F(PrivateNetworkTest, WhoIsNotThereIsUnreachableAtOnce) {
    Node web(*loop, folder(), member("web", 2));
    for (const bool v4 : {true, false}) {
        const IpAddress nobody = *IpAddress::parse(v4 ? "10.200.7.99" : "fd12:3456:789a:1::99");
        EXPECT_TRUE(web.take(packet(web.self, nobody, kTcp, tcp(1, 80, kSyn))));
        const auto told = web.next();
        ASSERT_TRUE(told);
        EXPECT_EQ(told->kind, PeerPacket::Kind::kError);
        EXPECT_EQ(told->destination, (Endpoint{web.self.address(v4), 1}));
    }
    ASSERT_TRUE(until([&] { return web.flows.size() == 2; }));
    EXPECT_NE(web.flows[0].rule().find("no box that runs"), std::string::npos);
}

TEST_F(PrivateNetworkTest, Names) {
    Node web(*loop, folder(), member("Web", 2)), db(*loop, folder(), member("db.one", 3)),
        host(*loop, folder(), member("host", 4)), local(*loop, folder(), member("localhost", 5));
    ASSERT_TRUE(linked(web, db) && linked(web, local));
    EXPECT_TRUE(arrives(web, host, packet(web.self, host.self.v4, kUdp, udp(1, 2))));
    const std::vector<IpAddress> both = {db.self.v4, db.self.v6};
    EXPECT_EQ(web.network->addresses("db.one.boxlite.internal"), both);
    EXPECT_TRUE(web.network->addresses("db.one").empty()) << "it could be anybody's outside";
    EXPECT_EQ(db.network->addresses("web").size(), 2u);
    EXPECT_EQ(web.network->addresses("web").size(), 2u) << "itself";
    EXPECT_TRUE(web.network->addresses("host").empty());
    EXPECT_TRUE(web.network->addresses("localhost").empty());
    EXPECT_EQ(web.network->addresses("localhost.boxlite.internal").size(), 2u);
    EXPECT_EQ(web.network->name_of(db.self.v6), "db.one.boxlite.internal");
    EXPECT_EQ(web.network->name_of(*IpAddress::parse("10.200.7.77")), "");
}

TEST_F(PrivateNetworkTest, TooManyFlowsForgetTheQuietest) {
    Node web(*loop, folder(), member("web", 2)), db(*loop, folder(), member("db", 3));
    ASSERT_TRUE(linked(web, db));
    for (size_t i = 0; i < PeerFlows::kMaxFlows + 100; ++i)
        EXPECT_TRUE(web.take(packet(web.self, db.self.v4, kUdp, udp(static_cast<uint16_t>(i + 1), 53))));
    EXPECT_EQ(web.log.open_flows(), PeerFlows::kMaxFlows);
    EXPECT_EQ(web.log.total_flows(), PeerFlows::kMaxFlows + 100);
}

}  // namespace
}  // namespace boxlite::net
