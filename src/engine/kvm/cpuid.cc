#include "engine/kvm/cpuid.h"

#include <algorithm>
#include <bit>

namespace boxlite::engine::kvm {

namespace {

constexpr uint32_t bit(int n) {
    return 1u << n;
}

// Leaf 1.
constexpr uint32_t kMonitor = bit(3), kVmx = bit(5), kPerfCapabilities = bit(15), kX2Apic = bit(21),
                   kTscDeadline = bit(24), kHypervisor = bit(31);
constexpr uint32_t kHyperThreading = bit(28);  // the count of processors in ebx is valid
// Leaf 0x80000001.
constexpr uint32_t kCmpLegacy = bit(1), kSvm = bit(2), kIbs = bit(10), kWatchdog = bit(13),
                   kTopologyExtensions = bit(22), kPerfCounters = bit(23), kNbPerfCounters = bit(24),
                   kLlcPerfCounters = bit(28), kMonitorX = bit(29);

constexpr uint32_t kThreadLevel = 1 << 8, kCoreLevel = 2 << 8;

// Performance monitoring, extended topologies, SVM, IBS, memory encryption, performance monitoring of AMD.
constexpr uint32_t kHiddenLeaves[] = {0xa,        0xb,        0x1f,       0x8000000a, 0x8000001b,
                                      0x8000001e, 0x8000001f, 0x80000022, 0x80000026};

// Where CPUID tells features, and which bits of each register do.
struct FeatureLeaf {
    uint32_t function, index, eax, ebx, ecx, edx;
};
constexpr uint32_t kAll = UINT32_MAX;
constexpr FeatureLeaf kFeatureLeaves[] = {
    {1, 0, 0, 0, kAll & ~bit(27), kAll},  // but that the guest has enabled XSAVE
    {7, 0, 0, kAll, kAll, kAll},         {7, 1, kAll, kAll, kAll, kAll},
    {0xd, 0, kAll, 0, 0, kAll},  // the parts of the state that XSAVE knows
    {0xd, 1, kAll, 0, kAll, kAll},       {0x80000001, 0, 0, 0, kAll, kAll},
    {0x80000007, 0, 0, 0, 0, kAll},      {0x80000008, 0, 0, kAll, 0, 0},
    {0x40000001, 0, kAll, 0, 0, 0},  // KVM's own
};

// Bits of an APIC id that number the processors.
uint32_t id_bits(uint32_t cpus) {
    return static_cast<uint32_t>(std::bit_width(cpus - 1));
}

void fill_features(kvm_cpuid_entry2& e, uint32_t cpu, uint32_t cpus) {
    e.ebx = (e.ebx & 0xffff) | cpus << 16 | cpu << 24;
    e.ecx &= ~(kMonitor | kVmx | kPerfCapabilities);
    e.ecx |= kX2Apic | kTscDeadline | kHypervisor;
    e.edx = cpus > 1 ? e.edx | kHyperThreading : e.edx & ~kHyperThreading;
}

// Intel's caches: those of the last level are shared by all, the others by nobody.
void fill_cache(kvm_cpuid_entry2& e, uint32_t cpus) {
    if ((e.eax & 0x1f) == 0) return;
    const uint32_t level = e.eax >> 5 & 7;
    const uint32_t all = (1u << id_bits(cpus)) - 1;
    e.eax = (e.eax & 0x3fff) | (level >= 3 ? all : 0) << 14 | std::min(all, 63u) << 26;
}

void fill_extended(kvm_cpuid_entry2& e) {
    e.ecx &= ~(kCmpLegacy | kSvm | kIbs | kWatchdog | kTopologyExtensions | kPerfCounters | kNbPerfCounters |
               kLlcPerfCounters | kMonitorX);
}

kvm_cpuid_entry2 topology_level(uint32_t leaf, uint32_t level, uint32_t cpu, uint32_t cpus) {
    kvm_cpuid_entry2 e{};
    e.function = leaf;
    e.index = level;
    e.flags = KVM_CPUID_FLAG_SIGNIFCANT_INDEX;
    e.ecx = level;
    e.edx = cpu;
    if (level == 0) {
        e.ebx = 1;
        e.ecx |= kThreadLevel;
    } else if (level == 1) {
        e.eax = id_bits(cpus);
        e.ebx = cpus;
        e.ecx |= kCoreLevel;
    }
    return e;
}

}  // namespace

std::vector<kvm_cpuid_entry2> guest_cpuid(const std::vector<kvm_cpuid_entry2>& supported, uint32_t cpu,
                                          uint32_t cpus) {
    std::vector<kvm_cpuid_entry2> result;
    uint32_t max_leaf = 0;
    for (kvm_cpuid_entry2 e : supported) {
        if (std::find(std::begin(kHiddenLeaves), std::end(kHiddenLeaves), e.function) !=
            std::end(kHiddenLeaves))
            continue;
        switch (e.function) {
            case 0:
                max_leaf = e.eax;
                break;
            case 1:
                fill_features(e, cpu, cpus);
                break;
            case 4:
                fill_cache(e, cpus);
                break;
            case 5:  // MONITOR
                e.eax = e.ebx = e.ecx = e.edx = 0;
                break;
            case 0x80000001:
                fill_extended(e);
                break;
            case 0x80000008:
                e.ecx = id_bits(cpus) << 12 | (cpus - 1);
                break;
            default:
                break;
        }
        result.push_back(e);
    }
    for (const uint32_t leaf : {0xbu, 0x1fu})
        for (uint32_t level = 0; leaf <= max_leaf && level < 3; ++level)
            result.push_back(topology_level(leaf, level, cpu, cpus));
    return result;
}

Result<void> check_cpuid(const std::vector<kvm_cpuid_entry2>& taken,
                         const std::vector<kvm_cpuid_entry2>& offered) {
    const auto find = [](const std::vector<kvm_cpuid_entry2>& table, uint32_t leaf, uint32_t index) {
        const auto found = std::find_if(table.begin(), table.end(), [&](const kvm_cpuid_entry2& e) {
            return e.function == leaf && e.index == index;
        });
        return found == table.end() ? kvm_cpuid_entry2{} : *found;
    };
    const kvm_cpuid_entry2 here = find(offered, 0, 0), there = find(taken, 0, 0);
    if (here.ebx != there.ebx || here.ecx != there.ecx || here.edx != there.edx)
        return base::make_error(ErrorCode::kUnsupported,
                                "the snapshot was taken on a processor of another vendor");
    for (const FeatureLeaf& leaf : kFeatureLeaves) {
        const kvm_cpuid_entry2 has = find(offered, leaf.function, leaf.index);
        const kvm_cpuid_entry2 had = find(taken, leaf.function, leaf.index);
        const uint32_t missing[] = {had.eax & ~has.eax & leaf.eax, had.ebx & ~has.ebx & leaf.ebx,
                                    had.ecx & ~has.ecx & leaf.ecx, had.edx & ~has.edx & leaf.edx};
        for (size_t i = 0; i < 4; ++i)
            if (missing[i])
                return base::make_error(
                    ErrorCode::kUnsupported,
                    "the snapshot was taken on a processor with features that this one lacks: CPUID leaf "
                    "{:#x}.{} e{}x {:#x}",
                    leaf.function, leaf.index, "abcd"[i], missing[i]);
    }
    return {};
}

}  // namespace boxlite::engine::kvm
