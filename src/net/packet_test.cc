#include "net/packet.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "net/neighbour.h"

namespace boxlite::net {
namespace {

const Endpoint kServer{*IpAddress::parse("93.184.216.34"), 53},
    kBox{*IpAddress::parse("192.168.127.2"), 4242};
const Endpoint kServer6{*IpAddress::parse("2606:4700::1"), 53}, kBox6{*IpAddress::parse("fd00::2"), 4242};

const MacAddress kMac = {2, 1, 2, 3, 4, 5};
const BoxInterface kInterface(kMac);

base::Bytes frame_of(const Datagram& datagram) {
    return udp_frame(datagram, kMac);
}

base::Bytes text(std::string_view content) {
    const base::ByteView bytes = base::as_bytes(content);
    return {bytes.begin(), bytes.end()};
}

// The ones' complement sum over everything that a checksum covers, itself included, is all ones (RFC 1071).
uint16_t sum(base::ByteView bytes) {
    uint32_t total = 0;
    for (size_t i = 0; i < bytes.size(); ++i) total += static_cast<uint32_t>(bytes[i]) << (i % 2 ? 0 : 8);
    while (total >> 16) total = (total & 0xffff) + (total >> 16);
    return static_cast<uint16_t>(total);
}

TEST(Packet, ADatagramSurvivesBothWays) {
    for (const auto& [server, box] : {std::pair(kServer, kBox), std::pair(kServer6, kBox6)}) {
        for (const size_t size : {size_t{0}, size_t{1}, size_t{1400}, size_t{9001}}) {
            const base::Bytes payload(size, 'p');
            const base::Bytes frame = frame_of({server, box, payload});
            const auto ip = parse_ip(frame);
            ASSERT_TRUE(ip);
            EXPECT_EQ(ip->source, server.address);
            const auto datagram = parse_udp(*ip);
            ASSERT_TRUE(datagram);
            EXPECT_EQ(datagram->source, server);
            EXPECT_EQ(datagram->destination, box);
            EXPECT_TRUE(std::equal(payload.begin(), payload.end(), datagram->payload.begin(),
                                   datagram->payload.end()));
        }
    }
}

TEST(Packet, HeadersAreThoseOfTheStandards) {
    const base::Bytes frame = frame_of({kServer, kBox, text("hello")});
    ASSERT_EQ(frame.size(), 14u + 20 + 8 + 5);
    EXPECT_EQ(base::load_be<uint16_t>(&frame[12]), 0x0800);
    EXPECT_EQ(frame[14], 0x45);
    EXPECT_EQ(base::load_be<uint16_t>(&frame[16]), 33);
    EXPECT_EQ(sum({&frame[14], 20}), 0xffff);
    base::Bytes covered(frame.begin() + 26, frame.begin() + 34);  // both addresses
    for (const uint8_t byte : {0, 17, 0, 13}) covered.push_back(byte);
    covered.insert(covered.end(), frame.begin() + 34, frame.end());
    EXPECT_EQ(sum(covered), 0xffff);
}

TEST(Packet, DamagedDatagramsAreNone) {
    const base::Bytes frame = frame_of({kServer, kBox, text("hello")});
    for (size_t i = 34; i < frame.size(); ++i) {
        base::Bytes damaged = frame;
        damaged[i] ^= 0x10;
        const auto ip = parse_ip(damaged);
        ASSERT_TRUE(ip);
        EXPECT_FALSE(parse_udp(*ip)) << i;
    }
    for (size_t size = 0; size < frame.size(); ++size) EXPECT_FALSE(parse_ip({frame.data(), size})) << size;
    base::Bytes without = frame;  // a checksum of zero is none
    base::store_be<uint16_t>(&without[40], 0);
    EXPECT_TRUE(parse_udp(*parse_ip(without)));
    base::Bytes fragment = frame;
    base::store_be<uint16_t>(&fragment[20], 0x2000);
    EXPECT_FALSE(parse_udp(*parse_ip(fragment)));
    base::Bytes longer = frame;  // an ethernet frame may be padded
    longer.resize(longer.size() + 20);
    EXPECT_EQ(parse_udp(*parse_ip(longer))->payload.size(), 5u);
}

TEST(Packet, ErrorsQuoteWhatTheyAreAbout) {
    const base::Bytes frame = frame_of({kBox, kServer, text("hello")});
    const auto told = unreachable_frame(*parse_ip(frame), Unreachable::kProhibited);
    ASSERT_TRUE(told);
    const auto ip = parse_ip(*told);
    ASSERT_TRUE(ip);
    EXPECT_EQ(ip->protocol, 1);
    EXPECT_EQ(ip->destination, kBox.address);
    EXPECT_EQ(ip->payload[0], 3);
    EXPECT_EQ(ip->payload[1], 13);
    EXPECT_EQ(sum(ip->payload), 0xffff);
    EXPECT_TRUE(std::equal(ip->payload.begin() + 8, ip->payload.end(), frame.begin() + 14, frame.end()));

    const base::Bytes frame6 = frame_of({kBox6, kServer6, base::Bytes(5000, 'x')});
    const auto told6 = unreachable_frame(*parse_ip(frame6), Unreachable::kPort);
    ASSERT_TRUE(told6);
    const auto ip6 = parse_ip(*told6);
    EXPECT_EQ(ip6->protocol, 58);
    EXPECT_EQ(ip6->payload[0], 1);
    EXPECT_EQ(ip6->payload[1], 4);
    EXPECT_LE(ip6->packet.size(), 1280u);
}

TEST(Packet, ErrorsAboutErrorsAndGroupsAreNotTold) {
    const base::Bytes frame = frame_of({kBox, kServer, text("x")});
    const auto error = unreachable_frame(*parse_ip(frame), Unreachable::kHost);
    EXPECT_FALSE(unreachable_frame(*parse_ip(*error), Unreachable::kHost));
    for (const char* group : {"224.0.0.251", "255.255.255.255", "192.168.127.255"})
        EXPECT_FALSE(unreachable_frame(*parse_ip(frame_of({kBox, {*IpAddress::parse(group), 1}, text("x")})),
                                       Unreachable::kHost))
            << group;
    EXPECT_FALSE(unreachable_frame(
        *parse_ip(frame_of({kBox6, {*IpAddress::parse("ff02::fb"), 1}, text("x")})), Unreachable::kHost));
}

// As a host's ping socket gives it, under an identifier of the host's.
TEST(Packet, AnswersToEchoesAreTheBoxsOwn) {
    for (const bool v4 : {true, false}) {
        const base::Bytes message = {static_cast<uint8_t>(v4 ? 0 : 129), 0, 0x12, 0x34, 9, 9, 0, 7, 'd'};
        const IpAddress from = (v4 ? kServer : kServer6).address, to = (v4 ? kBox : kBox6).address;
        const base::Bytes frame = echo_answer(from, to, 0x4242, message, kMac);
        const auto ip = parse_ip(frame);
        ASSERT_TRUE(ip);
        EXPECT_EQ(ip->source, from);
        EXPECT_EQ(ip->destination, to);
        EXPECT_EQ(ip->payload[0], message[0]);
        EXPECT_EQ(base::load_be<uint16_t>(ip->payload.data() + 4), 0x4242);
        EXPECT_EQ(base::load_be<uint16_t>(ip->payload.data() + 6), 7);
        EXPECT_EQ(ip->payload[8], 'd');
        base::Bytes covered(ip->payload.begin(), ip->payload.end());
        if (!v4) {
            // The addresses, the length and the protocol (RFC 4443, 2.3).
            covered.push_back(0);  // to an even number
            covered.insert(covered.end(), ip->packet.begin() + 8, ip->packet.begin() + 40);
            for (const uint8_t byte : {0, 9, 0, 58}) covered.push_back(byte);
        }
        EXPECT_EQ(sum(covered), 0xffff);
    }
}

bool admitted(const base::Bytes& frame) {
    const auto ip = parse_ip(frame);
    return is_for_stack(frame, ip ? &*ip : nullptr, kInterface);
}

// From the box's address, with this protocol and payload.
base::Bytes from_box(uint8_t protocol, const base::Bytes& payload) {
    base::Bytes frame = frame_of({kBox, kServer, payload});
    frame.erase(frame.begin() + 34, frame.begin() + 42);
    base::store_be(&frame[16], static_cast<uint16_t>(20 + payload.size()));
    frame[23] = protocol;
    std::copy(kMac.begin(), kMac.end(), frame.begin() + 6);
    return frame;
}

TEST(Packet, OnlyWhatAnHonestBoxSendsReachesTheStack) {
    for (const base::Bytes& frame : announcements(kInterface)) EXPECT_TRUE(admitted(frame));
    base::Bytes tcp(20);
    tcp[12] = 0x50;
    EXPECT_TRUE(admitted(from_box(6, tcp)));
    tcp[12] = 0x60;
    EXPECT_FALSE(admitted(from_box(6, tcp)));
    tcp[12] = 0x40;
    EXPECT_FALSE(admitted(from_box(6, tcp)));
    EXPECT_FALSE(admitted(from_box(6, base::Bytes(19))));
    EXPECT_TRUE(admitted(from_box(1, {8, 0, 0, 0, 0, 1, 0, 1})));
    EXPECT_FALSE(admitted(from_box(1, {3, 3, 0, 0, 0, 0, 0, 0})));
    EXPECT_FALSE(admitted(from_box(47, base::Bytes(40))));
    tcp[12] = 0x50;
    const base::Bytes good = from_box(6, tcp);
    base::Bytes fragment = good;
    base::store_be<uint16_t>(&fragment[20], 0x2000);
    EXPECT_FALSE(admitted(fragment));
    base::Bytes other = good;
    other[29] = 3;  // 192.168.127.3
    EXPECT_FALSE(admitted(other));
    for (const auto& [address, passes] : {std::pair{"198.51.101.255", true},
                                          {"10.1.2.255", true},
                                          {"240.0.0.1", true},
                                          {"224.0.0.1", false},
                                          {"239.255.255.255", false},
                                          {"255.255.255.255", false},
                                          {"192.168.127.255", false}}) {
        base::Bytes elsewhere = good;
        const IpAddress to = *IpAddress::parse(address);
        std::copy(to.bytes().begin(), to.bytes().end(), elsewhere.begin() + 30);
        EXPECT_EQ(admitted(elsewhere), passes) << address;
    }
    base::Bytes foreign = good;
    foreign[11] = 9;  // another station on the wire
    EXPECT_FALSE(admitted(foreign));
    base::Bytes options = good;
    options[14] = 0x46;
    EXPECT_FALSE(admitted(options));
    for (size_t size = 0; size < good.size(); ++size)
        EXPECT_FALSE(admitted({good.begin(), good.begin() + static_cast<ptrdiff_t>(size)}));
    base::Bytes advert = announcements(kInterface)[1];
    advert.insert(advert.end(), {2, 0, 0, 0, 0, 0, 0, 0});  // an option of no length
    base::store_be<uint16_t>(&advert[18], 32);
    EXPECT_FALSE(admitted(advert));
    advert[advert.size() - 7] = 1;
    EXPECT_TRUE(admitted(advert));
    base::Bytes arp = announcements(kInterface)[0];
    arp[31] = 9;  // the sender is not the box
    EXPECT_FALSE(admitted(arp));
}

}  // namespace
}  // namespace boxlite::net
