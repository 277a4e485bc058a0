// For tests and fuzzers: packets of the socket device as virtio 1.2, 5.10.6 lays them out, and a guest that
// sends and receives them.
#pragma once

#include "virtio/testing.h"
#include "virtio/vsock.h"

namespace boxlite::virtio::testing {

enum VsockOp : uint16_t {
    kVsockRequest = 1,
    kVsockResponse = 2,
    kVsockReset = 3,
    kVsockShutdown = 4,
    kVsockPayload = 5,
    kVsockCreditUpdate = 6,
    kVsockCreditRequest = 7,
};
inline constexpr uint32_t kVsockNoReceive = 1, kVsockNoSend = 2;  // flags of a shutdown

struct VsockHeader {
    uint64_t src_cid, dst_cid;
    uint32_t src_port, dst_port;
    uint32_t len;
    uint16_t type, op;
    uint32_t flags, buf_alloc, fwd_cnt;
} __attribute__((packed));
static_assert(sizeof(VsockHeader) == 44);

struct VsockPacket {
    VsockHeader header;
    base::Bytes payload;
};

class VsockGuest {
  public:
    static constexpr size_t kReceive = 0, kTransmit = 1;
    static constexpr uint16_t kEntries = 64;

    explicit VsockGuest(Vsock& device) : host_(device, kEntries) {}
    FakeHost& host() { return host_; }

    // A header from the guest's `guest_port` to the host's `host_port`, with plenty of credit.
    static VsockHeader header(uint16_t op, uint32_t guest_port, uint32_t host_port, uint32_t len = 0,
                              uint32_t flags = 0) {
        return {Vsock::kGuestCid, Vsock::kHostCid, guest_port, host_port, len, 1, op, flags, 1 << 20, 0};
    }

    // Posts a packet and kicks. False when the device has not taken it.
    bool send(const VsockHeader& header, base::ByteView payload = {}) {
        auto& ram = host_.ram();
        std::vector<Buffer> chain = {
            ram.readable({reinterpret_cast<const uint8_t*>(&header), sizeof header})};
        if (!payload.empty()) chain.push_back(ram.readable(payload));
        return host_.request(kTransmit, chain).has_value();
    }

    // Gives the device `count` more buffers, and kicks.
    void offer(size_t count, uint32_t bytes = 4096) {
        for (size_t i = 0; i < count; ++i) {
            const Buffer buffer = host_.ram().writable(bytes);
            buffers_[host_.driver(kReceive).post({buffer})] = buffer;
        }
        host_.kick(kReceive);
    }

    size_t offered() const { return buffers_.size(); }

    // What has arrived. Its buffers are used up.
    std::vector<VsockPacket> receive() {
        std::vector<VsockPacket> packets;
        while (const auto used = host_.driver(kReceive).take_used()) {
            const Buffer buffer = buffers_.extract(static_cast<uint16_t>(used->head)).mapped();
            VsockPacket packet{};
            if (used->written >= sizeof packet.header) {
                packet.header = host_.ram().get<VsockHeader>(buffer.address);
                packet.payload = host_.ram().read(buffer.address + sizeof packet.header,
                                                  used->written - sizeof packet.header);
            }
            packets.push_back(std::move(packet));
        }
        return packets;
    }

  private:
    FakeHost host_;
    std::map<uint16_t, Buffer> buffers_;  // by head
};

}  // namespace boxlite::virtio::testing
