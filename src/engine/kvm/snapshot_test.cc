#include "engine/kvm/snapshot.h"

#include <gtest/gtest.h>

namespace boxlite::engine::kvm {
namespace {

using virtio::DeviceType;
using virtio::mmio::Transport;

TEST(SnapshotMessages, KeepEverythingOfADevice) {
    Transport::State state{1, 2, 0x1'0000'0003, 1, 15, 1, {}};
    state.rings.push_back({{256, 0x1000, 0x2000, 0x3000, 77}, true});
    state.rings.push_back({{}, false});
    const auto back = from_message(DeviceType::kVsock, to_message(DeviceType::kVsock, state)).value();
    EXPECT_EQ(back.device_features_select, 1u);
    EXPECT_EQ(back.driver_features_select, 2u);
    EXPECT_EQ(back.driver_features, 0x1'0000'0003u);
    EXPECT_EQ(back.queue_select, 1u);
    EXPECT_EQ(back.status, 15u);
    EXPECT_EQ(back.interrupt_status, 1u);
    ASSERT_EQ(back.rings.size(), 2u);
    EXPECT_EQ(back.rings[0].addresses.size, 256);
    EXPECT_EQ(back.rings[0].addresses.descriptors, 0x1000u);
    EXPECT_EQ(back.rings[0].addresses.available, 0x2000u);
    EXPECT_EQ(back.rings[0].addresses.used, 0x3000u);
    EXPECT_EQ(back.rings[0].addresses.next_available, 77);
    EXPECT_TRUE(back.rings[0].ready);
    EXPECT_FALSE(back.rings[1].ready);
}

TEST(SnapshotMessages, OtherDevicesAndSizesAreRefused) {
    auto message = to_message(DeviceType::kBlock, Transport::State{});
    EXPECT_FALSE(from_message(DeviceType::kRng, message).ok());
    message.add_queues()->set_size(virtio::kMaxQueueSize + 1);
    EXPECT_FALSE(from_message(DeviceType::kBlock, message).ok());
    message.mutable_queues(0)->set_size(16);
    message.mutable_queues(0)->set_next_available(0x10000);
    EXPECT_FALSE(from_message(DeviceType::kBlock, message).ok());
}

TEST(SnapshotMessages, KeepTheInterruptController) {
    IoApic::State state{3, 0x0400'0000, {}};
    state.entries.fill(0x10000);
    state.entries[5] = 0x0100'0000'0000'0031;
    auto message = to_message(state);
    const auto back = from_message(message).value();
    EXPECT_EQ(back.select, 3u);
    EXPECT_EQ(back.id, 0x0400'0000u);
    EXPECT_EQ(back.entries, state.entries);
    message.add_entries(0);
    EXPECT_FALSE(from_message(message).ok());
}

TEST(SnapshotMessages, WhatIsNoneIsRefused) {
    EXPECT_FALSE(parse_machine("nonsense").ok());
    EXPECT_FALSE(cpuid_entries("").ok());
    EXPECT_FALSE(cpuid_entries(std::string(41, 0)).ok());
    kvm_cpuid_entry2 entry{};
    entry.function = 7;
    const auto back = cpuid_entries(cpuid_bytes({entry, entry})).value();
    ASSERT_EQ(back.size(), 2u);
    EXPECT_EQ(back[1].function, 7u);
}

}  // namespace
}  // namespace boxlite::engine::kvm
