// Flow control: credit in both directions, and guests that do not keep to it.
#include "virtio/vsock_fixture.h"

namespace boxlite::virtio {
namespace {

using Ops = std::vector<uint16_t>;

TEST_F(VsockTest, HostSendsNoMoreThanTheGuestsCredit) {
    connect(100);
    write_peer(std::string(1000, 'x'));
    guest.host().turn();
    EXPECT_EQ(receive_one().payload.size(), 100u);
    guest.host().turn();
    EXPECT_EQ(receive_ops(), Ops{});
    VsockHeader update = header(kVsockCreditUpdate);
    update.buf_alloc = 100;
    update.fwd_cnt = 60;
    send(update);
    guest.host().turn();
    EXPECT_EQ(receive_one().payload.size(), 60u);
}

TEST_F(VsockTest, EveryPacketCarriesCredit) {
    connect(10);
    write_peer(std::string(30, 'x'));
    guest.host().turn();
    EXPECT_EQ(receive_one().payload.size(), 10u);
    VsockHeader request = header(kVsockCreditRequest);
    request.buf_alloc = 10;
    request.fwd_cnt = 10;
    send(request);
    guest.host().turn();
    auto packets = guest.receive();
    ASSERT_EQ(packets.size(), 2u);
    EXPECT_EQ(packets[0].header.op, kVsockCreditUpdate);
    EXPECT_EQ(packets[1].payload.size(), 10u);
}

TEST_F(VsockTest, ImpossibleCreditStopsTheHostOnly) {
    connect(0);
    write_peer("data");
    VsockHeader update = header(kVsockCreditUpdate);
    update.fwd_cnt = 0x80000000;  // more than was ever sent
    send(update);
    guest.host().turn();
    EXPECT_EQ(receive_ops(), Ops{});
    EXPECT_TRUE(send_text("still here"));
}

TEST_F(VsockTest, CreditIsGivenBackAsTheHostReads) {
    connect(1 << 20, 60);
    const std::string part(65536, 'x');
    size_t taken = 0;
    uint32_t forwarded = 0;
    for (int i = 0; i < 32; ++i) {
        ASSERT_LE(i * part.size() - forwarded, Vsock::kBufferBytes - part.size())
            << "a guest would wait for ever";
        ASSERT_TRUE(send_text(part));
        taken += read_peer().size();
        guest.host().turn();
        for (const VsockPacket& packet : guest.receive()) {
            ASSERT_EQ(packet.header.op, kVsockCreditUpdate);
            forwarded = packet.header.fwd_cnt;
        }
    }
    EXPECT_EQ(taken, 32 * part.size());
}

TEST_F(VsockTest, HoldsNoMoreThanItsBufferForAReaderThatDoesNotRead) {
    connect(1 << 20, 60);
    const std::string part(65536, 'x');
    uint64_t sent = 0;
    uint32_t forwarded = 0;
    Ops ops;
    while (ops.empty() || ops.back() != kVsockReset) {
        ASSERT_LE(sent, 4u << 20) << "a guest beyond its credit is reset";
        ASSERT_TRUE(send_text(part));
        sent += part.size();
        for (const VsockPacket& packet : guest.receive()) {
            ops.push_back(packet.header.op);
            if (packet.header.op == kVsockCreditUpdate) forwarded = packet.header.fwd_cnt;
        }
    }
    EXPECT_GT(sent - forwarded, Vsock::kBufferBytes);  // it was within its rights before
    EXPECT_TRUE(read_peer().ends_with("EOF"));
}

TEST_F(VsockTest, PacketsThatLieAboutTheirLengthEndTheConnection) {
    for (const uint32_t len : {5u, 65537u, UINT32_MAX}) {
        connect();
        send(header(kVsockPayload, len), base::as_bytes("1234"));
        EXPECT_EQ(receive_ops(), Ops{kVsockReset}) << len;
        EXPECT_EQ(read_peer(), "EOF");
        accepted.clear();
    }
}

TEST_F(VsockTest, ShortAndEmptyPackets) {
    connect();
    auto& ram = guest.host().ram();
    EXPECT_TRUE(guest.host().request(VsockGuest::kTransmit, {ram.readable(base::Bytes(43))}));
    EXPECT_TRUE(guest.host().request(VsockGuest::kTransmit, {ram.writable(44)}));
    EXPECT_TRUE(send(header(kVsockPayload, 0)));
    EXPECT_TRUE(send(header(kVsockPayload, 2), base::as_bytes("all of this but two is ignored")));
    EXPECT_EQ(read_peer(), "al");
}

TEST_F(VsockTest, WithoutReceiveBuffersDataWaitsAndTheLoopRests) {
    connect(1 << 20, 0);
    write_peer("data");
    guest.host().turn();
    guest.host().turn();
    const size_t rounds = guest.host().notified(VsockGuest::kReceive);
    for (int i = 0; i < 10; ++i) guest.host().turn();
    EXPECT_EQ(guest.host().notified(VsockGuest::kReceive), rounds);
    guest.offer(1);
    EXPECT_EQ(base::as_text(receive_one().payload), "data");
    write_peer("more");
    guest.offer(1);
    guest.host().turn();
    EXPECT_EQ(base::as_text(receive_one().payload), "more");
}

TEST_F(VsockTest, ReceiveBuffersWithoutRoomForDataAreNotTheEnd) {
    connect(1 << 20, 0);
    guest.offer(2, sizeof(VsockHeader));
    write_peer("data");
    guest.host().turn();
    for (const VsockPacket& packet : guest.receive()) EXPECT_NE(packet.header.op, kVsockShutdown);
    guest.offer(1);
    EXPECT_EQ(base::as_text(receive_one().payload), "data");
}

// A guest that asks and never listens: the device stops taking requests, and goes on once there are buffers.
TEST_F(VsockTest, AnswersThatCannotBeDeliveredAreBounded) {
    size_t asked = 0;
    while (send(VsockGuest::header(kVsockRequest, kGuestPort, kPort + 1))) {
        ++asked;
        ASSERT_LE(asked, 10000u);
    }
    ++asked;  // the one that still waits
    size_t answered = 0;
    for (size_t i = 0; i < asked; ++i) {
        guest.offer(2);
        const size_t n = guest.receive().size();
        answered += n;
        if (answered == asked) break;
        ASSERT_EQ(n, 2u) << "an answer waits beside a free buffer";
    }
    EXPECT_EQ(answered, asked);
    EXPECT_TRUE(guest.host().driver(VsockGuest::kTransmit).take_used());
}

}  // namespace
}  // namespace boxlite::virtio
