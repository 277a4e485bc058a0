// The virtual machine as KVM keeps it: memory slots, interrupt routes, eventfds.
// Thread safety: route() any thread, one at a time; the rest before the vCPUs run.
#pragma once

#include <array>
#include <optional>

#include "engine/kvm/abi.h"
#include "engine/kvm/io_apic.h"
#include "engine/kvm/memory.h"

namespace boxlite::engine::kvm {

class Vm {
  public:
    // kUnsupported, with what to do about it, when this host has no KVM that can carry a machine.
    static Result<Vm> make();

    Result<void> add_memory(const virtio::GuestMemory& memory, uint64_t bytes);
    // Writes of the 32-bit `value` at `address` signal `eventfd` and never leave the kernel.
    Result<void> bind_write(uint64_t address, uint32_t value, int eventfd);
    // A signal of `eventfd` is one of the I/O APIC's `pin`.
    Result<void> bind_pin(uint32_t pin, int eventfd);
    Result<void> route(uint32_t pin, std::optional<MsiMessage> message);

    Result<base::Fd> make_vcpu(uint32_t id);
    // Bytes of the structure that a vCPU's descriptor maps.
    size_t vcpu_map_size() const { return vcpu_map_size_; }
    const std::vector<kvm_cpuid_entry2>& supported_cpuid() const { return supported_cpuid_; }
    // The registers that make a processor's state besides those with calls of their own.
    const std::vector<uint32_t>& msrs() const { return msrs_; }

    // kvmclock, in ns. While the vCPUs stand still.
    Result<uint64_t> clock() const;
    Result<void> set_clock(uint64_t ns);

  private:
    Vm() = default;
    base::Fd fd_;
    size_t vcpu_map_size_ = 0;
    std::vector<kvm_cpuid_entry2> supported_cpuid_;
    std::vector<uint32_t> msrs_;
    std::array<std::optional<MsiMessage>, kIoApicPins> routes_;
};

}  // namespace boxlite::engine::kvm
