// What the guest sees of its processors.
#pragma once

#include <vector>

#include "base/result.h"
#include "engine/kvm/abi.h"

namespace boxlite::engine::kvm {

// `supported` is what KVM can give; the result is what processor `cpu` of `cpus` shows: one package, one
// thread a core, the hypervisor bit, x2APIC and the TSC deadline timer; no virtualization of its own, no
// performance counters, no waiting on a line of memory.
std::vector<kvm_cpuid_entry2> guest_cpuid(const std::vector<kvm_cpuid_entry2>& supported, uint32_t cpu,
                                          uint32_t cpus);

// Whether a guest that saw `taken` can go on where `offered` is what processor 0 gets: the same vendor, and
// no feature missing that it may have found. kUnsupported otherwise.
Result<void> check_cpuid(const std::vector<kvm_cpuid_entry2>& taken,
                         const std::vector<kvm_cpuid_entry2>& offered);

}  // namespace boxlite::engine::kvm
