#include "engine/kvm/vm.h"

#include <fcntl.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cstring>
#include <memory>

namespace boxlite::engine::kvm {

namespace {

constexpr const char* kDevice = "/dev/kvm";
constexpr int kApiVersion = 12;

struct Needed {
    int capability;
    const char* what;
};
constexpr Needed kNeeded[] = {
    {KVM_CAP_USER_MEMORY, "user memory"},
    {KVM_CAP_SPLIT_IRQCHIP, "a split irqchip"},
    {KVM_CAP_IRQFD, "irqfd"},
    {KVM_CAP_IOEVENTFD, "ioeventfd"},
    {KVM_CAP_IRQ_ROUTING, "irq routing"},
    {KVM_CAP_TSC_DEADLINE_TIMER, "the TSC deadline timer"},
    {KVM_CAP_EXT_CPUID, "extended CPUID"},
    {KVM_CAP_SET_TSS_ADDR, "a TSS address"},
};

Error unsupported(const std::string& reason) {
    return base::make_error(ErrorCode::kUnsupported,
                            "the kvm engine cannot run here: {}; use the uml engine, or a host with KVM",
                            reason);
}

Result<void> check(int kvm) {
    if (const int version = ::ioctl(kvm, KVM_GET_API_VERSION, 0); version != kApiVersion)
        return unsupported(fmt::format("{} speaks version {} and not {}", kDevice, version, kApiVersion));
    for (const Needed& needed : kNeeded)
        if (::ioctl(kvm, KVM_CHECK_EXTENSION, needed.capability) <= 0)
            return unsupported(fmt::format("its KVM has no {}", needed.what));
    return {};
}

Result<std::vector<kvm_cpuid_entry2>> read_supported_cpuid(int kvm) {
    auto table = std::make_unique<CpuidTable>();
    table->count = kMaxCpuidEntries;
    if (::ioctl(kvm, ioctls::kGetSupportedCpuid, table.get()) < 0)
        return base::errno_error(ErrorCode::kEngine, "ask KVM what processors it can give");
    return std::vector(table->entries, table->entries + std::min(table->count, kMaxCpuidEntries));
}

Result<std::vector<uint32_t>> read_msr_indices(int kvm) {
    auto list = std::make_unique<MsrList>();
    if (::ioctl(kvm, ioctls::kGetMsrIndexList, list.get()) < 0)
        return base::errno_error(ErrorCode::kEngine, "ask KVM for the registers of a processor");
    return std::vector(list->indices, list->indices + std::min(list->count, kMaxMsrs));
}

}  // namespace

Result<Vm> Vm::make() {
    const base::Fd kvm(::open(kDevice, O_RDWR | O_CLOEXEC));
    if (!kvm.valid()) {
        const int error = errno;
        return unsupported(fmt::format("{} cannot be opened ({}{})", kDevice, std::strerror(error),
                                       error == EACCES ? "; the user has to be in its group" : ""));
    }
    TRY(check(kvm.get()));
    Vm vm;
    const int map_size = ::ioctl(kvm.get(), KVM_GET_VCPU_MMAP_SIZE, 0);
    if (map_size < static_cast<int>(sizeof(kvm_run)))
        return base::errno_error(ErrorCode::kEngine, "ask KVM for the size of a vCPU");
    vm.vcpu_map_size_ = static_cast<size_t>(map_size);
    vm.supported_cpuid_ = TRY(read_supported_cpuid(kvm.get()));
    vm.msrs_ = TRY(read_msr_indices(kvm.get()));
    vm.fd_ = base::Fd(::ioctl(kvm.get(), KVM_CREATE_VM, 0));
    if (!vm.fd_.valid()) return base::errno_error(ErrorCode::kEngine, "make a virtual machine");
    uint64_t identity_map = kIdentityMapAddress;
    if (::ioctl(vm.fd_.get(), KVM_SET_IDENTITY_MAP_ADDR, &identity_map) < 0 ||
        ::ioctl(vm.fd_.get(), KVM_SET_TSS_ADDR, kTssAddress) < 0)
        return base::errno_error(ErrorCode::kEngine, "place KVM's own pages");
    kvm_enable_cap split{};
    split.cap = KVM_CAP_SPLIT_IRQCHIP;
    split.args[0] = kIoApicPins;
    if (::ioctl(vm.fd_.get(), KVM_ENABLE_CAP, &split) < 0)
        return base::errno_error(ErrorCode::kEngine, "split the interrupt controller");
    return vm;
}

Result<uint64_t> Vm::clock() const {
    kvm_clock_data data{};
    if (::ioctl(fd_.get(), KVM_GET_CLOCK, &data) < 0)
        return base::errno_error(ErrorCode::kEngine, "read the machine's clock");
    return data.clock;
}

Result<void> Vm::set_clock(uint64_t ns) {
    kvm_clock_data data{};
    data.clock = ns;
    if (::ioctl(fd_.get(), KVM_SET_CLOCK, &data) < 0)
        return base::errno_error(ErrorCode::kEngine, "set the machine's clock");
    return {};
}

Result<void> Vm::add_memory(const virtio::GuestMemory& memory, uint64_t bytes) {
    uint32_t number = 0;
    for (const MemorySlot& slot : memory_slots(bytes)) {
        kvm_userspace_memory_region region{};
        region.slot = number++;
        region.guest_phys_addr = slot.guest_address;
        region.memory_size = slot.size;
        region.userspace_addr =
            reinterpret_cast<uintptr_t>(memory.range_for_io(slot.guest_address, slot.size).iov_base);
        if (::ioctl(fd_.get(), KVM_SET_USER_MEMORY_REGION, &region) < 0)
            return base::errno_error(ErrorCode::kEngine, "give {} bytes of memory to the machine", slot.size);
    }
    return {};
}

Result<void> Vm::bind_write(uint64_t address, uint32_t value, int eventfd) {
    kvm_ioeventfd binding{};
    binding.datamatch = value;
    binding.addr = address;
    binding.len = sizeof value;
    binding.fd = eventfd;
    binding.flags = KVM_IOEVENTFD_FLAG_DATAMATCH;
    if (::ioctl(fd_.get(), KVM_IOEVENTFD, &binding) < 0)
        return base::errno_error(ErrorCode::kEngine, "bind a queue's notifications at {:#x}", address);
    return {};
}

Result<void> Vm::bind_pin(uint32_t pin, int eventfd) {
    kvm_irqfd binding{};
    binding.fd = static_cast<uint32_t>(eventfd);
    binding.gsi = pin;
    if (::ioctl(fd_.get(), KVM_IRQFD, &binding) < 0)
        return base::errno_error(ErrorCode::kEngine, "bind interrupt {}", pin);
    return {};
}

Result<void> Vm::route(uint32_t pin, std::optional<MsiMessage> message) {
    routes_[pin] = message;
    RoutingTable table;
    for (uint32_t i = 0; i < kIoApicPins; ++i) {
        if (!routes_[i]) continue;
        kvm_irq_routing_entry& entry = table.entries[table.count++];
        entry.gsi = i;
        entry.type = KVM_IRQ_ROUTING_MSI;
        entry.u.msi.address_lo = routes_[i]->address;
        entry.u.msi.data = routes_[i]->data;
    }
    if (::ioctl(fd_.get(), ioctls::kSetGsiRouting, &table) < 0)
        return base::errno_error(ErrorCode::kEngine, "route interrupt {}", pin);
    return {};
}

Result<base::Fd> Vm::make_vcpu(uint32_t id) {
    base::Fd vcpu(::ioctl(fd_.get(), KVM_CREATE_VCPU, id));
    if (!vcpu.valid()) return base::errno_error(ErrorCode::kEngine, "make vCPU {}", id);
    return vcpu;
}

}  // namespace boxlite::engine::kvm
