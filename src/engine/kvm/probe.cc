// That /dev/kvm is there and answers says little: it may emulate each instruction, or lack what a kernel
// needs. So a small guest is run that uses it.

#include <pthread.h>

#include <chrono>
#include <condition_variable>
#include <ctime>
#include <mutex>
#include <optional>

#include "engine/engine.h"
#include "engine/kvm/cpuid.h"
#include "engine/kvm/layout.h"
#include "engine/kvm/memory.h"
#include "engine/kvm/probe.h"
#include "engine/kvm/vcpu.h"

extern "C" const uint8_t boxlite_kvm_probe_guest[];
extern "C" const uint8_t boxlite_kvm_probe_guest_end[];

namespace boxlite::engine {

namespace {

using std::chrono::milliseconds;

// A processor runs the guest in well under a millisecond, an emulator in half a second.
constexpr milliseconds kBudget{50};
// When the host is so busy that the guest did not get that time.
constexpr milliseconds kBusyBudget{2000};
constexpr uint64_t kManyEmulated = 1000;
constexpr uint64_t kMemoryBytes = 4 << 20;
constexpr uint64_t kEntry = kvm::kHighMemory;
constexpr uint16_t kStepPort = 0x80;
constexpr size_t kWrongStep = 7;
constexpr const char* kSteps[kWrongStep] = {
    "its first instruction", "long mode", "SSE", "cmpxchg16b", "CPUID", "timer interrupts", "a fast loop"};

class Probe final : public kvm::ExitHandler {
  public:
    // The guest's outcome, or nullopt when it came to none in `budget`.
    std::optional<Result<void>> wait(milliseconds budget) {
        std::unique_lock lock(mutex_);
        over_.wait_for(lock, budget, [&] { return outcome_.has_value(); });
        return outcome_;
    }

    const char* step() const {
        const std::scoped_lock lock(mutex_);
        return kSteps[step_];
    }

    void read_port(uint16_t, std::span<uint8_t> data) override { std::fill(data.begin(), data.end(), 0xff); }
    void write_port(uint16_t port, base::ByteView data) override {
        if (port == kvm::kSleepPort) return finish({});
        if (port != kStepPort || data.empty()) return;
        if (data[0] == kWrongStep) return failed("the result is wrong");
        const std::scoped_lock lock(mutex_);
        step_ = std::min<size_t>(data[0], kWrongStep - 1);
    }
    void read_memory(uint64_t, std::span<uint8_t> data) override {
        std::fill(data.begin(), data.end(), 0xff);
    }
    void write_memory(uint64_t, base::ByteView) override {}
    void end_of_interrupt(uint8_t) override {}
    void triple_fault() override { failed("triple fault"); }
    void failed(const std::string& reason) override {
        finish(base::make_error(ErrorCode::kUnsupported, "a guest that tried {} ended: {}", step(), reason));
    }
    bool ended() const override {
        const std::scoped_lock lock(mutex_);
        return outcome_.has_value();
    }

  private:
    void finish(Result<void> outcome) {
        const std::scoped_lock lock(mutex_);
        if (!outcome_) outcome_ = std::move(outcome);
        over_.notify_all();
    }

    mutable std::mutex mutex_;
    std::condition_variable over_;
    std::optional<Result<void>> outcome_;
    size_t step_ = 0;
};

}  // namespace

Result<void> kvm::try_guest(base::ByteView code) {
    kvm::Vm vm = TRY(kvm::Vm::make());
    const kvm::MachineMemory memory = TRY(kvm::MachineMemory::make(kMemoryBytes));
    TRY(vm.add_memory(*memory.view(), kMemoryBytes));
    if (!memory.view()->write(kEntry, code))
        return base::make_error(ErrorCode::kInternal, "the probe's guest does not fit into its machine");
    Probe guest;
    const auto vcpu = TRY(kvm::Vcpu::make(vm, 0, kvm::guest_cpuid(vm.supported_cpuid(), 0, 1)));
    TRY(vcpu->set_boot_state(kvm::BootState{kEntry, 0}));
    TRY(vcpu->start(guest));
    auto outcome = guest.wait(kBudget);
    if (!outcome) {
        const auto emulated = vcpu->emulated_instructions();
        const bool starved = emulated ? *emulated < kManyEmulated : vcpu->cpu_time() < kBudget / 2;
        if (starved) outcome = guest.wait(kBusyBudget);
    }
    if (outcome) return *outcome;
    return base::make_error(ErrorCode::kUnsupported,
                            "a guest that tried {} did not end in {} ms, as when KVM emulates the guest's "
                            "instructions instead of running them",
                            guest.step(), kBudget.count());
}

Result<void> probe_kvm() {
    return kvm::try_guest({boxlite_kvm_probe_guest, boxlite_kvm_probe_guest_end});
}

}  // namespace boxlite::engine
