// What the kernel is told of the machine: memory map, MP table, CPUID.
#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include "engine/kvm/boot.h"
#include "engine/kvm/cpuid.h"
#include "engine/kvm/layout.h"
#include "engine/kvm/memory.h"
#include "engine/kvm/mp_table.h"

namespace boxlite::engine::kvm {
namespace {

constexpr uint64_t kMib = 1 << 20, kGib = 1 << 30;

TEST(MachineMemory, GoesAroundTheHole) {
    auto slots = memory_slots(512 * kMib);
    ASSERT_EQ(slots.size(), 1u);
    EXPECT_EQ(slots[0].size, 512 * kMib);
    slots = memory_slots(3 * kGib + 256 * kMib);
    EXPECT_EQ(slots.size(), 1u);
    slots = memory_slots(8 * kGib);
    ASSERT_EQ(slots.size(), 2u);
    EXPECT_EQ(slots[0].size, 0xd0000000u);
    EXPECT_EQ(slots[1].guest_address, 4 * kGib);
    EXPECT_EQ(slots[1].size, 8 * kGib - 0xd0000000u);
    EXPECT_EQ(slots[1].file_offset, 0xd0000000u);
}

TEST(MachineMemory, TheMapLeavesOutLegacyAndHole) {
    const auto map = memory_map(4 * kGib);
    ASSERT_EQ(map.size(), 3u);
    EXPECT_EQ(map[0].address + map[0].size, 0x9fc00u);
    EXPECT_EQ(map[1].address, 0x100000u);
    EXPECT_EQ(map[1].address + map[1].size, 0xd0000000u);
    EXPECT_EQ(map[2].address, 4 * kGib);
    EXPECT_EQ(map[2].size, 768 * kMib);
}

// MultiProcessor Specification 1.4, chapter 4.
TEST(MpTable, NamesEveryProcessorAndPin) {
    constexpr uint64_t kAt = 0xf0000;
    for (const uint32_t cpus : {1u, 2u, 32u}) {
        const base::Bytes table = make_mp_table(kAt, cpus);
        const auto sum = [](auto from, auto to) { return std::accumulate(from, to, 0u) & 0xff; };
        ASSERT_GT(table.size(), 60u);
        EXPECT_EQ(std::string(table.begin(), table.begin() + 4), "_MP_");
        EXPECT_EQ(base::load_le<uint32_t>(&table[4]), kAt + 16);
        EXPECT_EQ(sum(table.begin(), table.begin() + 16), 0u);
        EXPECT_EQ(std::string(table.begin() + 16, table.begin() + 20), "PCMP");
        const size_t length = base::load_le<uint16_t>(&table[20]);
        ASSERT_EQ(16 + length, table.size());
        EXPECT_EQ(sum(table.begin() + 16, table.end()), 0u);
        EXPECT_EQ(base::load_le<uint32_t>(&table[16 + 36]), 0xfee00000u);
        std::map<int, int> entries;
        for (size_t at = 16 + 44; at < table.size(); at += table[at] == 0 ? 20 : 8) {
            ++entries[table[at]];
            if (table[at] == 2) {
                EXPECT_EQ(table[at + 1], cpus);  // not a processor's id
                EXPECT_EQ(base::load_le<uint32_t>(&table[at + 4]), 0xfec00000u);
            }
        }
        EXPECT_EQ(entries,
                  (std::map<int, int>{{0, static_cast<int>(cpus)}, {1, 1}, {2, 1}, {3, 31}, {4, 2}}));
        EXPECT_EQ(base::load_le<uint16_t>(&table[16 + 34]), cpus + 35);
    }
}

kvm_cpuid_entry2 leaf(uint32_t function, uint32_t eax, uint32_t ebx, uint32_t ecx, uint32_t edx) {
    kvm_cpuid_entry2 e{};
    e.function = function;
    e.eax = eax, e.ebx = ebx, e.ecx = ecx, e.edx = edx;
    return e;
}

const kvm_cpuid_entry2* find(const std::vector<kvm_cpuid_entry2>& table, uint32_t function,
                             uint32_t index = 0) {
    for (const auto& e : table)
        if (e.function == function && e.index == index) return &e;
    return nullptr;
}

TEST(Cpuid, OffersNoVirtualizationAndNoCounters) {
    const std::vector<kvm_cpuid_entry2> host = {
        leaf(0, 0xd, 0, 0, 0),          leaf(1, 0x800f12, 0, UINT32_MAX & ~(1u << 31), UINT32_MAX),
        leaf(0xa, 0x7300403, 0, 0, 0),  leaf(0x80000001, 0, 0, UINT32_MAX, UINT32_MAX),
        leaf(0x8000000a, 1, 16, 0, 15), leaf(0x8000001f, 1, 0, 0, 0)};
    const auto guest = guest_cpuid(host, 0, 2);
    EXPECT_FALSE(find(guest, 0xa));
    EXPECT_FALSE(find(guest, 0x8000000a));
    EXPECT_FALSE(find(guest, 0x8000001f));
    const auto* features = find(guest, 1);
    ASSERT_TRUE(features);
    EXPECT_FALSE(features->ecx & (1u << 5));  // VMX
    EXPECT_FALSE(features->ecx & (1u << 3));  // MONITOR
    EXPECT_TRUE(features->ecx & (1u << 31));  // hypervisor
    EXPECT_TRUE(features->ecx & (1u << 21));  // x2APIC
    EXPECT_TRUE(features->ecx & (1u << 24));  // TSC deadline
    EXPECT_EQ(features->eax, 0x800f12u);
    EXPECT_FALSE(find(guest, 0x80000001)->ecx & (1u << 2));  // SVM
    EXPECT_EQ(find(guest, 0x80000001)->edx, UINT32_MAX);
}

TEST(Cpuid, NumbersTheProcessorsOfOnePackage) {
    const std::vector<kvm_cpuid_entry2> host = {leaf(0, 0xb, 0, 0, 0), leaf(1, 0, 0xff000800, 0, 0),
                                                leaf(0xb, 7, 7, 7, 7), leaf(0x80000008, 0x3030, 0, 0, 0)};
    const auto guest = guest_cpuid(host, 4, 6);
    EXPECT_EQ(find(guest, 1)->ebx, 4u << 24 | 6u << 16 | 0x0800);
    EXPECT_TRUE(find(guest, 1)->edx & (1u << 28));
    // Intel SDM 2A, CPUID leaf 0xb.
    const auto* thread = find(guest, 0xb, 0);
    const auto* core = find(guest, 0xb, 1);
    const auto* end = find(guest, 0xb, 2);
    ASSERT_TRUE(thread && core && end);
    EXPECT_EQ(thread->eax, 0u);
    EXPECT_EQ(thread->ebx, 1u);
    EXPECT_EQ(thread->ecx, 0x100u);
    EXPECT_EQ(core->eax, 3u);
    EXPECT_EQ(core->ebx, 6u);
    EXPECT_EQ(core->ecx, 0x201u);
    EXPECT_EQ(core->edx, 4u);
    EXPECT_EQ(end->ebx, 0u);
    EXPECT_EQ(find(guest, 0x80000008)->ecx, 3u << 12 | 5u);
    EXPECT_FALSE(find(guest, 0x1f));
    EXPECT_FALSE(find(guest_cpuid(host, 0, 1), 1)->edx & (1u << 28));
}

TEST(Cpuid, AGuestGoesOnOnlyWhereNothingIsMissing) {
    const std::vector<kvm_cpuid_entry2> older = {leaf(0, 0xd, 1, 2, 3), leaf(1, 0, 0, 0xf0, 0xf0)};
    const std::vector<kvm_cpuid_entry2> newer = {leaf(0, 0x1f, 1, 2, 3), leaf(1, 0, 0, 0xff, 0xf0),
                                                 leaf(7, 0, 0xff, 0, 0)};
    EXPECT_TRUE(check_cpuid(older, older).ok());
    EXPECT_TRUE(check_cpuid(older, newer).ok());
    const auto refused = check_cpuid(newer, older);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
    EXPECT_NE(refused.error().message.find("0x1.0 ecx 0xf"), std::string::npos) << refused.error().message;
    const std::vector<kvm_cpuid_entry2> another = {leaf(0, 0xd, 1, 2, 4), leaf(1, 0, 0, 0xf0, 0xf0)};
    EXPECT_NE(check_cpuid(older, another).error().message.find("vendor"), std::string::npos);
}

TEST(CommandLine, NamesEveryDeviceAndFits) {
    const std::string line = command_line(kMaxDevices);
    EXPECT_NE(line.find(" virtio_mmio.device=4K@0xd0000000:1"), std::string::npos);
    EXPECT_NE(line.find(" virtio_mmio.device=4K@0xd001e000:31"), std::string::npos);
    EXPECT_LT(line.size(), kCommandLineMax);
}

}  // namespace
}  // namespace boxlite::engine::kvm
