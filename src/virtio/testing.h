// For tests and fuzzers: the guest's side of a device. Guest memory in a memfd, split virtqueues in it as a
// driver lays them out (virtio 1.2, 2.7), and a transport that calls the device without a guest.
// What cannot go wrong unless the test is wrong ends the process.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "virtio/device.h"

namespace boxlite::virtio::testing {

inline constexpr uint64_t kRamBase = 0x100000;  // guest address of the first byte
inline constexpr uint64_t kRamSize = 64 << 20;  // sparse: only what is touched takes room

inline constexpr uint16_t kDescNext = 1, kDescWrite = 2, kDescIndirect = 4;

// A buffer as the driver puts it into a chain.
struct Buffer {
    uint64_t address = 0;
    uint32_t length = 0;
    bool writable = false;
};

// Guest memory that is handed out from the front and never taken back.
class Ram {
  public:
    Ram();
    int fd() const { return fd_.get(); }
    const std::shared_ptr<const GuestMemory>& memory() const { return memory_; }

    uint64_t allocate(uint64_t bytes);  // zeroed, aligned to 16
    Buffer readable(base::ByteView content);
    Buffer writable(uint32_t length);

    base::Bytes read(uint64_t address, size_t length) const;
    void write(uint64_t address, base::ByteView content) const;
    template <typename T>
    T get(uint64_t address) const {
        return *reinterpret_cast<const T*>(read(address, sizeof(T)).data());
    }
    template <typename T>
    void put(uint64_t address, T value) const {
        write(address, {reinterpret_cast<const uint8_t*>(&value), sizeof value});
    }

  private:
    base::Fd fd_;
    std::shared_ptr<const GuestMemory> memory_;
    uint64_t next_ = kRamBase;
};

// The driver's side of one queue.
class DriverQueue {
  public:
    struct Used {
        uint32_t head;
        uint32_t written;
    };

    DriverQueue(Ram& ram, uint16_t entries);
    const QueueAddresses& addresses() const { return addresses_; }

    // Puts a chain on the available ring, of one descriptor for each buffer or of one that names an
    // indirect table. Returns its head.
    uint16_t post(const std::vector<Buffer>& buffers, bool indirect = false);
    // The next chain that came back.
    std::optional<Used> take_used();

    // The pieces of post(), for chains that no honest driver makes.
    void describe(uint64_t table, uint16_t index, const Buffer& buffer, uint16_t flags, uint16_t next) const;
    void offer(uint16_t head);
    void set_available_index(uint16_t index) const;

  private:
    uint64_t slot(uint16_t index) const { return index % addresses_.size; }
    uint16_t fill(uint64_t table, const std::vector<Buffer>& buffers, const std::vector<uint16_t>& indices);

    Ram& ram_;
    QueueAddresses addresses_;
    uint16_t available_ = 0;
    uint16_t used_ = 0;
    std::vector<uint16_t> free_;                        // descriptors in no chain
    std::map<uint16_t, std::vector<uint16_t>> chains_;  // by head
};

// A transport without a guest: starts the queues of a device and passes kicks on when it is told to.
class FakeHost final : public DeviceHost {
  public:
    FakeHost(Device& device, uint16_t entries, uint64_t features = kFeatureIndirectDesc);

    base::EventLoop& loop() override { return *loop_; }
    Queue& queue(size_t index) override { return queues_[index]; }
    void notify(size_t index) override;
    void config_changed() override { ++config_changes_; }

    Ram& ram() { return ram_; }
    DriverQueue& driver(size_t index) { return drivers_[index]; }
    void kick(size_t index) { device_.process(index); }
    // Posts, kicks, and the number of bytes that the device says it wrote; nothing while it keeps the chain.
    std::optional<uint32_t> request(size_t index, const std::vector<Buffer>& buffers, bool indirect = false);
    // One round of the event loop: what is ready now, and no waiting.
    void turn();
    // How often the device called for an interrupt, wanted or not.
    size_t notified(size_t index) const { return notified_[index]; }
    size_t config_changes() const { return config_changes_; }

  private:
    Device& device_;
    std::unique_ptr<base::EventLoop> loop_;
    Ram ram_;
    std::vector<Queue> queues_;
    std::vector<DriverQueue> drivers_;
    std::vector<size_t> notified_;
    size_t config_changes_ = 0;
};

// One round of an event loop that nobody else runs.
void turn(base::EventLoop& loop);

}  // namespace boxlite::virtio::testing
