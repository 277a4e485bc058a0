#include "net/flow.h"

#include <gtest/gtest.h>

namespace boxlite::net {
namespace {

const Endpoint kPeer{*IpAddress::parse("93.184.216.34"), 443};

struct FlowLogTest : ::testing::Test {
    std::unique_ptr<base::EventLoop> loop = base::EventLoop::make().value();
    std::vector<v1::Flow> told;
    FlowLog log{*loop, [this](const v1::FlowReport& report) {
                    told.insert(told.end(), report.flows().begin(), report.flows().end());
                }};
};

TEST_F(FlowLogTest, CountsWhatIsOpenAndWhatFailed) {
    const Flow good = log.open(Protocol::kTcp, kPeer, {true, "rule", "name", false});
    Flow bad = log.open(Protocol::kTcp, kPeer, {true, "rule", "name", false});
    const Flow other = log.open(Protocol::kUdp, kPeer, {true, "rule", "name", false});
    EXPECT_EQ(log.open_tcp(), 2u);
    EXPECT_EQ(log.open_flows(), 3u);
    log.close(good);
    log.close(other);
    EXPECT_EQ(log.tcp_errors(), 0u);
    bad.error = "no answer";
    log.close(bad);
    EXPECT_EQ(log.open_tcp(), 0u);
    EXPECT_EQ(log.tcp_errors(), 1u);
    log.flush();
    ASSERT_EQ(told.size(), 3u);
    EXPECT_EQ(told[2].error(), "no answer");
}

TEST_F(FlowLogTest, ARefusalCountsOnceAlsoOfWhatWasOpen) {
    log.refuse("udp", kPeer, "", "rule");
    EXPECT_EQ(log.tcp_errors(), 0u);
    log.refuse("tcp", kPeer, "", "rule");
    log.refuse("tcp", kPeer, "", "rule");
    EXPECT_EQ(log.tcp_errors(), 2u);
    Flow open = log.open(Protocol::kTcp, kPeer, {true, "rule", "", false});
    log.refuse("tcp", kPeer, "", "a new rule");
    open.error = "the rules were changed";
    open.refused = true;
    log.close(open);
    EXPECT_EQ(log.tcp_errors(), 3u);
    log.flush();
    EXPECT_EQ(told.size(), 4u);  // what repeats itself is told once
}

}  // namespace
}  // namespace boxlite::net
