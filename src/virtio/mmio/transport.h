// The virtio-mmio transport (virtio 1.2, 4.2), version 2: one device for a driver that reads and writes its
// registers. It knows nothing of the machine around it: kicks and interrupts are eventfds, which a machine
// binds to its bus (ioeventfd) and its interrupt controller (irqfd).
// Thread safety: read() and write() come from any thread, the vCPUs'. Queues and device belong to the loop's
// thread; a write that starts, stops or resets them waits for it, so the loop must be running by then.
// The driver is the guest and is not trusted: a write that makes no sense changes nothing.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <vector>

#include "virtio/device.h"
#include "virtio/mmio/registers.h"

namespace boxlite::virtio::mmio {

class Transport final : public DeviceHost {
  public:
    // `device` and `loop` outlive the transport.
    static Result<std::unique_ptr<Transport>> make(Device& device, base::EventLoop& loop,
                                                   std::shared_ptr<const GuestMemory> memory);
    // On the loop's thread, or after the loop has ended.
    ~Transport() override;
    Transport(const Transport&) = delete;
    Transport& operator=(const Transport&) = delete;

    // On the loop's thread, or before it runs.
    Result<void> start();

    // An access of `data.size()` bytes at `offset` into the device's page.
    void read(uint64_t offset, std::span<uint8_t> data);
    void write(uint64_t offset, base::ByteView data);

    // What a snapshot keeps. On the loop's thread, with no vCPU in the guest.
    struct State {
        uint32_t device_features_select = 0;
        uint32_t driver_features_select = 0;
        uint64_t driver_features = 0;
        uint32_t queue_select = 0;
        uint32_t status = 0;
        uint32_t interrupt_status = 0;
        struct Ring {
            QueueAddresses addresses;  // with the index to go on from
            bool ready = false;
        };
        std::vector<Ring> rings;
    };
    State save();
    // Of a fresh transport, before start(). kEngine when the device is another one.
    Result<void> restore(const State& state);

    // Eventfd that stands for a write of `queue` to kQueueNotify.
    int kick_fd(size_t queue) const { return rings_[queue].kick.get(); }
    // Eventfd that is signalled for each interrupt.
    int interrupt_fd() const { return interrupt_.get(); }
    // Signals interrupt_fd() again if the driver has not acknowledged everything: for an interrupt controller
    // whose pin is level triggered. Thread safe.
    void resample_interrupt();

    base::EventLoop& loop() override { return loop_; }
    Queue& queue(size_t index) override { return rings_[index].queue; }
    void notify(size_t index) override;
    void config_changed() override;

  private:
    struct Ring {
        Queue queue;               // the loop's
        QueueAddresses addresses;  // the registers'
        bool ready = false;
        base::Fd kick;
    };

    Transport(Device& device, base::EventLoop& loop, std::shared_ptr<const GuestMemory> memory);
    uint32_t read_register(uint64_t offset);
    void write_register(uint64_t offset, uint32_t value);
    void write_queue_register(Ring& ring, uint64_t offset, uint32_t value);
    void write_driver_features(uint32_t value);
    void write_status(uint32_t value);
    void reset();
    void run_queues();
    void run_on_loop(const std::function<void()>& call);
    void kicked(size_t index);
    void needs_reset(size_t index, const std::string& reason);
    void interrupt(uint32_t cause);
    uint64_t offered_features() const;

    Device& device_;
    base::EventLoop& loop_;
    std::shared_ptr<const GuestMemory> memory_;
    std::vector<Ring> rings_;
    base::Fd interrupt_;
    std::atomic<uint32_t> interrupt_status_ = 0;
    std::atomic<uint32_t> status_ = 0;

    // Of the registers. Never taken on the loop's thread.
    std::mutex mutex_;
    uint32_t device_features_select_ = 0;
    uint32_t driver_features_select_ = 0;
    uint64_t driver_features_ = 0;
    uint32_t queue_select_ = 0;
};

}  // namespace boxlite::virtio::mmio
