#include "virtio/queue.h"

#include <gtest/gtest.h>

#include <functional>

#include "base/fd.h"

namespace boxlite::virtio {
namespace {

constexpr uint64_t kBase = 0x100000;  // where guest memory starts
constexpr uint64_t kSize = 1 << 20;
constexpr uint16_t kEntries = 8;

// The driver's side of a queue, as virtio 1.2, 2.7 lays it out.
class Driver {
  public:
    explicit Driver(uint64_t features = 0) {
        const base::Fd fd = base::make_memfd("guest", kSize).value();
        std::vector<GuestMemory::Region> regions;
        regions.push_back({kBase, MappedMemory::map(fd.get(), 0, kSize).value()});
        memory = GuestMemory::make(std::move(regions)).value();
        EXPECT_TRUE(queue.start(memory, {kEntries, kDescriptors, kAvailable, kUsed, 0}, features).ok());
    }

    void describe(uint64_t table, uint16_t index, uint64_t address, uint32_t length, uint16_t flags,
                  uint16_t next = 0) {
        const uint64_t at = table + index * 16u;
        EXPECT_TRUE(memory->write_value(at, address) && memory->write_value(at + 8, length) &&
                    memory->write_value(at + 12, flags) && memory->write_value(at + 14, next));
    }
    void offer(uint16_t head) {
        EXPECT_TRUE(memory->write_value(kAvailable + 4 + 2u * (available % kEntries), head));
        set_available(++available);
    }
    void set_available(uint16_t index) { EXPECT_TRUE(memory->write_value(kAvailable + 2, index)); }
    uint32_t used_u32(uint64_t offset) {
        uint32_t value = 0;
        EXPECT_TRUE(memory->read_value(kUsed + offset, &value));
        return value;
    }

