// Structures of the KVM interface that end in a flexible array. C++ compilers see wrong sizes for those of
// some kernel headers, and with them wrong ioctl numbers, so they are laid down here.
#pragma once

#include <linux/kvm.h>

#include <cstdint>

namespace boxlite::engine::kvm {

inline constexpr uint32_t kMaxCpuidEntries = 256;
struct CpuidTable {
    uint32_t count = 0;
    uint32_t padding = 0;
    kvm_cpuid_entry2 entries[kMaxCpuidEntries] = {};
};

inline constexpr uint32_t kMaxRoutes = 32;  // one for each pin
struct RoutingTable {
    uint32_t count = 0;
    uint32_t flags = 0;
    kvm_irq_routing_entry entries[kMaxRoutes] = {};
};

struct OneMsr {
    uint32_t count = 1;
    uint32_t padding = 0;
    kvm_msr_entry entry = {};
};

inline constexpr uint32_t kMaxMsrs = 1024;
struct MsrList {
    uint32_t count = kMaxMsrs;
    uint32_t indices[kMaxMsrs] = {};
};

// Without the state of extensions that a process has to ask the kernel for, which the guest does not see.
struct Xsave {
    uint32_t region[1024];
};

struct SignalMask {
    uint32_t length = sizeof(uint64_t);  // the kernel's sigset_t
    uint8_t set[sizeof(uint64_t)] = {};
};

namespace ioctls {
struct Header8 {
    uint32_t words[2];
};
struct Header4 {
    uint32_t words[1];
};
inline constexpr unsigned long kGetMsrIndexList = _IOWR(KVMIO, 0x02, Header4);
inline constexpr unsigned long kGetMsrs = _IOWR(KVMIO, 0x88, Header8);
inline constexpr unsigned long kGetXsave = _IOR(KVMIO, 0xa4, Xsave);
inline constexpr unsigned long kSetXsave = _IOW(KVMIO, 0xa5, Xsave);
inline constexpr unsigned long kGetSupportedCpuid = _IOWR(KVMIO, 0x05, Header8);
inline constexpr unsigned long kSetGsiRouting = _IOW(KVMIO, 0x6a, Header8);
inline constexpr unsigned long kSetMsrs = _IOW(KVMIO, 0x89, Header8);
inline constexpr unsigned long kSetSignalMask = _IOW(KVMIO, 0x8b, Header4);
inline constexpr unsigned long kSetCpuid2 = _IOW(KVMIO, 0x90, Header8);
static_assert(kGetMsrIndexList == 0xc004ae02 && kGetMsrs == 0xc008ae88 && kGetXsave == 0x9000aea4 &&
              kSetXsave == 0x5000aea5);
static_assert(kGetSupportedCpuid == 0xc008ae05 && kSetGsiRouting == 0x4008ae6a && kSetMsrs == 0x4008ae89 &&
              kSetSignalMask == 0x4004ae8b && kSetCpuid2 == 0x4008ae90);
}  // namespace ioctls

static_assert(sizeof(kvm_cpuid_entry2) == 40 && sizeof(kvm_irq_routing_entry) == 48 &&
              sizeof(kvm_msr_entry) == 16);

}  // namespace boxlite::engine::kvm
