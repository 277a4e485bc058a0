// The vhost-user transport: one device for a driver at the other end of a unix socket.
// Thread safety: construct anywhere, then everything happens on the loop's thread. The driver is the guest
// kernel and is not trusted: a bad message ends the connection and is reported, never the process.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "virtio/device.h"
#include "virtio/vhost_user/protocol.h"

namespace boxlite::virtio::vhost_user {

class Backend final : public DeviceHost {
  public:
    // Called once, on the loop's thread, when the connection is over: with the reason, or "" when the
    // driver closed it.
    using Closed = std::function<void(const std::string& reason)>;

    // `device` and `loop` outlive the backend. `socket` is a connected stream socket.
    Backend(Device& device, base::EventLoop& loop, base::Fd socket, Closed closed);
    ~Backend() override;
    Backend(const Backend&) = delete;
    Backend& operator=(const Backend&) = delete;

    // On the loop's thread, or before it runs.
    Result<void> start();

    base::EventLoop& loop() override { return loop_; }
    Queue& queue(size_t index) override { return rings_[index].queue; }
    void notify(size_t index) override;
    void config_changed() override {}

  private:
    struct Ring {
        Queue queue;
        QueueAddresses addresses;
        bool enabled = false;
        bool reported = false;  // that the guest broke it
        base::Fd kick;
        base::Fd call;
    };

    void readable();
    Result<void> handle(const Header& header, const Payload& payload, std::vector<base::Fd>& fds);
    Result<void> handle_ring(const Header& header, const Payload& payload, std::vector<base::Fd>& fds);
    Result<void> set_memory(const MemoryTable& table, uint32_t payload_size, std::vector<base::Fd>& fds);
    Result<void> get_config(const Config& config);
    Result<Ring*> ring(uint64_t index);
    Result<void> set_kick(Ring& ring, size_t index, base::Fd fd);
    Result<void> update(Ring& ring, size_t index);
    Result<void> reply(uint32_t request, const void* payload, uint32_t size);
    void kicked(size_t index);
    void break_ring(size_t index, const std::string& reason);
    void shut(const std::string& reason);

    Device& device_;
    base::EventLoop& loop_;
    base::Fd socket_;
    Closed closed_;
    std::vector<Ring> rings_;
    std::shared_ptr<const GuestMemory> memory_;
    uint64_t features_ = 0;
};

}  // namespace boxlite::virtio::vhost_user
