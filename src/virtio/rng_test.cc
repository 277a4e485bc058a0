#include "virtio/rng.h"

#include <gtest/gtest.h>

#include "virtio/testing.h"

namespace boxlite::virtio {
namespace {

TEST(Rng, FillsWhatItIsGivenUpToAPage) {
    Rng rng;
    testing::FakeHost host(rng, 8);
    const auto small = host.ram().writable(64);
    EXPECT_EQ(host.request(0, {small}), 64u);
    EXPECT_NE(host.ram().read(small.address, 64), base::Bytes(64));
    const auto large = host.ram().writable(10000);
    EXPECT_EQ(host.request(0, {large}), 4096u);
    EXPECT_EQ(host.ram().read(large.address + 4096, 10000 - 4096), base::Bytes(10000 - 4096));
    EXPECT_EQ(host.notified(0), 2u);
}

TEST(Rng, WritesAcrossSegmentsAndNeverIntoReadableOnes) {
    Rng rng;
    testing::FakeHost host(rng, 8);
    const base::Bytes content(32, 7);
    const auto readable = host.ram().readable(content);
    EXPECT_EQ(host.request(0, {readable}), 0u);
    EXPECT_EQ(host.request(0, {readable, host.ram().writable(3), host.ram().writable(5)}, true), 8u);
    EXPECT_EQ(host.ram().read(readable.address, 32), content);
}

}  // namespace
}  // namespace boxlite::virtio
