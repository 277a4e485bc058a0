#include "engine/kvm/snapshot.h"

#include <cstring>

#include "engine/kvm/abi.h"

namespace boxlite::engine::kvm {

namespace {

Error damaged(const char* part) {
    return base::make_error(ErrorCode::kEngine, "the snapshot's {} is damaged", part);
}

}  // namespace

snapshot::v1::IoApic to_message(const IoApic::State& state) {
    snapshot::v1::IoApic message;
    message.set_select(state.select);
    message.set_id(state.id);
    for (const uint64_t entry : state.entries) message.add_entries(entry);
    return message;
}

Result<IoApic::State> from_message(const snapshot::v1::IoApic& message) {
    IoApic::State state{message.select(), message.id(), {}};
    if (static_cast<size_t>(message.entries_size()) != state.entries.size())
        return damaged("interrupt controller");
    std::copy(message.entries().begin(), message.entries().end(), state.entries.begin());
    return state;
}

snapshot::v1::Device to_message(virtio::DeviceType type, const virtio::mmio::Transport::State& state) {
    snapshot::v1::Device message;
    message.set_type(static_cast<uint32_t>(type));
    message.set_device_features_select(state.device_features_select);
    message.set_driver_features_select(state.driver_features_select);
    message.set_driver_features(state.driver_features);
    message.set_queue_select(state.queue_select);
    message.set_status(state.status);
    message.set_interrupt_status(state.interrupt_status);
    for (const auto& ring : state.rings) {
        auto* queue = message.add_queues();
        queue->set_size(ring.addresses.size);
        queue->set_descriptors(ring.addresses.descriptors);
        queue->set_available(ring.addresses.available);
        queue->set_used(ring.addresses.used);
        queue->set_next_available(ring.addresses.next_available);
        queue->set_ready(ring.ready);
    }
    return message;
}

Result<virtio::mmio::Transport::State> from_message(virtio::DeviceType type,
                                                    const snapshot::v1::Device& message) {
    if (message.type() != static_cast<uint32_t>(type))
        return base::make_error(ErrorCode::kEngine,
                                "the snapshot has a device of type {} where the machine has type {}",
                                message.type(), static_cast<uint32_t>(type));
    virtio::mmio::Transport::State state{message.device_features_select(),
                                         message.driver_features_select(),
                                         message.driver_features(),
                                         message.queue_select(),
                                         message.status(),
                                         message.interrupt_status(),
                                         {}};
    for (const auto& queue : message.queues()) {
        if (queue.size() > virtio::kMaxQueueSize || queue.next_available() > UINT16_MAX)
            return damaged("device");
        state.rings.push_back({{static_cast<uint16_t>(queue.size()), queue.descriptors(), queue.available(),
                                queue.used(), static_cast<uint16_t>(queue.next_available())},
                               queue.ready()});
    }
    return state;
}

Result<snapshot::v1::Machine> parse_machine(const std::string& bytes) {
    snapshot::v1::Machine machine;
    if (!machine.ParseFromString(bytes)) return damaged("machine state");
    return machine;
}

std::string cpuid_bytes(const std::vector<kvm_cpuid_entry2>& entries) {
    return {reinterpret_cast<const char*>(entries.data()), entries.size() * sizeof entries[0]};
}

Result<std::vector<kvm_cpuid_entry2>> cpuid_entries(const std::string& bytes) {
    std::vector<kvm_cpuid_entry2> entries(bytes.size() / sizeof(kvm_cpuid_entry2));
    if (entries.empty() || entries.size() > kMaxCpuidEntries || bytes.size() % sizeof entries[0] != 0)
        return damaged("CPUID");
    std::memcpy(entries.data(), bytes.data(), bytes.size());
    return entries;
}

}  // namespace boxlite::engine::kvm
