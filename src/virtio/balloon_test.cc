#include "virtio/balloon.h"

#include <gtest/gtest.h>

#include "virtio/testing.h"

namespace boxlite::virtio {
namespace {

constexpr uint64_t kPage = Balloon::kPage;
const base::Bytes kZeroes(kPage);
const base::Bytes kContent(kPage, 7);

// A guest with some pages of content behind the rest of its memory.
class BalloonTest : public ::testing::Test {
  protected:
    using Buffer = testing::Buffer;

    BalloonTest()
        : host_(balloon_, 8), first_((host_.ram().allocate(2 * kPage * kPages) + kPage) & ~(kPage - 1)) {
        for (uint64_t i = 0; i < kPages; ++i) host_.ram().write(page(i), kContent);
    }
    uint64_t page(uint64_t index) const { return first_ + index * kPage; }
    bool is_there(uint64_t index) { return host_.ram().read(page(index), kPage) == kContent; }
    Buffer numbers_of(const std::vector<uint64_t>& addresses) {
        base::Bytes numbers(addresses.size() * sizeof(uint32_t));
        for (size_t i = 0; i < addresses.size(); ++i)
            base::store_le(numbers.data() + i * sizeof(uint32_t),
                           static_cast<uint32_t>(addresses[i] / kPage));
        return host_.ram().readable(numbers);
    }

    static constexpr uint64_t kPages = 8;
    Balloon balloon_;
    testing::FakeHost host_;
    uint64_t first_;
};

TEST_F(BalloonTest, TakesThePagesThatItIsGivenInAnyOrderAndNoOthers) {
    EXPECT_EQ(
        host_.request(Balloon::kInflateQueue, {numbers_of({page(1), page(2), page(6), page(5), page(0)})}),
        0u);
    for (const uint64_t taken : {0, 1, 2, 5, 6})
        EXPECT_EQ(host_.ram().read(page(taken), kPage), kZeroes) << taken;
    for (const uint64_t left : {3, 4, 7}) EXPECT_TRUE(is_there(left)) << left;
    EXPECT_EQ(host_.request(Balloon::kDeflateQueue, {numbers_of({page(1), page(3)})}), 0u);
    EXPECT_TRUE(is_there(3));
}

TEST_F(BalloonTest, TakesReportedRangesInWholePages) {
    const Buffer reported{page(2), static_cast<uint32_t>(2 * kPage), true},
        ragged{page(5) - 100, static_cast<uint32_t>(kPage + 200), true}, small{page(7) + 10, 100, true};
    EXPECT_EQ(host_.request(Balloon::kReportingQueue, {reported, ragged, small}), 0u);
    for (const uint64_t taken : {2, 3, 5}) EXPECT_EQ(host_.ram().read(page(taken), kPage), kZeroes) << taken;
    for (const uint64_t left : {0, 1, 4, 6, 7}) EXPECT_TRUE(is_there(left)) << left;
    // What the driver may not have written to is not given back.
    EXPECT_EQ(host_.request(Balloon::kReportingQueue, {{page(0), static_cast<uint32_t>(kPage), false}}), 0u);
    EXPECT_TRUE(is_there(0));
}

TEST_F(BalloonTest, NoPageOutsideTheMemoryHarms) {
    const uint64_t last = uint64_t{UINT32_MAX} * kPage;
    EXPECT_EQ(host_.request(Balloon::kInflateQueue,
                            {numbers_of({0, last, page(0) + (uint64_t{1} << 40), page(4)})}),
              0u);
    EXPECT_EQ(host_.ram().read(page(4), kPage), kZeroes);
    EXPECT_EQ(host_.request(Balloon::kInflateQueue, {host_.ram().readable(base::Bytes(3))}), 0u);
    // The queue itself refuses a buffer that is none.
    EXPECT_FALSE(host_.request(Balloon::kReportingQueue, {{~uint64_t{0} - 10, 4096, true}}));
}

TEST_F(BalloonTest, TellsTheDriverHowLargeItIsToBe) {
    EXPECT_EQ(base::load_le<uint32_t>(balloon_.config().data()), 0u);
    balloon_.set_size(5 * kPage);
    host_.turn();
    EXPECT_EQ(host_.config_changes(), 1u);
    EXPECT_EQ(base::load_le<uint32_t>(balloon_.config().data()), 5u);
}

}  // namespace
}  // namespace boxlite::virtio
