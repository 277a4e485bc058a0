// For the tests of the socket device: a guest and a listener at kPort that keeps what it accepts.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "virtio/vsock_testing.h"

namespace boxlite::virtio {

using testing::kVsockCreditRequest;
using testing::kVsockCreditUpdate;
using testing::kVsockNoReceive;
using testing::kVsockNoSend;
using testing::kVsockPayload;
using testing::kVsockRequest;
using testing::kVsockReset;
using testing::kVsockResponse;
using testing::kVsockShutdown;
using testing::VsockGuest;
using testing::VsockHeader;
using testing::VsockPacket;

inline constexpr uint32_t kPort = 1024, kGuestPort = 5000;

struct VsockTest : ::testing::Test {
    VsockTest() {
        vsock.listen(kPort, [this](base::Fd fd) { accepted.push_back(std::move(fd)); });
    }

    static VsockHeader header(uint16_t op, uint32_t len = 0, uint32_t flags = 0) {
        return VsockGuest::header(op, kGuestPort, kPort, len, flags);
    }
    bool send(const VsockHeader& h, base::ByteView payload = {}) { return guest.send(h, payload); }
    bool send_text(std::string_view text) {
        return send(header(kVsockPayload, static_cast<uint32_t>(text.size())), base::as_bytes(text));
    }
    // The only packet that has arrived.
    VsockPacket receive_one() {
        auto packets = guest.receive();
        EXPECT_EQ(packets.size(), 1u);
        return packets.empty() ? VsockPacket{} : std::move(packets[0]);
    }
    std::vector<uint16_t> receive_ops() {
        std::vector<uint16_t> ops;
        for (const VsockPacket& packet : guest.receive()) ops.push_back(packet.header.op);
        return ops;
    }
    // A connection from kGuestPort, with `buffers` receive buffers left.
    void connect(uint32_t guest_credit = 1 << 20, size_t buffers = 16) {
        guest.offer(buffers + 1);
        VsockHeader request = header(kVsockRequest);
        request.buf_alloc = guest_credit;
        ASSERT_TRUE(send(request));
        ASSERT_EQ(receive_one().header.op, kVsockResponse);
        ASSERT_EQ(accepted.size(), 1u);
    }
    int peer() const { return accepted.at(0).get(); }
    // What the listener's side can read now; "EOF" is appended at its end.
    std::string read_peer(size_t limit = SIZE_MAX) const {
        std::string text;
        while (text.size() < limit) {
            char buffer[65536];
            const ssize_t n = ::read(peer(), buffer, std::min(sizeof buffer, limit - text.size()));
            if (n < 0) break;
            if (n == 0) return text + "EOF";
            text.append(buffer, static_cast<size_t>(n));
        }
        return text;
    }
    void write_peer(std::string_view text) const {
        ASSERT_EQ(::write(peer(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
    }

    std::vector<base::Fd> accepted;
    Vsock vsock;
    VsockGuest guest{vsock};
};

}  // namespace boxlite::virtio
