// Socket device (virtio 1.2, 5.10), stream sockets. The guest dials CID 2; a port with a listener yields
// one end of a socket pair, whose other end the device carries. Everything else is reset at once.
// Memory is bounded: per connection the device holds at most kBufferBytes that the listener's side has not
// read, and a guest that sends beyond the credit it was given is reset.
#pragma once

#include <deque>
#include <functional>
#include <map>

#include "virtio/device.h"

namespace boxlite::virtio {

class Vsock final : public Device {
  public:
    static constexpr uint64_t kGuestCid = 3;
    static constexpr uint64_t kHostCid = 2;
    static constexpr uint32_t kBufferBytes = 256 << 10;
    static constexpr size_t kMaxConnections = 1024;

    // Called on the device's thread with a connected, non-blocking stream socket.
    using Accept = std::function<void(base::Fd)>;

    Vsock();
    // Before the device is used.
    void listen(uint32_t port, Accept accept) { listeners_[port] = std::move(accept); }

    DeviceType type() const override { return DeviceType::kVsock; }
    std::string name() const override { return "vsock"; }
    uint64_t features() const override { return 0; }
    size_t queue_count() const override { return 3; }
    base::Bytes config() const override { return {config_.begin(), config_.end()}; }
    void process(size_t queue) override;
    void reset() override;
    void restored() override;

  private:
    // virtio 1.2, 5.10.6.
    struct Header {
        uint64_t src_cid, dst_cid;
        uint32_t src_port, dst_port;
        uint32_t len;
        uint16_t type, op;
        uint32_t flags, buf_alloc, fwd_cnt;
    } __attribute__((packed));
    static_assert(sizeof(Header) == 44);

    struct Key {
        uint32_t guest_port, host_port;
        auto operator<=>(const Key&) const = default;
    };

    struct Connection {
        base::Fd socket;
        base::Bytes pending;          // from the guest, not yet taken by the socket
        uint32_t forwarded = 0;       // bytes from the guest that the socket took
        uint32_t told_forwarded = 0;  // what the guest knows of it
        uint32_t sent = 0;            // bytes to the guest
        uint32_t peer_alloc = 0;      // the guest's credit
        uint32_t peer_forwarded = 0;
        bool reading = true;     // the socket has not ended; false too while the guest has no credit
        bool local_eof = false;  // the socket's peer will send no more
        bool guest_eof = false;  // the guest will send no more
        bool hung_up = false;    // the socket's peer is gone: epoll would say so for ever
        uint32_t events = 0;     // what epoll watches
    };

    void process_transmit();
    void tell_transmitted();
    void handle(const Header& header, const Chain& chain);
    void handle_request(const Header& header);
    void handle_payload(const Header& header, const Chain& chain, Key key, Connection& connection);
    void handle_shutdown(const Header& header, Key key, Connection& connection);
    void flush_pending(Key key, Connection& connection);
    void flush_receive();
    bool send_data(Key key, Connection& connection);
    void socket_ready(Key key, uint32_t events);
    void update_events(Key key, Connection& connection);
    void grant_credit(Key key, Connection& connection);
    void queue_control(Key key, uint16_t op, uint32_t flags = 0);
    void close(Key key);
    static uint32_t credit(const Connection& connection);
    Header header_for(Key key, uint16_t op, const Connection* connection) const;

    std::array<uint8_t, 8> config_;
    std::map<uint32_t, Accept> listeners_;
    std::map<Key, Connection> connections_;
    struct Control {
        Key key;
        uint16_t op;
        uint32_t flags;
    };
    std::deque<Control> controls_;  // waiting for a receive buffer; bounded, see queue_control
    std::deque<Key> ready_;         // sockets with data, waiting for a receive buffer
    size_t untold_ = 0;             // packets taken from the guest that it has not been told of
    base::EventLoop::TimerId tell_timer_ = 0;
};

}  // namespace boxlite::virtio