    static constexpr uint64_t kDescriptors = kBase, kAvailable = kBase + 0x1000, kUsed = kBase + 0x2000,
                              kIndirect = kBase + 0x3000, kData = kBase + 0x10000;
    std::shared_ptr<const GuestMemory> memory;
    Queue queue;
    uint16_t available = 0;
};

constexpr uint16_t kNext = 1, kWrite = 2, kIndirectFlag = 4;

TEST(GuestMemory, NothingOutsideIsTouched) {
    const Driver d;
    uint8_t bytes[16] = {};
    EXPECT_TRUE(d.memory->read(kBase + kSize - 16, bytes));
    EXPECT_FALSE(d.memory->read(kBase + kSize - 15, bytes));
    EXPECT_FALSE(d.memory->read(kBase - 1, bytes));
    EXPECT_FALSE(d.memory->write(UINT64_MAX - 8, bytes));
    EXPECT_EQ(d.memory->range_for_io(kBase, kSize + 1).iov_base, nullptr);
    EXPECT_EQ(d.memory->range_for_io(kBase + 8, UINT64_MAX).iov_base, nullptr);
}

TEST(Queue, RequestsComeInOrderAndGoBack) {
    Driver d;
    d.describe(d.kDescriptors, 2, d.kData, 100, kNext, 5);
    d.describe(d.kDescriptors, 5, d.kData + 4096, 50, kWrite);
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
    d.describe(d.kIndirect, 0, d.kData, 10, kNext, 2);
    d.describe(d.kIndirect, 2, d.kData + 64, 20, kWrite);
    d.describe(d.kDescriptors, 0, d.kIndirect, 48, kIndirectFlag);
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
    EXPECT_NE(
        broken_by(0, [](Driver& d) { d.describe(d.kDescriptors, 0, d.kData, 1, kNext, 0); }).find("loops"),
        std::string::npos);
    EXPECT_NE(broken_by(0, [](Driver& d) { d.describe(d.kDescriptors, 0, d.kData, 1, kNext, kEntries); })
                  .find("index"),
              std::string::npos);
    EXPECT_NE(broken_by(0, [](Driver& d) { d.describe(d.kDescriptors, 0, kBase + kSize - 1, 2, 0); })
                  .find("outside"),
              std::string::npos);
    EXPECT_NE(
        broken_by(0, [](Driver& d) { d.describe(d.kDescriptors, 0, UINT64_MAX, 2, 0); }).find("outside"),
        std::string::npos);
    EXPECT_NE(broken_by(0, [](Driver& d) { d.describe(d.kDescriptors, 0, d.kIndirect, 16, kIndirectFlag); })
                  .find("indirect"),
              std::string::npos);
    EXPECT_NE(broken_by(kFeatureIndirectDesc,
                        [](Driver& d) {
                            d.describe(d.kDescriptors, 0, d.kIndirect, 16, kIndirectFlag);
                            d.describe(d.kIndirect, 0, d.kIndirect, 16, kIndirectFlag);
                        })
                  .find("indirect"),
              std::string::npos);
    EXPECT_NE(broken_by(kFeatureIndirectDesc,
                        [](Driver& d) { d.describe(d.kDescriptors, 0, d.kIndirect, 17, kIndirectFlag); })
                  .find("size"),
              std::string::npos);
    EXPECT_NE(broken_by(0,
                        [](Driver& d) {
                            d.describe(d.kDescriptors, 0, d.kData, 1, kNext | kWrite, 1);
                            d.describe(d.kDescriptors, 1, d.kData, 1, 0);
                        })
                  .find("readable"),
              std::string::npos);
}

TEST(Queue, AnAvailableIndexThatJumpsBreaksTheQueue) {
    Driver d;
    d.set_available(kEntries + 1);
    EXPECT_FALSE(d.queue.pop());
    EXPECT_FALSE(d.queue.running());
}

TEST(Queue, RingsOutsideOfMemoryAreRefused) {
    Driver d;
    Queue queue;
    EXPECT_FALSE(queue.start(d.memory, {kEntries, kBase + kSize - 64, d.kAvailable, d.kUsed, 0}, 0).ok());
    EXPECT_FALSE(queue.start(d.memory, {kEntries, d.kDescriptors, 8, d.kUsed, 0}, 0).ok());
    EXPECT_FALSE(queue.start(d.memory, {kEntries, d.kDescriptors, d.kAvailable, d.kUsed + 2, 0}, 0).ok());
    EXPECT_FALSE(queue.start(d.memory, {6, d.kDescriptors, d.kAvailable, d.kUsed, 0}, 0).ok());
    EXPECT_FALSE(queue.start(d.memory, {2048, d.kDescriptors, d.kAvailable, d.kUsed, 0}, 0).ok());
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
    ASSERT_TRUE(d.memory->write_value(d.kAvailable + 4 + 2 * kEntries, wanted));
    EXPECT_FALSE(push_one());
    EXPECT_FALSE(push_one());
    EXPECT_TRUE(push_one());
    EXPECT_FALSE(d.queue.needs_notification());
}

TEST(Queue, SegmentsCopyAcrossBorders) {
    Driver d;
    const std::vector<Segment> segments = {{d.kData, 3}, {d.kData + 100, 5}};
    const uint8_t bytes[] = {1, 2, 3, 4, 5, 6};
    ASSERT_TRUE(write_segments(*d.memory, segments, 2, bytes));
    uint8_t back[6] = {};
    ASSERT_TRUE(read_segments(*d.memory, segments, 2, back));
    EXPECT_TRUE(std::equal(std::begin(bytes), std::end(bytes), back));
    uint8_t third = 0;
    ASSERT_TRUE(d.memory->read_value(d.kData + 101, &third));
    EXPECT_EQ(third, 3);
    EXPECT_FALSE(write_segments(*d.memory, segments, 3, bytes));
    const auto parts = segments_for_io(*d.memory, segments, 2, 4);
    ASSERT_EQ(parts.size(), 2u);
    EXPECT_EQ(parts[0].iov_len, 1u);
    EXPECT_EQ(parts[1].iov_len, 3u);
}

}  // namespace
}  // namespace boxlite::virtio
