// A virtio device, independent of how the driver reaches it. A transport (vhost_user/, or virtio-mmio in
// process) negotiates features, starts the queues and passes kicks on.
// Thread safety: every call comes on the transport's event-loop thread, on which the device may also
// watch descriptors of its own.
#pragma once

#include <array>
#include <string>

#include "base/event_loop.h"
#include "virtio/queue.h"

namespace boxlite::virtio {

// virtio 1.2, chapter 5.
enum class DeviceType : uint32_t { kNet = 1, kBlock = 2, kConsole = 3, kRng = 4, kBalloon = 5, kVsock = 19 };

// What a transport gives to a device.
class DeviceHost {
  public:
    virtual ~DeviceHost() = default;
    virtual base::EventLoop& loop() = 0;
    virtual Queue& queue(size_t index) = 0;
    // Interrupts the driver if it wants to hear of what was pushed to the queue.
    virtual void notify(size_t index) = 0;
    // Tells the driver to read the configuration space again. A transport that cannot does nothing.
    virtual void config_changed() = 0;
};

class Device {
  public:
    virtual ~Device() = default;
    virtual DeviceType type() const = 0;
    virtual std::string name() const = 0;  // for logs
    // Device-specific bits; the transport adds those of the ring.
    virtual uint64_t features() const = 0;
    virtual size_t queue_count() const = 0;
    // The device's configuration space now, read-only to the driver. Any thread.
    virtual base::Bytes config() const = 0;
    // The transport lives longer than the device is used.
    virtual void attach(DeviceHost& host) { host_ = &host; }
    // The features that the driver took, before a queue is started.
    virtual void accept(uint64_t) {}
    // A queue has buffers, or was just started.
    virtual void process(size_t queue) = 0;
    // The queue is about to be stopped or kept in a snapshot: requests that were taken and are not begun are
    // put back with undo_pop().
    virtual void give_back(size_t) {}
    // The driver has gone, or resets the device: forget the connection's state.
    virtual void reset() {}
    // The guest goes on from a snapshot in a new device: what was connected to the old one is not.
    virtual void restored() {}

  protected:
    DeviceHost* host_ = nullptr;
};

}  // namespace boxlite::virtio
