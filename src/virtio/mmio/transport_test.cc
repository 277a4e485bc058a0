#include "virtio/mmio/transport.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <random>
#include <semaphore>
#include <thread>

namespace boxlite::virtio::mmio {
namespace {

constexpr uint64_t kBase = 0x100000, kSize = 1 << 20;
constexpr uint64_t kDescriptors = kBase, kAvailable = kBase + 0x1000, kUsed = kBase + 0x2000,
                   kData = kBase + 0x10000;
constexpr uint64_t kOfferedByDevice = 1 << 5;
constexpr uint8_t kConfigBytes[] = {0x11, 0x22, 0x33, 0x44, 0x55, 0x66};

// Hands every request back; on request it waits inside of one first.
class TestDevice final : public Device {
  public:
    DeviceType type() const override { return DeviceType::kRng; }
    std::string name() const override { return "test"; }
    uint64_t features() const override { return kOfferedByDevice; }
    size_t queue_count() const override { return 2; }
    base::Bytes config() const override { return {std::begin(kConfigBytes), std::end(kConfigBytes)}; }
    void process(size_t index) override {
        Queue& queue = host_->queue(index);
        while (auto chain = queue.pop()) {
            if (hold) {
                entered.release();
                leave.acquire();
            }
            ++processed;
            queue.push(chain->head, 7);
        }
        host_->notify(index);
    }
    void reset() override { ++resets; }
    void restored() override { ++restores; }

    std::atomic<bool> hold = false;
    std::atomic<int> processed = 0, resets = 0, restores = 0;
    std::binary_semaphore entered{0}, leave{0};
};

class MmioTest : public ::testing::Test {
  protected:
    void SetUp() override {
        const base::Fd fd = base::make_memfd("guest", kSize).value();
        std::vector<GuestMemory::Region> regions;
        regions.push_back({kBase, MappedMemory::map(fd.get(), 0, kSize).value()});
        memory_ = GuestMemory::make(std::move(regions)).value();
        loop_ = base::EventLoop::make().value();
        transport_ = Transport::make(device_, *loop_, memory_).value();
        ASSERT_TRUE(transport_->start().ok());
        thread_ = std::thread([this] { EXPECT_TRUE(loop_->run().ok()); });
    }
    void TearDown() override {
        loop_->stop();
        thread_.join();
    }

    uint32_t read(uint64_t offset) {
        uint8_t bytes[4];
        transport_->read(offset, bytes);
        return base::load_le<uint32_t>(bytes);
    }
    void write(uint64_t offset, uint32_t value) {
        uint8_t bytes[4];
        base::store_le(bytes, value);
        transport_->write(offset, bytes);
    }
    void accept(uint64_t features) {
        write(kStatus, kStatusAcknowledge);
        write(kStatus, kStatusAcknowledge | kStatusDriver);
        for (uint32_t half = 0; half < 2; ++half) {
            write(kDriverFeaturesSelect, half);
            write(kDriverFeatures, static_cast<uint32_t>(features >> (32 * half)));
        }
        write(kStatus, read(kStatus) | kStatusFeaturesOk);
    }
    void lay_out_queue(uint32_t entries = 8) {
        write(kQueueSelect, 0);
        write(kQueueSize, entries);
        write(kQueueDescriptorsLow, kDescriptors);
        write(kQueueDriverLow, kAvailable);
        write(kQueueDeviceLow, kUsed);
        write(kQueueReady, 1);
    }
    void offer(uint16_t flags = 0) {
        EXPECT_TRUE(memory_->write_value(kDescriptors, kData) &&
                    memory_->write_value<uint32_t>(kDescriptors + 8, 16) &&
                    memory_->write_value(kDescriptors + 12, flags) &&
                    memory_->write_value(kAvailable + 2, ++offered_));
    }
    uint16_t used() {
        uint16_t index = 0;
        EXPECT_TRUE(memory_->read_value(kUsed + 2, &index));
        return index;
    }
    void kick() { write(kQueueNotify, 0); }
    // Takes one or more interrupts off the line.
    bool interrupted() {
        pollfd line{transport_->interrupt_fd(), POLLIN, 0};
        uint64_t count = 0;
        return ::poll(&line, 1, 5000) == 1 && ::read(line.fd, &count, sizeof count) == sizeof count;
    }
    // What the loop was given before is done.
    void settle() {
        std::binary_semaphore done{0};
        loop_->post([&] { loop_->post([&] { done.release(); }); });
        done.acquire();
    }
    void run_device() {
        accept(kFeatureVersion1);
        lay_out_queue();
        write(kStatus, read(kStatus) | kStatusDriverOk);
    }

