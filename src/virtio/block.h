// Block device (virtio 1.2, 5.2) over any disk::BlockBackend. Requests are carried out one after the other
// on the device's thread, straight between the disk's file and the guest's buffers.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "disk/block_backend.h"
#include "virtio/device.h"

namespace boxlite::virtio {

class Block final : public Device {
  public:
    // `serial` is what the guest sees in /sys/block/*/serial; cut at 20 bytes (virtio 1.2, 5.2.6.1).
    Block(std::unique_ptr<disk::BlockBackend> disk, std::string_view serial);

    DeviceType type() const override { return DeviceType::kBlock; }
    std::string name() const override { return "block " + serial_; }
    uint64_t features() const override;
    size_t queue_count() const override { return 1; }
    base::Bytes config() const override { return {config_.begin(), config_.end()}; }
    void process(size_t queue) override;

    // The disk, once the driver is gone: to flush and close it.
    disk::BlockBackend& disk() { return *disk_; }
    // Another one of the same size and content. While the device does nothing.
    void replace_disk(std::unique_ptr<disk::BlockBackend> disk) { disk_ = std::move(disk); }

    // By the driver, so far. From any thread.
    uint64_t read_bytes() const { return read_bytes_; }
    uint64_t written_bytes() const { return written_bytes_; }

  private:
    struct Request {
        uint32_t type;
        uint32_t reserved;
        uint64_t sector;
    };
    struct Outcome {
        uint8_t status;
        uint32_t written;  // bytes to the guest, without the status byte
    };

    Outcome perform(const Request& request, const Chain& chain);
    Outcome transfer(const Request& request, const Chain& chain, bool to_guest);
    Outcome erase(const Request& request, const Chain& chain);
    Outcome identify(const Chain& chain);
    Outcome failed(const Error& error, const char* what);
    bool in_range(uint64_t sector, uint64_t bytes) const;

    std::unique_ptr<disk::BlockBackend> disk_;
    std::string serial_;
    std::array<uint8_t, 60> config_{};
    bool reported_ = false;
    std::atomic<uint64_t> read_bytes_ = 0;
    std::atomic<uint64_t> written_bytes_ = 0;
};

}  // namespace boxlite::virtio
