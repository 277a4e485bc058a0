#include "net/echo.h"

#include <gtest/gtest.h>

namespace boxlite::net {
namespace {

constexpr MacAddress kMac = {2, 0, 0, 0, 0, 1};

struct EchoTest : ::testing::Test {
    void ask(const char* from, const char* to) {
        const IpAddress source = *IpAddress::parse(from), destination = *IpAddress::parse(to);
        const bool v4 = source.is_v4();
        const base::Bytes message = {static_cast<uint8_t>(v4 ? 8 : 128), 0, 0, 0, 1, 2, 0, 1};
        base::Bytes frame = ip_frame(source, destination, v4 ? 1 : 58, message.size(), {});
        std::copy(kMac.begin(), kMac.end(), frame.begin() + 6);
        std::copy(message.begin(), message.end(), frame.end() - 8);
        const auto ip = parse_ip(frame);
        ASSERT_TRUE(ip && is_echo_request(*ip));
        echoes.input(*ip);
    }

    std::unique_ptr<base::EventLoop> loop = base::EventLoop::make().value();
    Policy policy = Policy::parse({{}, {}}).value();
    Pins pins;
    Proxies proxies;
    StandIns stand_ins;
    FlowLog log{*loop, [](const v1::FlowReport&) {}};
    Dialing dialing{policy, pins, proxies, stand_ins};
    std::vector<base::Bytes> frames;
    Echoes echoes{*loop, dialing, log,
                  [this](base::ByteView frame) { frames.emplace_back(frame.begin(), frame.end()); }};
};

TEST_F(EchoTest, WhatTheRulesRefuseIsAnsweredAtOnce) {
    for (const auto& [from, to, type, code] :
         {std::tuple("192.168.127.2", "10.0.0.1", 3, 13), std::tuple("fd00::2", "fd12::1", 1, 1)}) {
        ask(from, to);
        ASSERT_EQ(frames.size(), 1u) << to;
        const auto ip = parse_ip(frames[0]);
        EXPECT_EQ(ip->destination, *IpAddress::parse(from));
        EXPECT_EQ(ip->payload[0], type);
        EXPECT_EQ(ip->payload[1], code);
        frames.clear();
    }
    EXPECT_EQ(log.refused(), 2u);
    EXPECT_EQ(log.open_flows(), 0u);
}

}  // namespace
}  // namespace boxlite::net
