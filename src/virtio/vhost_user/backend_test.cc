#include "virtio/vhost_user/backend.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include "virtio/vhost_user/testing.h"

namespace boxlite::virtio::vhost_user {
namespace {

struct BackendTest : ::testing::Test {
    void start() {
        driver.send(kSetOwner);
        driver.send(kSetFeatures, kFeatureVersion1 | kFeatureIndirectDesc);
        driver.share(ram);
        for (uint32_t i = 0; i < 2; ++i) {
            driver.set_up(i, queues[i].addresses());
            driver.enable(i);
        }
        ASSERT_FALSE(driver.closed) << *driver.closed;
    }
    // Whether a request on this queue is answered.
    bool answers(uint32_t index) {
        queues[index].post({ram.readable(base::Bytes(5))});
        driver.signal(index);
        const auto used = queues[index].take_used();
        return used && used->written == 5;
    }

    testing::EchoDevice device;
    testing::Ram ram;
    testing::DriverQueue queues[2] = {{ram, 8}, {ram, 8}};
    testing::Driver driver{device};
};

TEST_F(BackendTest, OffersFeatures) {
    EXPECT_EQ(driver.ask_u64(kGetFeatures), 1ull << 5 | 1ull << 28 | 1ull << 29 | 1ull << 30 | 1ull << 32);
    EXPECT_EQ(driver.ask_u64(kGetProtocolFeatures), 1ull << 0 | 1ull << 9);
    EXPECT_EQ(driver.ask_u64(kGetQueueNum), 2u);
    driver.send(kSetProtocolFeatures, uint64_t{1 << 9});
    EXPECT_FALSE(driver.closed);
}

TEST_F(BackendTest, AnswersTheConfiguration) {
    driver.send(kGetConfig, Config{0, 8, 0, {}});
    const auto payload = driver.reply(kGetConfig);
    ASSERT_TRUE(payload);
    EXPECT_EQ(*payload, (base::Bytes{0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 0, 0, 0, 0}));
}

TEST_F(BackendTest, AnswersAnEmptyConfiguration) {
    testing::EchoDevice bare{base::Bytes{}};
    testing::Driver other(bare);
    other.send(kGetConfig, Config{0, 2, 0, {}});
    EXPECT_EQ(other.reply(kGetConfig), (base::Bytes{0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
}

TEST_F(BackendTest, CarriesRequestsAndInterrupts) {
    start();
    (void)driver.called(1);  // a queue that starts may call once, to be on the safe side
    EXPECT_TRUE(answers(0));
    EXPECT_TRUE(driver.called(0));
    EXPECT_FALSE(driver.called(1));
    EXPECT_TRUE(answers(1));
}

TEST_F(BackendTest, RequestsPostedBeforeTheStartAreServed) {
    queues[0].post({ram.readable(base::Bytes(5))});
    start();
    EXPECT_TRUE(queues[0].take_used());
}

TEST_F(BackendTest, KickBeforeSetupIsHarmless) {
    driver.kick[0] = base::make_eventfd().value();
    driver.send(kSetVringKick, uint64_t{0}, {driver.kick[0].get()});
    driver.signal(0);
    driver.enable(0);
    driver.signal(0);
    EXPECT_FALSE(driver.closed);
    EXPECT_EQ(device.processed, 0u);
    start();
    EXPECT_TRUE(answers(0));
}

TEST_F(BackendTest, StopsAndResumesWhereItWas) {
    start();
    ASSERT_TRUE(answers(0) && answers(0));
    driver.send(kGetVringBase, VringState{0, 0});
    EXPECT_EQ(driver.reply(kGetVringBase), (base::Bytes{0, 0, 0, 0, 2, 0, 0, 0}));
    EXPECT_FALSE(answers(0));
    EXPECT_TRUE(answers(1));
    driver.enable(0);
    EXPECT_TRUE(queues[0].take_used());
    EXPECT_TRUE(answers(0));
}

TEST_F(BackendTest, ADriverThatGoesResetsTheDevice) {
    start();
    driver.socket.reset();
    driver.turn();
    EXPECT_EQ(driver.closed, "");
    EXPECT_EQ(device.resets, 1u);
    driver.signal(0);
    EXPECT_FALSE(queues[0].take_used());
}

TEST_F(BackendTest, ABrokenQueueLeavesTheOthersAlone) {
    start();
    queues[0].set_available_index(100);
    driver.signal(0);
    const size_t processed = device.processed;
    driver.signal(0);
    EXPECT_EQ(device.processed, processed);
    EXPECT_TRUE(answers(1));
    EXPECT_FALSE(driver.closed);
}

TEST_F(BackendTest, AGuestThatBreaksAQueueAgainAndAgainIsReportedOnce) {
    start();
    ::testing::internal::CaptureStderr();
    for (int i = 0; i < 3; ++i) {
        queues[0].set_available_index(100);
        driver.signal(0);
        queues[0].set_available_index(0);
        driver.set_up(0, queues[0].addresses());
        driver.enable(0);
    }
    const std::string log = ::testing::internal::GetCapturedStderr();
    EXPECT_EQ(log.find("broke a virtqueue"), log.rfind("broke a virtqueue"));
    EXPECT_NE(log.find("broke a virtqueue"), std::string::npos);
    EXPECT_TRUE(answers(0));
}

TEST_F(BackendTest, AFullOrClosedCallDescriptorDoesNotStopTheDevice) {
    start();
    base::FdPair pipe = base::make_pipe(O_NONBLOCK).value();
    const base::Bytes page(4096);
    while (::write(pipe.second.get(), page.data(), page.size()) > 0) {
    }
    ASSERT_TRUE(base::set_nonblocking(pipe.second.get(), false).ok());
    driver.send(kSetVringCall, uint64_t{0}, {pipe.second.get()});
    EXPECT_TRUE(answers(0));
    ASSERT_NE(::signal(SIGPIPE, SIG_IGN), SIG_ERR);  // as the supervisor does
    pipe.first.reset();
    EXPECT_TRUE(answers(0));
}

// A descriptor that is always ready and never a kick would keep the loop busy for ever.
TEST_F(BackendTest, AKickDescriptorThatCannotKickStopsItsQueue) {
    start();
    base::FdPair ended = base::make_pipe(O_NONBLOCK).value();
    ended.second.reset();
    driver.send(kSetVringKick, uint64_t{0}, {ended.first.get()});
    driver.turn();
    const size_t processed = device.processed;
    driver.turn();
    driver.turn();
    EXPECT_EQ(device.processed, processed);
    EXPECT_TRUE(answers(1));
}

}  // namespace
}  // namespace boxlite::virtio::vhost_user
