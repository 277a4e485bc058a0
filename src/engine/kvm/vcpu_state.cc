#include "engine/kvm/vcpu_state.h"

#include <sys/ioctl.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "engine/kvm/abi.h"

namespace boxlite::engine::kvm {

namespace {

constexpr uint32_t kTscDeadline = 0x6e0;

template <typename T>
Result<void> save(int vcpu, unsigned long request, const char* what, std::string* into) {
    T value{};
    if (::ioctl(vcpu, request, &value) < 0) return base::errno_error(ErrorCode::kEngine, "read its {}", what);
    into->assign(reinterpret_cast<const char*>(&value), sizeof value);
    return {};
}

template <typename T>
Result<void> restore(int vcpu, unsigned long request, const char* what, const std::string& from) {
    T value;
    if (from.size() != sizeof value)
        return base::make_error(ErrorCode::kEngine, "its {} has {} bytes and not {}", what, from.size(),
                                sizeof value);
    std::memcpy(&value, from.data(), sizeof value);
    if (::ioctl(vcpu, request, &value) < 0) return base::errno_error(ErrorCode::kEngine, "set its {}", what);
    return {};
}

// Those that this processor has.
void save_msrs(int vcpu, const std::vector<uint32_t>& msrs, snapshot::v1::Vcpu& state) {
    for (const uint32_t index : msrs) {
        OneMsr msr;
        msr.entry.index = index;
        if (::ioctl(vcpu, ioctls::kGetMsrs, &msr) != 1) continue;
        auto* kept = state.add_msrs();
        kept->set_index(index);
        kept->set_value(msr.entry.data);
    }
}

Result<void> restore_msr(int vcpu, const snapshot::v1::Msr& kept) {
    OneMsr msr;
    msr.entry.index = kept.index();
    msr.entry.data = kept.value();
    if (::ioctl(vcpu, ioctls::kSetMsrs, &msr) == 1) return {};
    // Some cannot be written, and need not be when they are as they were.
    if (::ioctl(vcpu, ioctls::kGetMsrs, &msr) == 1 && msr.entry.data == kept.value()) return {};
    return base::make_error(ErrorCode::kEngine, "its register {:#x} does not take the value {:#x}",
                            kept.index(), kept.value());
}

}  // namespace

Result<snapshot::v1::Vcpu> save_vcpu(int vcpu, const std::vector<uint32_t>& msrs) {
    snapshot::v1::Vcpu state;
    kvm_mp_state mp{};
    if (::ioctl(vcpu, KVM_GET_MP_STATE, &mp) < 0)
        return base::errno_error(ErrorCode::kEngine, "read its run state");
    state.set_mp_state(mp.mp_state);
    TRY(save<kvm_regs>(vcpu, KVM_GET_REGS, "registers", state.mutable_regs()));
    TRY(save<kvm_sregs>(vcpu, KVM_GET_SREGS, "system registers", state.mutable_sregs()));
    TRY(save<kvm_xcrs>(vcpu, KVM_GET_XCRS, "extended control registers", state.mutable_xcrs()));
    TRY(save<Xsave>(vcpu, ioctls::kGetXsave, "vector registers", state.mutable_xsave()));
    TRY(save<kvm_debugregs>(vcpu, KVM_GET_DEBUGREGS, "debug registers", state.mutable_debug_regs()));
    TRY(save<kvm_lapic_state>(vcpu, KVM_GET_LAPIC, "local APIC", state.mutable_lapic()));
    const int khz = ::ioctl(vcpu, KVM_GET_TSC_KHZ, 0);
    if (khz > 0) state.set_tsc_khz(static_cast<uint32_t>(khz));
    save_msrs(vcpu, msrs, state);
    TRY(save<kvm_vcpu_events>(vcpu, KVM_GET_VCPU_EVENTS, "pending events", state.mutable_events()));
    return state;
}

Result<void> restore_vcpu(int vcpu, const snapshot::v1::Vcpu& state) {
    // A guest measured its time against this frequency. Where it cannot be set it has to be the same.
    if (state.tsc_khz() != 0 && ::ioctl(vcpu, KVM_SET_TSC_KHZ, state.tsc_khz()) < 0 &&
        ::ioctl(vcpu, KVM_GET_TSC_KHZ, 0) != static_cast<int>(state.tsc_khz()))
        return base::make_error(ErrorCode::kEngine,
                                "its time stamp counter ran at {} kHz, which this host cannot give",
                                state.tsc_khz());
    TRY(restore<kvm_regs>(vcpu, KVM_SET_REGS, "registers", state.regs()));
    TRY(restore<kvm_sregs>(vcpu, KVM_SET_SREGS, "system registers", state.sregs()));
    TRY(restore<kvm_xcrs>(vcpu, KVM_SET_XCRS, "extended control registers", state.xcrs()));
    TRY(restore<Xsave>(vcpu, ioctls::kSetXsave, "vector registers", state.xsave()));
    TRY(restore<kvm_debugregs>(vcpu, KVM_SET_DEBUGREGS, "debug registers", state.debug_regs()));
    TRY(restore<kvm_lapic_state>(vcpu, KVM_SET_LAPIC, "local APIC", state.lapic()));
    // The timer is armed last, when the counter that it compares with is right.
    for (const bool deadline : {false, true})
        for (const auto& msr : state.msrs())
            if ((msr.index() == kTscDeadline) == deadline) TRY(restore_msr(vcpu, msr));
    TRY(restore<kvm_vcpu_events>(vcpu, KVM_SET_VCPU_EVENTS, "pending events", state.events()));
    kvm_mp_state mp{.mp_state = state.mp_state()};
    if (::ioctl(vcpu, KVM_SET_MP_STATE, &mp) < 0)
        return base::errno_error(ErrorCode::kEngine, "set its run state");
    return {};
}

}  // namespace boxlite::engine::kvm
