#include "engine/kvm/io_apic.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace boxlite::engine::kvm {
namespace {

class Recorder final : public IoApic::Lines {
  public:
    void route(uint32_t pin, std::optional<MsiMessage> message) override { routes[pin] = message, ++changes; }
    void resample(uint32_t pin) override { resampled.push_back(pin); }
    std::array<std::optional<MsiMessage>, kIoApicPins> routes;
    int changes = 0;
    std::vector<uint32_t> resampled;
};

class IoApicTest : public ::testing::Test {
  protected:
    uint32_t read(uint32_t reg) {
        store(0x00, reg);
        uint8_t bytes[4];
        apic.read(0x10, bytes);
        return base::load_le<uint32_t>(bytes);
    }
    void write(uint32_t reg, uint32_t value) {
        store(0x00, reg);
        store(0x10, value);
    }
    void store(uint64_t offset, uint32_t value) {
        uint8_t bytes[4];
        base::store_le(bytes, value);
        apic.write(offset, bytes);
    }
    Recorder lines;
    IoApic apic{lines};
};

TEST_F(IoApicTest, StartsMaskedAndSaysHowManyPinsItHas) {
    EXPECT_EQ(read(1), 0x001f0020u);
    for (uint32_t pin = 0; pin < 32; ++pin) {
        EXPECT_EQ(read(0x10 + 2 * pin), 0x10000u);
        EXPECT_EQ(read(0x11 + 2 * pin), 0u);
    }
    write(0, 0xffffffff);
    EXPECT_EQ(read(0), 0x0f000000u);
    EXPECT_EQ(lines.changes, 0);
}

// Intel SDM 3A, 11.11: the message of an interrupt.
TEST_F(IoApicTest, AnUnmaskedEdgePinSendsItsMessage) {
    write(0x10 + 2 * 5 + 1, 3u << 24);
    EXPECT_EQ(lines.changes, 0);
    write(0x10 + 2 * 5, 0x31);
    EXPECT_EQ(lines.routes[5], (MsiMessage{0xfee03000, 0x4031}));
    write(0x10 + 2 * 5, 0x0931);  // lowest priority, logical
    EXPECT_EQ(lines.routes[5], (MsiMessage{0xfee03004, 0x4131}));
    write(0x10 + 2 * 5, 0x10931);
    EXPECT_EQ(lines.routes[5], std::nullopt);
    EXPECT_TRUE(lines.resampled.empty());
}

TEST_F(IoApicTest, TheSameRouteIsNotSetAgain) {
    write(0x10 + 2 * 5, 0x31);
    write(0x10 + 2 * 5, 0x31);
    EXPECT_EQ(lines.changes, 1);
    write(0x10 + 2 * 6, 0x10031);
    EXPECT_EQ(lines.changes, 1);
}

TEST_F(IoApicTest, ALevelPinIsLookedAtWhenUnmaskedAndAtItsEnd) {
    write(0x10 + 2 * 9, 0x8042);
    EXPECT_EQ(lines.routes[9], (MsiMessage{0xfee00000, 0xc042}));
    EXPECT_EQ(lines.resampled, std::vector<uint32_t>{9});
    apic.end_of_interrupt(0x41);
    EXPECT_EQ(lines.resampled.size(), 1u);
    apic.end_of_interrupt(0x42);
    EXPECT_EQ(lines.resampled.size(), 2u);
    store(0x40, 0x42);
    EXPECT_EQ(lines.resampled.size(), 3u);
    write(0x10 + 2 * 9, 0x18042);
    apic.end_of_interrupt(0x42);
    EXPECT_EQ(lines.resampled.size(), 3u);
}

TEST_F(IoApicTest, ReadOnlyBitsStay) {
    write(0x10, 0xffffffff);
    EXPECT_EQ(read(0x10), 0x0001afffu);
    write(0x11, 0xffffffff);
    EXPECT_EQ(read(0x11), 0xff000000u);
}

TEST_F(IoApicTest, RandomAccessesAreHarmless) {
    std::mt19937 random(1);
    for (int i = 0; i < 100'000; ++i) {
        uint8_t data[8] = {static_cast<uint8_t>(random()), static_cast<uint8_t>(random())};
        const auto part = std::span(data).first(size_t{1} << random() % 4);
        const uint64_t offset = random() % 2 ? random() % 0x1000 : 16 * (random() % 5);
        if (random() % 2)
            apic.read(offset, part);
        else
            apic.write(offset, part);
    }
    write(0x10, 0x31);
    EXPECT_EQ(read(0x10), 0x31u);
}

}  // namespace
}  // namespace boxlite::engine::kvm
