// The state of a machine as a snapshot's file has it, which somebody else may have written.
#include "engine/kvm/cpuid.h"
#include "engine/kvm/snapshot.h"
#include "tests/fuzz/fuzz.h"

namespace {

using namespace boxlite;
using namespace boxlite::engine::kvm;
using virtio::DeviceType;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const auto machine = parse_machine({reinterpret_cast<const char*>(data), size});
    if (!machine.ok()) return 0;
    for (const auto& device : machine->devices())
        (void)from_message(static_cast<DeviceType>(device.type()), device);
    (void)from_message(machine->io_apic());
    const auto cpuid = cpuid_entries(machine->cpuid());
    if (cpuid.ok()) {
        (void)check_cpuid(*cpuid, guest_cpuid(*cpuid, 0, 2));
        (void)check_cpuid(guest_cpuid(*cpuid, 1, 32), *cpuid);
    }
    return 0;
}

std::vector<std::string> boxlite::fuzz::seeds() {
    snapshot::v1::Machine machine;
    machine.set_memory_bytes(128 << 20);
    kvm_cpuid_entry2 entry{};
    entry.function = 4;
    entry.eax = 0x121;
    machine.set_cpuid(cpuid_bytes({entry, {}}));
    machine.add_vcpus()->set_regs(std::string(144, 1));
    machine.mutable_vcpus(0)->add_msrs()->set_index(0x10);
    *machine.mutable_io_apic() = to_message(IoApic::State{});
    virtio::mmio::Transport::State state{0, 1, 1ull << 32, 0, 15, 0, {}};
    state.rings.push_back({{256, 0x1000, 0x2000, 0x3000, 5}, true});
    *machine.add_devices() = to_message(DeviceType::kBlock, state);
    return {machine.SerializeAsString(), {}};
}
