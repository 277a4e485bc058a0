// Memory balloon (virtio 1.2, 5.5): memory that the guest does without goes back to the host, as far as the
// balloon is to grow, and, whatever its size, where the guest reports pages that it has no use for now. What
// the guest reads there later may be zeroes, or what was there long before.
#pragma once

#include <atomic>

#include "virtio/device.h"

namespace boxlite::virtio {

class Balloon final : public Device {
  public:
    static constexpr size_t kInflateQueue = 0;
    static constexpr size_t kDeflateQueue = 1;
    static constexpr size_t kReportingQueue = 2;
    static constexpr uint64_t kPage = 4096;

    DeviceType type() const override { return DeviceType::kBalloon; }
    std::string name() const override { return "balloon"; }
    uint64_t features() const override;
    size_t queue_count() const override { return 3; }
    base::Bytes config() const override;
    void process(size_t queue) override;

    // How much the guest is to give up, in bytes. It does so in its own time, and takes memory back rather
    // than end a program for want of it. Any thread.
    void set_size(uint64_t bytes);

  private:
    void take_pages(const GuestMemory& memory, const Chain& chain) const;

    std::atomic<uint32_t> pages_ = 0;
};

}  // namespace boxlite::virtio
