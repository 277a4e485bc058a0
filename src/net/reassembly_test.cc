#include "net/reassembly.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace boxlite::net {
namespace {

constexpr MacAddress kMac = {2, 0, 0, 0, 0, 1};
constexpr uint8_t kUdp = 17, kFragmentType = 44;

struct Family {
    Endpoint box, server;
    bool v4() const { return box.address.is_v4(); }
};
const Family kFamilies[] = {
    {{*IpAddress::parse("192.168.127.2"), 4242}, {*IpAddress::parse("93.184.216.34"), 53}},
    {{*IpAddress::parse("fd00::2"), 4242}, {*IpAddress::parse("2606:4700::1"), 53}},
};

base::Bytes random_payload(size_t size) {
    std::mt19937 generator(7);
    base::Bytes bytes(size);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(generator());
    return bytes;
}

// A fragment of a packet, as RFC 791 and RFC 8200 lay it out.
base::Bytes fragment(const base::Bytes& frame, size_t offset, size_t size, bool more, uint16_t id = 77) {
    const bool v4 = base::load_be<uint16_t>(&frame[12]) == 0x0800;
    const size_t header = 14 + (v4 ? 20 : 40);
    base::Bytes piece(frame.begin(), frame.begin() + static_cast<ptrdiff_t>(header));
    const auto from = frame.begin() + static_cast<ptrdiff_t>(header + offset);
    if (v4) {
        base::store_be(&piece[16], static_cast<uint16_t>(20 + size));
        base::store_be(&piece[18], id);
        base::store_be(&piece[20], static_cast<uint16_t>(offset / 8 | (more ? 0x2000 : 0)));
    } else {
        base::store_be(&piece[18], static_cast<uint16_t>(8 + size));
        piece[20] = kFragmentType;
        base::Bytes extension(8);
        extension[0] = frame[20];
        base::store_be(&extension[2], static_cast<uint16_t>(offset | (more ? 1 : 0)));
        base::store_be<uint32_t>(&extension[4], id);
        piece.insert(piece.end(), extension.begin(), extension.end());
    }
    piece.insert(piece.end(), from, from + static_cast<ptrdiff_t>(size));
    return piece;
}

std::vector<base::Bytes> fragments(const base::Bytes& frame, size_t step, uint16_t id = 77) {
    const size_t header = 14 + (base::load_be<uint16_t>(&frame[12]) == 0x0800 ? 20 : 40);
    std::vector<base::Bytes> all;
    for (size_t at = 0; at < frame.size() - header; at += step) {
        const size_t size = std::min(step, frame.size() - header - at);
        all.push_back(fragment(frame, at, size, header + at + size < frame.size(), id));
    }
    return all;
}

struct ReassemblyTest : ::testing::Test {
    std::optional<base::Bytes> add(const base::Bytes& frame) {
        const auto ip = parse_ip(frame);
        EXPECT_TRUE(ip && ip->fragment);
        return reassembly.add(frame, *ip, now);
    }
    std::optional<base::Bytes> add_all(const std::vector<base::Bytes>& frames) {
        std::optional<base::Bytes> whole;
        for (const base::Bytes& frame : frames) {
            EXPECT_FALSE(whole) << "it was complete before the last one";
            whole = add(frame);
        }
        return whole;
    }
    Reassembly reassembly;
    base::Clock::time_point now = base::Clock::now();
};

TEST_F(ReassemblyTest, DatagramsComeBackAsTheyWereInAnyOrder) {
    for (const Family& family : kFamilies)
        for (const size_t size : {size_t{100}, size_t{8000}, size_t{65507 - 20}})
            for (int order = 0; order < 3; ++order) {
                const base::Bytes payload = random_payload(size);
                auto pieces =
                    fragments(udp_frame({family.box, family.server, payload}, kMac), size > 1000 ? 1280 : 16);
                if (order == 1) std::reverse(pieces.begin(), pieces.end());
                if (order == 2) std::shuffle(pieces.begin(), pieces.end(), std::mt19937(3));
                const auto whole = add_all(pieces);
                ASSERT_TRUE(whole) << size << " " << order;
                const auto datagram = parse_udp(*parse_ip(*whole));
                ASSERT_TRUE(datagram) << "its checksum holds";
                EXPECT_EQ(datagram->source, family.box);
                EXPECT_EQ(datagram->destination, family.server);
                EXPECT_TRUE(std::equal(payload.begin(), payload.end(), datagram->payload.begin(),
                                       datagram->payload.end()));
                EXPECT_EQ(reassembly.under_way(), 0u);
            }
}

TEST_F(ReassemblyTest, OnesThatComeTwiceDoNoHarm) {
    for (const Family& family : kFamilies) {
        const auto pieces = fragments(udp_frame({family.box, family.server, random_payload(300)}, kMac), 104);
        ASSERT_FALSE(add(pieces[0]) || add(pieces[0]) || add(pieces[1]) || add(pieces[1]));
        EXPECT_TRUE(add(pieces[2]));
    }
}

TEST_F(ReassemblyTest, PacketsAreToldApart) {
    for (const Family& family : kFamilies) {
        const base::Bytes a = random_payload(200), b(200, 'b');
        const auto first = fragments(udp_frame({family.box, family.server, a}, kMac), 104, 1);
        const auto second = fragments(udp_frame({family.box, family.server, b}, kMac), 104, 2);
        ASSERT_FALSE(add(first[0]) || add(second[0]));
        const auto whole = add(second[1]);
        ASSERT_TRUE(whole);
        EXPECT_EQ(parse_udp(*parse_ip(*whole))->payload[0], 'b');
        EXPECT_TRUE(add(first[1]));
    }
}

TEST_F(ReassemblyTest, WhatContradictsItselfIsGivenUp) {
    for (const Family& family : kFamilies) {
        const base::Bytes frame = udp_frame({family.box, family.server, random_payload(792)}, kMac);
        const auto gives_up = [&](const std::vector<base::Bytes>& pieces) {
            for (const base::Bytes& piece : pieces) EXPECT_FALSE(add(piece));
            EXPECT_EQ(reassembly.under_way(), 0u);
        };
        gives_up({fragment(frame, 0, 400, true), fragment(frame, 392, 408, false)});  // an overlap
        gives_up({fragment(frame, 400, 400, false), fragment(frame, 0, 408, true)});
        gives_up({fragment(frame, 400, 400, false), fragment(frame, 8, 392, false)});  // two ends
        gives_up({fragment(frame, 8, 392, false), fragment(frame, 400, 400, true)});   // behind the end
        gives_up({fragment(frame, 400, 400, true), fragment(frame, 8, 392, false)});   // the end in front
        gives_up({fragment(frame, 0, 401, true)});  // only the last may be odd
        gives_up({fragment(frame, 0, 0, true)});
    }
    // Longer than any packet.
    for (const Family& family : kFamilies) {
        base::Bytes piece =
            fragment(udp_frame({family.box, family.server, random_payload(792)}, kMac), 0, 800, false);
        base::store_be<uint16_t>(&piece[family.v4() ? 20 : 14 + 40 + 2], family.v4() ? 0x1fff : 0xfff8);
        EXPECT_FALSE(add(piece));
        EXPECT_EQ(reassembly.under_way(), 0u);
    }
    base::Bytes nested =
        fragment(udp_frame({kFamilies[1].box, kFamilies[1].server, base::Bytes(8)}, kMac), 0, 16, false);
    nested[14 + 40] = kFragmentType;
    EXPECT_FALSE(add(nested));
}

TEST_F(ReassemblyTest, MemoryAndTimeAreBounded) {
    for (const Family& family : kFamilies) {
        const base::Bytes frame = udp_frame({family.box, family.server, random_payload(64000)}, kMac);
        for (uint16_t id = 0; id < 1000; ++id) EXPECT_FALSE(add(fragment(frame, 63000, 1000, true, id)));
        EXPECT_EQ(reassembly.under_way(), Reassembly::kMaxPackets);
        for (uint16_t i = 0; i < 2 * Reassembly::kMaxFragments; ++i)
            EXPECT_FALSE(add(fragment(frame, size_t{i} * 16, 8, true, 5000)));
        now += Reassembly::kTime + std::chrono::seconds(1);
        const auto pieces = fragments(frame, 32000, 6000);
        EXPECT_TRUE(add_all(pieces)) << "what is left of the others does not hinder it";
        EXPECT_EQ(reassembly.under_way(), 0u);
    }
}

}  // namespace
}  // namespace boxlite::net
