// Entropy device (virtio 1.2, 5.4): fills the driver's buffers from the host's random number generator.
#pragma once

#include "virtio/device.h"

namespace boxlite::virtio {

class Rng final : public Device {
  public:
    DeviceType type() const override { return DeviceType::kRng; }
    std::string name() const override { return "rng"; }
    uint64_t features() const override { return 0; }
    size_t queue_count() const override { return 1; }
    base::Bytes config() const override { return {}; }
    void process(size_t queue) override;
};

}  // namespace boxlite::virtio
