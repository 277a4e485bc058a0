// Device and interrupt controller state between the objects that have it and the messages that keep it.
#pragma once

#include "engine/kvm/abi.h"
#include "engine/kvm/io_apic.h"
#include "rpc/snapshot.pb.h"
#include "virtio/mmio/transport.h"

namespace boxlite::engine::kvm {

snapshot::v1::IoApic to_message(const IoApic::State& state);
snapshot::v1::Device to_message(virtio::DeviceType type, const virtio::mmio::Transport::State& state);

// kEngine when the message cannot be one that to_message() made.
Result<IoApic::State> from_message(const snapshot::v1::IoApic& message);
Result<virtio::mmio::Transport::State> from_message(virtio::DeviceType type,
                                                    const snapshot::v1::Device& message);
// kEngine for what is no such message.
Result<snapshot::v1::Machine> parse_machine(const std::string& bytes);

std::string cpuid_bytes(const std::vector<kvm_cpuid_entry2>& entries);
Result<std::vector<kvm_cpuid_entry2>> cpuid_entries(const std::string& bytes);

}  // namespace boxlite::engine::kvm
