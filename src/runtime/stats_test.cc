#include <gtest/gtest.h>

#include "boxlite/box.h"

namespace boxlite {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;

TEST(Stats, TheProcessorsUseIsWhatCameBetweenTwoReadings) {
    const BoxStats from{.time_ns = 7 * int64_t{kSecond}, .cpu_ns = 3 * kSecond};
    BoxStats to{.time_ns = 9 * int64_t{kSecond}, .cpu_ns = 4 * kSecond};
    EXPECT_DOUBLE_EQ(cpu_percent(from, to), 50);
    to.cpu_ns = 7 * kSecond;
    EXPECT_DOUBLE_EQ(cpu_percent(from, to), 200);
    // Of another run of the box, or no time apart.
    to.cpu_ns = kSecond;
    EXPECT_DOUBLE_EQ(cpu_percent(from, to), 0);
    EXPECT_DOUBLE_EQ(cpu_percent(from, from), 0);
}

}  // namespace
}  // namespace boxlite
