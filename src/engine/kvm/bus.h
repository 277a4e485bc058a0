// What the guest's accesses to ports and to the hole in its memory reach.
#pragma once

#include <functional>
#include <vector>

#include "engine/kvm/io_apic.h"
#include "engine/kvm/uart.h"
#include "virtio/mmio/transport.h"

namespace boxlite::engine::kvm {

// Thread safety: any thread, once it is complete. Where nothing answers, reads give ones and writes are lost.
class Bus {
  public:
    enum class Power { kOff, kReset };

    // All outlive the bus. `power` is called on the thread that writes.
    Bus(IoApic& io_apic, Uart& uart, std::function<void(Power)> power)
        : io_apic_(io_apic), uart_(uart), power_(std::move(power)) {}
    // The next device, a page after the one before.
    void add(virtio::mmio::Transport& transport) { devices_.push_back(&transport); }
    static uint64_t address_of(size_t device);

    void read_port(uint16_t port, std::span<uint8_t> data);
    void write_port(uint16_t port, base::ByteView data);
    void read_memory(uint64_t address, std::span<uint8_t> data);
    void write_memory(uint64_t address, base::ByteView data);

  private:
    virtio::mmio::Transport* device_at(uint64_t address) const;

    IoApic& io_apic_;
    Uart& uart_;
    std::function<void(Power)> power_;
    std::vector<virtio::mmio::Transport*> devices_;
};

}  // namespace boxlite::engine::kvm
