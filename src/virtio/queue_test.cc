#include "virtio/queue.h"

#include <gtest/gtest.h>

#include <functional>

#include "virtio/testing.h"

namespace boxlite::virtio {
namespace {

using testing::kDescIndirect;
using testing::kDescNext;
using testing::kDescWrite;
using testing::kRamBase;
using testing::kRamSize;

constexpr uint16_t kEntries = 8;

// A queue and the driver's side of it.
struct Driver : testing::Ram, testing::DriverQueue {
    explicit Driver(uint64_t features = 0) : DriverQueue(static_cast<Ram&>(*this), kEntries) {
        EXPECT_TRUE(queue.start(memory(), addresses(), features).ok());
    }
    void describe(uint64_t table, uint16_t index, uint64_t address, uint32_t length, uint16_t flags,
                  uint16_t next = 0) const {
        DriverQueue::describe(table, index, {address, length, false}, flags, next);
    }
    uint32_t used_u32(uint64_t offset) const { return get<uint32_t>(kUsed + offset); }

    const uint64_t kDescriptors = addresses().descriptors, kAvailable = addresses().available,
                   kUsed = addresses().used, kIndirect = allocate(4096), kData = allocate(8192);
    Queue queue;
};

TEST(GuestMemory, NothingOutsideIsTouched) {
    const Driver d;
    uint8_t bytes[16] = {};
    EXPECT_TRUE(d.memory()->read(kRamBase + kRamSize - 16, bytes));
    EXPECT_FALSE(d.memory()->read(kRamBase + kRamSize - 15, bytes));
    EXPECT_FALSE(d.memory()->read(kRamBase - 1, bytes));
    EXPECT_FALSE(d.memory()->write(UINT64_MAX - 8, bytes));
    EXPECT_EQ(d.memory()->range_for_io(kRamBase, kRamSize + 1).iov_base, nullptr);
    EXPECT_EQ(d.memory()->range_for_io(kRamBase + 8, UINT64_MAX).iov_base, nullptr);
}

TEST(Queue, RequestsComeInOrderAndGoBack) {
    Driver d;
    d.describe(d.kDescriptors, 2, d.kData, 100, kDescNext, 5);
    d.describe(d.kDescriptors, 5, d.kData + 4096, 50, kDescWrite);
    EXPECT_FALSE(d.queue.pop());
    d.offer(2);
    const auto chain = d.queue.pop();
    ASSERT_TRUE(chain);
    EXPECT_EQ(chain->head, 2);
    EXPECT_EQ(chain->readable_bytes(), 100u);
    EXPECT_EQ(chain->writable_bytes(), 50u);
    EXPECT_FALSE(d.queue.pop());
    d.queue.push(2, 33);
    EXPECT_EQ(d.used_u32(4), 2u);
    EXPECT_EQ(d.used_u32(8), 33u);
    EXPECT_EQ(d.used_u32(0) >> 16, 1u);
    EXPECT_TRUE(d.queue.needs_notification());
}

TEST(Queue, IndirectTables) {
    Driver d(kFeatureIndirectDesc);
    d.describe(d.kIndirect, 0, d.kData, 10, kDescNext, 2);
    d.describe(d.kIndirect, 2, d.kData + 64, 20, kDescWrite);
    d.describe(d.kDescriptors, 0, d.kIndirect, 48, kDescIndirect);
    d.offer(0);
    const auto chain = d.queue.pop();
    ASSERT_TRUE(chain);
    EXPECT_EQ(chain->readable_bytes(), 10u);
    EXPECT_EQ(chain->writable_bytes(), 20u);
}

TEST(Queue, MalformedRingsBreakTheQueueAndNothingElse) {
    const auto broken_by = [](uint64_t features, const std::function<void(Driver&)>& prepare) {
        Driver d(features);
        prepare(d);
        d.offer(0);
        EXPECT_FALSE(d.queue.pop());
        EXPECT_FALSE(d.queue.running());
        d.offer(1);
        EXPECT_FALSE(d.queue.pop());
        return d.queue.broken();
    };
    EXPECT_NE(broken_by(0, [](Driver& d) { d.describe(d.kDescriptors, 0, d.kData, 1, kDescNext, 0); })
                  .find("loops"),
              std::string::npos);
    EXPECT_NE(broken_by(0, [](Driver& d) { d.describe(d.kDescriptors, 0, d.kData, 1, kDescNext, kEntries); })
                  .find("index"),
              std::string::npos);
    EXPECT_NE(broken_by(0, [](Driver& d) { d.describe(d.kDescriptors, 0, kRamBase + kRamSize - 1, 2, 0); })
                  .find("outside"),
              std::string::npos);
    EXPECT_NE(
        broken_by(0, [](Driver& d) { d.describe(d.kDescriptors, 0, UINT64_MAX, 2, 0); }).find("outside"),
        std::string::npos);
    EXPECT_NE(broken_by(0, [](Driver& d) { d.describe(d.kDescriptors, 0, d.kIndirect, 16, kDescIndirect); })
                  .find("indirect"),
              std::string::npos);
    EXPECT_NE(broken_by(kFeatureIndirectDesc,
                        [](Driver& d) {
                            d.describe(d.kDescriptors, 0, d.kIndirect, 16, kDescIndirect);
                            d.describe(d.kIndirect, 0, d.kIndirect, 16, kDescIndirect);
                        })
                  .find("indirect"),
              std::string::npos);
    EXPECT_NE(broken_by(kFeatureIndirectDesc,
                        [](Driver& d) { d.describe(d.kDescriptors, 0, d.kIndirect, 17, kDescIndirect); })
                  .find("size"),
              std::string::npos);
    EXPECT_NE(broken_by(0,
                        [](Driver& d) {
                            d.describe(d.kDescriptors, 0, d.kData, 1, kDescNext | kDescWrite, 1);
                            d.describe(d.kDescriptors, 1, d.kData, 1, 0);
                        })
                  .find("readable"),
              std::string::npos);
}

TEST(Queue, AnAvailableIndexThatJumpsBreaksTheQueue) {
    Driver d;
    d.set_available_index(kEntries + 1);
    EXPECT_FALSE(d.queue.pop());
    EXPECT_FALSE(d.queue.running());
}

TEST(Queue, RingsOutsideOfMemoryAreRefused) {
    Driver d;
    Queue queue;
    EXPECT_FALSE(
        queue.start(d.memory(), {kEntries, kRamBase + kRamSize - 64, d.kAvailable, d.kUsed, 0}, 0).ok());
    EXPECT_FALSE(queue.start(d.memory(), {kEntries, d.kDescriptors, 8, d.kUsed, 0}, 0).ok());
    EXPECT_FALSE(queue.start(d.memory(), {kEntries, d.kDescriptors, d.kAvailable, d.kUsed + 2, 0}, 0).ok());
    EXPECT_FALSE(queue.start(d.memory(), {6, d.kDescriptors, d.kAvailable, d.kUsed, 0}, 0).ok());
    EXPECT_FALSE(queue.start(d.memory(), {2048, d.kDescriptors, d.kAvailable, d.kUsed, 0}, 0).ok());
}

// virtio 1.2, 2.7.10: with the event index, only crossing it is worth an interrupt.
TEST(Queue, EventIndexSuppressesInterrupts) {
    Driver d(kFeatureEventIdx);
    d.describe(d.kDescriptors, 0, d.kData, 1, 0);
    const auto push_one = [&] {
        d.offer(0);
        d.queue.push(d.queue.pop()->head, 0);
        return d.queue.needs_notification();
    };
    EXPECT_TRUE(push_one());  // the first is always told
    const uint16_t wanted = 3;
    ASSERT_TRUE(d.memory()->write_value(d.kAvailable + 4 + 2 * uint64_t{kEntries}, wanted));
    EXPECT_FALSE(push_one());
    EXPECT_FALSE(push_one());
    EXPECT_TRUE(push_one());
    EXPECT_FALSE(d.queue.needs_notification());
}

TEST(Queue, SegmentsCopyAcrossBorders) {
    Driver d;
    const std::vector<Segment> segments = {{d.kData, 3}, {d.kData + 100, 5}};
    const uint8_t bytes[] = {1, 2, 3, 4, 5, 6};
    ASSERT_TRUE(write_segments(*d.memory(), segments, 2, bytes));
    uint8_t back[6] = {};
    ASSERT_TRUE(read_segments(*d.memory(), segments, 2, back));
    EXPECT_TRUE(std::equal(std::begin(bytes), std::end(bytes), back));
    uint8_t third = 0;
    ASSERT_TRUE(d.memory()->read_value(d.kData + 101, &third));
    EXPECT_EQ(third, 3);
    EXPECT_FALSE(write_segments(*d.memory(), segments, 3, bytes));
    const auto parts = segments_for_io(*d.memory(), segments, 2, 4);
    ASSERT_EQ(parts.size(), 2u);
    EXPECT_EQ(parts[0].iov_len, 1u);
    EXPECT_EQ(parts[1].iov_len, 3u);
}

}  // namespace
}  // namespace boxlite::virtio
