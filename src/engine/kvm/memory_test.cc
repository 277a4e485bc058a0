#include "engine/kvm/memory.h"

#include <gtest/gtest.h>

#include <set>

namespace boxlite::engine::kvm {
namespace {

constexpr uint64_t kBytes = 1 << 20, kPage = 4096;

uint8_t at(const MachineMemory& memory, uint64_t page) {
    uint8_t value = 0;
    EXPECT_TRUE(memory.view()->read_value(page * kPage + 5, &value));
    return value;
}
void set(const MachineMemory& memory, uint64_t page, uint8_t value) {
    EXPECT_TRUE(memory.view()->write_value(page * kPage + 5, value));
}
uint64_t bytes_in(const MemoryLayer& layer) {
    uint64_t bytes = 0;
    for (const MemoryRun& run : layer.runs) bytes += run.size;
    return bytes;
}

TEST(FrozenMemory, EveryoneGoesOnAlone) {
    MachineMemory parent = MachineMemory::make(kBytes).value();
    for (uint64_t page = 0; page < 8; ++page) set(parent, page, 1);
    MachineMemory one = MachineMemory::make(kBytes, parent.freeze().value()).value();
    MachineMemory other = MachineMemory::make(kBytes, duplicate(one.freeze().value()).value()).value();
    set(parent, 0, 2);
    set(one, 1, 3);
    set(other, 2, 4);
    for (const auto& [memory, expected] : {std::pair(&parent, std::array<uint8_t, 4>{2, 1, 1, 1}),
                                           std::pair(&one, std::array<uint8_t, 4>{1, 3, 1, 1}),
                                           std::pair(&other, std::array<uint8_t, 4>{1, 1, 4, 1})})
        for (uint64_t page = 0; page < 4; ++page) EXPECT_EQ(at(*memory, page), expected[page]) << page;
}

TEST(FrozenMemory, WhatWasWrittenSinceIsCopiedAndNothingElse) {
    MachineMemory memory = MachineMemory::make(kBytes).value();
    set(memory, 0, 1);
    ASSERT_EQ(memory.freeze().value().size(), 1u);
    set(memory, 3, 2);
    set(memory, 4, 2);
    set(memory, 9, 2);
    const auto second = memory.freeze().value();
    ASSERT_EQ(second.size(), 2u);
    EXPECT_EQ(second[1].runs.size(), 2u);
    EXPECT_EQ(bytes_in(second[1]), 3 * kPage);
    // Nothing was written, so there is nothing new.
    EXPECT_EQ(memory.freeze().value().size(), 2u);
    set(memory, 3, 7);
    const auto third = memory.freeze().value();
    ASSERT_EQ(third.size(), 3u);
    EXPECT_EQ(bytes_in(third[2]), kPage);
    // A layer is known by its id, wherever it is met again.
    EXPECT_EQ(std::set({third[0].id, third[1].id, third[2].id}).size(), 3u);
    EXPECT_EQ(second[0].id, third[0].id);
    EXPECT_EQ(second[1].id, third[1].id);
    const MachineMemory then = MachineMemory::make(kBytes, duplicate(second).value()).value();
    const MachineMemory now = MachineMemory::make(kBytes, duplicate(third).value()).value();
    EXPECT_EQ(at(then, 3), 2);
    EXPECT_EQ(at(now, 3), 7);
    EXPECT_EQ(at(now, 4), 2);
    EXPECT_EQ(at(now, 0), 1);
    EXPECT_EQ(at(now, 20), 0);
}

TEST(FrozenMemory, LayersDoNotPileUp) {
    MachineMemory memory = MachineMemory::make(kBytes).value();
    size_t most = 0;
    for (uint8_t i = 0; i < 60; ++i) {
        set(memory, i, i);
        most = std::max(most, memory.freeze().value().size());
    }
    EXPECT_LE(most, kMaxLayers);
    const MachineMemory copy = MachineMemory::make(kBytes, memory.freeze().value()).value();
    for (uint8_t i = 0; i < 60; ++i) EXPECT_EQ(at(copy, i), i);
}

TEST(FrozenMemory, GoesAroundTheHole) {
    constexpr uint64_t kLarge = uint64_t{4} << 30, kAboveHole = uint64_t{1} << 32;
    MachineMemory memory = MachineMemory::make(kLarge).value();
    ASSERT_TRUE(memory.view()->write_value<uint32_t>(kAboveHole + kPage, 1));
    (void)memory.freeze().value();
    ASSERT_TRUE(memory.view()->write_value<uint32_t>(kAboveHole + kPage, 2));
    const MachineMemory copy = MachineMemory::make(kLarge, memory.freeze().value()).value();
    uint32_t value = 0;
    ASSERT_TRUE(copy.view()->read_value(kAboveHole + kPage, &value));
    EXPECT_EQ(value, 2u);
}

}  // namespace
}  // namespace boxlite::engine::kvm
