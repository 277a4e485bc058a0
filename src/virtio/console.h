// Console device (virtio 1.2, 5.3) with one port: what the guest prints goes to a sink, of one request at
// most 1 MiB. Input is not offered: nobody types at a box's kernel.
#pragma once

#include <functional>

#include "virtio/device.h"

namespace boxlite::virtio {

class Console final : public Device {
  public:
    // Called on the device's thread with each piece of output, at most 4 KiB. A sink bounds what it keeps:
    // the guest decides how much it prints.
    using Sink = std::function<void(base::ByteView)>;

    explicit Console(Sink sink) : sink_(std::move(sink)) {}
    DeviceType type() const override { return DeviceType::kConsole; }
    std::string name() const override { return "console"; }
    uint64_t features() const override { return 0; }
    size_t queue_count() const override { return 2; }
    base::Bytes config() const override { return {}; }
    void process(size_t queue) override;

  private:
    Sink sink_;
};

}  // namespace boxlite::virtio