    TestDevice device_;
    std::shared_ptr<const GuestMemory> memory_;
    std::unique_ptr<base::EventLoop> loop_;
    std::unique_ptr<Transport> transport_;
    std::thread thread_;
    uint16_t offered_ = 0;
};

// Values from virtio 1.2, 4.2.2.
TEST_F(MmioTest, SaysWhatItIs) {
    EXPECT_EQ(read(0x000), 0x74726976u);
    EXPECT_EQ(read(0x004), 2u);
    EXPECT_EQ(read(0x008), 4u);
    EXPECT_EQ(read(0x0b0), UINT32_MAX);
    write(0x030, 1);
    EXPECT_EQ(read(0x034), 1024u);
    write(0x030, 2);
    EXPECT_EQ(read(0x034), 0u);
    write(0x014, 0);
    EXPECT_EQ(read(0x010), kOfferedByDevice | 1u << 28 | 1u << 29);
    write(0x014, 1);
    EXPECT_EQ(read(0x010), 1u);
    write(0x014, 2);
    EXPECT_EQ(read(0x010), 0u);
}

TEST_F(MmioTest, FeaturesOkOnlyForWhatIsOffered) {
    accept(kFeatureVersion1 | 1 << 6);
    EXPECT_FALSE(read(kStatus) & kStatusFeaturesOk);
    write(kStatus, 0);
    accept(kOfferedByDevice);
    EXPECT_FALSE(read(kStatus) & kStatusFeaturesOk);
    write(kStatus, read(kStatus) | kStatusDriverOk);
    EXPECT_FALSE(read(kStatus) & kStatusDriverOk);
    write(kStatus, 0);
    accept(kFeatureVersion1 | kOfferedByDevice);
    EXPECT_EQ(read(kStatus), kStatusAcknowledge | kStatusDriver | kStatusFeaturesOk);
}

TEST_F(MmioTest, ConfigurationIsReadInAnyWidthAndNeverWritten) {
    uint8_t byte[1], word[2], quad[8];
    transport_->read(kConfig + 1, byte);
    EXPECT_EQ(byte[0], 0x22);
    transport_->read(kConfig + 4, word);
    EXPECT_EQ(base::load_le<uint16_t>(word), 0x6655);
    transport_->read(kConfig + 2, quad);
    EXPECT_EQ(base::load_le<uint64_t>(quad), 0x66554433u);
    EXPECT_EQ(read(kConfig + 0xe00), 0u);
    write(kConfig, 0xffffffff);
    EXPECT_EQ(read(kConfig), 0x44332211u);
    transport_->read(kMagicValue, word);
    EXPECT_EQ(base::load_le<uint16_t>(word), 0);
}

TEST_F(MmioTest, ARequestIsServedAndInterrupts) {
    run_device();
    EXPECT_EQ(read(kQueueReady), 1u);
    offer();
    kick();
    ASSERT_TRUE(interrupted());
    EXPECT_EQ(used(), 1);
    EXPECT_EQ(read(kInterruptStatus), kInterruptUsedBuffer);
    transport_->resample_interrupt();
    EXPECT_TRUE(interrupted());
    write(kInterruptAcknowledge, kInterruptUsedBuffer);
    EXPECT_EQ(read(kInterruptStatus), 0u);
    transport_->resample_interrupt();
    pollfd line{transport_->interrupt_fd(), POLLIN, 0};
    EXPECT_EQ(::poll(&line, 1, 0), 0);
}

TEST_F(MmioTest, ADriverThatAsksForNoInterruptsGetsNone) {
    run_device();
    ASSERT_TRUE(memory_->write_value<uint16_t>(kAvailable, 1));  // VIRTQ_AVAIL_F_NO_INTERRUPT
    offer();
    kick();
    while (device_.processed == 0) std::this_thread::yield();
    settle();
    EXPECT_EQ(used(), 1);
    EXPECT_EQ(read(kInterruptStatus), 0u);
}

// The rings are the guest's and stay where they are; another device object goes on with them.
TEST_F(MmioTest, AnotherDeviceGoesOnFromWhatWasKept) {
    run_device();
    offer();
    kick();
    ASSERT_TRUE(interrupted());
    const Transport::State kept = transport_->save();
    offer();

    TestDevice device;
    const auto restored = Transport::make(device, *loop_, memory_).value();
    ASSERT_TRUE(restored->restore(kept).ok());
    settle();
    EXPECT_EQ(device.processed, 1);
    EXPECT_EQ(device.restores, 1);
    EXPECT_EQ(used(), 2);
    uint8_t status[4];
    restored->read(kStatus, status);
    EXPECT_EQ(base::load_le<uint32_t>(status), kept.status);

    Transport::State wrong = kept;
    wrong.rings.pop_back();
    EXPECT_FALSE(Transport::make(device, *loop_, memory_).value()->restore(wrong).ok());
    wrong = kept;
    wrong.driver_features |= uint64_t{1} << 63;
    EXPECT_FALSE(Transport::make(device, *loop_, memory_).value()->restore(wrong).ok());
}

TEST_F(MmioTest, WhatWasOfferedBeforeDriverOkIsServed) {
    accept(kFeatureVersion1);
    lay_out_queue();
    offer();
    kick();
    settle();
    EXPECT_EQ(device_.processed, 0);
    write(kStatus, read(kStatus) | kStatusDriverOk);
    EXPECT_EQ(device_.processed, 1);
}

TEST_F(MmioTest, NothingIsMovedUnderARunningDevice) {
    run_device();
    write(kQueueSize, 4);
    write(kQueueDescriptorsLow, 0);
    write(kDriverFeaturesSelect, 0);
    write(kDriverFeatures, 0xffffffff);
    write(kQueueSelect, 1);
    write(kQueueSize, 8);
    write(kQueueReady, 1);
    EXPECT_EQ(read(kQueueReady), 0u);
    offer();
    kick();
    EXPECT_TRUE(interrupted());
    EXPECT_EQ(used(), 1);
    write(kQueueSelect, 0);
    write(kQueueReady, 0);
    EXPECT_EQ(read(kQueueReady), 0u);
    offer();
    kick();
    settle();
    EXPECT_EQ(device_.processed, 1);
}

TEST_F(MmioTest, AResetWaitsForWhatIsInFlight) {
    run_device();
    device_.hold = true;
    offer();
    kick();
    device_.entered.acquire();
    std::atomic<bool> over = false;
    std::thread driver([&] {
        write(kStatus, 0);
        over = true;
    });
    EXPECT_FALSE(over);
    EXPECT_EQ(device_.resets, 0);
    device_.leave.release();
    driver.join();
    EXPECT_EQ(device_.processed, 1);
    EXPECT_EQ(device_.resets, 1);
    EXPECT_EQ(read(kStatus), 0u);
    EXPECT_EQ(read(kInterruptStatus), 0u);
    EXPECT_EQ(read(kQueueReady), 0u);
    device_.hold = false;
    offer();
    kick();
    settle();
    EXPECT_EQ(device_.processed, 1);
    // And it can be driven again, from the start of its rings.
    offered_ = 0;
    ASSERT_TRUE(memory_->write_value<uint16_t>(kAvailable + 2, 0) &&
                memory_->write_value<uint16_t>(kUsed + 2, 0));
    run_device();
    offer();
    kick();
    while (device_.processed < 2) std::this_thread::yield();
}

TEST_F(MmioTest, ABrokenQueueAsksForAReset) {
    run_device();
    offer(1);  // goes on to itself
    kick();
    ASSERT_TRUE(interrupted());
    EXPECT_TRUE(read(kStatus) & kStatusNeedsReset);
    EXPECT_EQ(read(kInterruptStatus), kInterruptConfigChange);
    write(kStatus, 0);
    EXPECT_EQ(read(kStatus), 0u);
}

TEST_F(MmioTest, RingsOutsideOfMemoryAskForAReset) {
    accept(kFeatureVersion1);
    lay_out_queue(6);
    write(kStatus, read(kStatus) | kStatusDriverOk);
    EXPECT_TRUE(read(kStatus) & kStatusNeedsReset);
}

TEST_F(MmioTest, RandomAccessesAreHarmless) {
    std::mt19937 random(1);
    for (int i = 0; i < 20'000; ++i) {
        uint8_t data[8] = {static_cast<uint8_t>(random()), static_cast<uint8_t>(random() % 2)};
        const auto part = std::span(data).first(size_t{1} << random() % 4);
        const uint64_t offset = random() % 2 ? random() % kPageSize : 4 * (random() % 64);
        if (random() % 2)
            transport_->read(offset, part);
        else
            transport_->write(offset, part);
    }
    write(kStatus, 0);
    run_device();
    EXPECT_TRUE(read(kStatus) & kStatusDriverOk);
}

}  // namespace
}  // namespace boxlite::virtio::mmio
