// Network device (virtio 1.2, 5.1): ethernet frames between the driver and a connected SOCK_SEQPACKET socket,
// one frame a message, without the virtio header. The machine's memory stays on this side of the socket.
// Nothing is queued here: a frame waits in the guest's ring or in the socket until the other side has room.
// When the other end of the socket is gone, the device drops what the driver sends and gets it nothing.
#pragma once

#include <deque>
#include <functional>

#include "virtio/device.h"

namespace boxlite::virtio {

using MacAddress = std::array<uint8_t, 6>;

class Net final : public Device {
  public:
    // An ethernet header with a VLAN tag and the largest IP packet.
    static constexpr size_t kMaxFrame = 18 + 65535;
    static constexpr size_t kMinFrame = 14;
    static constexpr size_t kReceiveQueue = 0;
    static constexpr size_t kTransmitQueue = 1;

    // `lost` is called once, on the device's thread, when the other end of `frames` is gone.
    Net(base::Fd frames, const MacAddress& mac, uint16_t mtu, std::function<void()> lost);

    DeviceType type() const override { return DeviceType::kNet; }
    std::string name() const override { return "net"; }
    uint64_t features() const override;
    size_t queue_count() const override { return 2; }
    base::Bytes config() const override { return {config_.begin(), config_.end()}; }
    void accept(uint64_t features) override { accepted_ = features; }
    void process(size_t queue) override;
    void give_back(size_t queue) override;
    void reset() override;

  private:
    // virtio 1.2, 5.1.6.
    struct Header {
        uint8_t flags, gso_type;
        uint16_t hdr_len, gso_size, csum_start, csum_offset, num_buffers;
    };
    static_assert(sizeof(Header) == 12);

    void socket_ready(uint32_t events);
    void transmit();
    bool send_frame(const Chain& chain);
    std::vector<iovec> frame_of(const Chain& chain, std::array<uint8_t, 2>& checksum) const;
    void receive();
    bool collect_buffers();
    bool next_frame_fits() const;
    ssize_t read_frame();
    void hand_over(size_t frame_bytes);
    void drop_buffers();
    void want(uint32_t events);
    void lose();

    base::Fd frames_;
    std::function<void()> lost_;
    std::array<uint8_t, 12> config_{};
    uint64_t accepted_ = 0;
    std::deque<Chain> buffers_;  // taken from the receive queue, not yet filled
    uint64_t room_ = 0;          // bytes in them
    bool watching_ = false;
    bool transmit_blocked_ = false;  // the socket is full
    uint32_t events_ = 0;            // what epoll watches
};

}  // namespace boxlite::virtio
