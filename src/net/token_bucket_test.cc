#include "net/token_bucket.h"

#include <gtest/gtest.h>

namespace boxlite::net {
namespace {

using std::chrono::milliseconds;

TEST(TokenBucket, KeepsItsRateOverTime) {
    base::Clock::time_point now{};
    TokenBucket bucket(1'000'000, now);
    uint64_t taken = 0;
    const auto end = now + std::chrono::seconds(10);
    while (now < end) {
        const auto wait = bucket.wait(now);
        now += wait;
        if (wait.count() > 0) continue;
        bucket.take(60'000);
        taken += 60'000;
    }
    EXPECT_NEAR(static_cast<double>(taken), 10'000'000, 300'000);
}

TEST(TokenBucket, IdleTimeIsNotSavedUp) {
    base::Clock::time_point now{};
    TokenBucket bucket(1000, now);
    now += std::chrono::hours(1);
    EXPECT_EQ(bucket.wait(now).count(), 0);
    bucket.take(1100);
    EXPECT_NEAR(static_cast<double>(bucket.wait(now).count()), 1000, 2);
    EXPECT_EQ(bucket.wait(now + milliseconds(1010)).count(), 0);
}

TEST(TokenBucket, WithoutARateThereIsNoLimit) {
    TokenBucket bucket(0);
    bucket.take(UINT64_MAX);
    EXPECT_EQ(bucket.wait(base::Clock::now()).count(), 0);
}

}  // namespace
}  // namespace boxlite::net
