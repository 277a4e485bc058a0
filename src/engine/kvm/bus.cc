#include "engine/kvm/bus.h"

#include <algorithm>

namespace boxlite::engine::kvm {

namespace {

using virtio::mmio::kPageSize;

bool is_io_apic(uint64_t address) {
    return address >= kIoApicBase && address - kIoApicBase < kIoApicSize;
}
bool is_uart(uint16_t port) {
    return port >= kUartPort && port < kUartPort + kUartPorts;
}

}  // namespace

uint64_t Bus::address_of(size_t device) {
    return kMmioBase + device * kPageSize;
}

virtio::mmio::Transport* Bus::device_at(uint64_t address) const {
    if (address < kMmioBase) return nullptr;
    const uint64_t index = (address - kMmioBase) / kPageSize;
    return index < devices_.size() ? devices_[index] : nullptr;
}

void Bus::read_port(uint16_t port, std::span<uint8_t> data) {
    std::fill(data.begin(), data.end(), 0xff);
    if (data.size() != 1) return;
    if (is_uart(port)) data[0] = uart_.read(static_cast<uint16_t>(port - kUartPort));
    // A keyboard controller that takes the next command.
    if (port == kKeyboardCommandPort) data[0] = 0;
}

void Bus::write_port(uint16_t port, base::ByteView data) {
    if (data.size() != 1) return;
    if (is_uart(port)) return uart_.write(static_cast<uint16_t>(port - kUartPort), data[0]);
    if (port == kKeyboardCommandPort && data[0] == kKeyboardReset) power_(Power::kReset);
    if (port == kSleepPort && data[0] == kSleepOff) power_(Power::kOff);
}

void Bus::read_memory(uint64_t address, std::span<uint8_t> data) {
    if (is_io_apic(address)) return io_apic_.read(address - kIoApicBase, data);
    if (auto* device = device_at(address)) return device->read(address % kPageSize, data);
    std::fill(data.begin(), data.end(), 0xff);
}

void Bus::write_memory(uint64_t address, base::ByteView data) {
    if (is_io_apic(address)) return io_apic_.write(address - kIoApicBase, data);
    if (auto* device = device_at(address)) device->write(address % kPageSize, data);
}

}  // namespace boxlite::engine::kvm
