// A processor's registers as a snapshot keeps them. The processor is not in the guest, and nothing is half
// done (see Vcpu::wait_paused).
#pragma once

#include <vector>

#include "base/result.h"
#include "rpc/snapshot.pb.h"

namespace boxlite::engine::kvm {

// `msrs` are those to keep: Vm::msrs().
Result<snapshot::v1::Vcpu> save_vcpu(int vcpu, const std::vector<uint32_t>& msrs);

// Of a fresh processor that has its CPUID. kEngine when this host's KVM does not take the state.
Result<void> restore_vcpu(int vcpu, const snapshot::v1::Vcpu& state);

}  // namespace boxlite::engine::kvm
