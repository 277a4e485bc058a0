// Connections: opened, refused, used, and closed from either side.
#include "virtio/vsock.h"

#include <sys/resource.h>

#include "virtio/vsock_fixture.h"

namespace boxlite::virtio {
namespace {

using Ops = std::vector<uint16_t>;

TEST_F(VsockTest, ConfigurationTellsTheGuestItsCid) {
    ASSERT_EQ(vsock.config().size(), 8u);
    EXPECT_EQ(base::load_le<uint64_t>(vsock.config().data()), 3u);
}

TEST_F(VsockTest, AnswerMirrorsTheRequest) {
    guest.offer(1);
    ASSERT_TRUE(send(header(kVsockRequest)));
    const VsockHeader answer = receive_one().header;
    EXPECT_EQ(answer.op, kVsockResponse);
    EXPECT_EQ(answer.type, 1);
    EXPECT_EQ(answer.src_cid, 2u);
    EXPECT_EQ(answer.dst_cid, 3u);
    EXPECT_EQ(answer.src_port, kPort);
    EXPECT_EQ(answer.dst_port, kGuestPort);
    EXPECT_EQ(answer.len, 0u);
    EXPECT_EQ(answer.buf_alloc, Vsock::kBufferBytes);
    EXPECT_EQ(answer.fwd_cnt, 0u);
}

TEST_F(VsockTest, DataGoesBothWays) {
    connect();
    EXPECT_TRUE(send_text("from the guest"));
    EXPECT_EQ(read_peer(), "from the guest");
    write_peer("from the host");
    guest.host().turn();
    const VsockPacket packet = receive_one();
    EXPECT_EQ(packet.header.op, kVsockPayload);
    EXPECT_EQ(packet.header.len, 13u);
    EXPECT_EQ(packet.header.fwd_cnt, 14u);
    EXPECT_EQ(base::as_text(packet.payload), "from the host");
}

TEST_F(VsockTest, GuestHearsOfSentPacketsTogetherAndOfTheLastALittleLater) {
    connect();
    const auto told = [this] { return guest.host().notified(VsockGuest::kTransmit); };
    ASSERT_EQ(told(), 0u);
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(send_text("x"));
    EXPECT_EQ(told(), 1u) << "four packets, with the one that asked for the connection";
    ASSERT_TRUE(send_text("x"));
    EXPECT_EQ(told(), 1u);
    const base::Deadline deadline(std::chrono::seconds(10));
    while (told() == 1 && !deadline.passed()) guest.host().turn();
    EXPECT_EQ(told(), 2u);
}

TEST_F(VsockTest, RefusesPortsWithoutListener) {
    guest.offer(2);
    send(VsockGuest::header(kVsockRequest, kGuestPort, kPort + 1));
    const VsockHeader answer = receive_one().header;
    EXPECT_EQ(answer.op, kVsockReset);
    EXPECT_EQ(answer.src_port, kPort + 1);
    EXPECT_TRUE(accepted.empty());
}

TEST_F(VsockTest, IgnoresOtherCids) {
    guest.offer(2);
    VsockHeader wrong = header(kVsockRequest);
    wrong.src_cid = 4;
    EXPECT_TRUE(send(wrong));
    wrong = header(kVsockRequest);
    wrong.dst_cid = 1;
    EXPECT_TRUE(send(wrong));
    EXPECT_EQ(receive_ops(), Ops{});
    EXPECT_TRUE(accepted.empty());
}

TEST_F(VsockTest, ResetsWhatBelongsToNoConnection) {
    guest.offer(8);
    VsockHeader datagram = header(kVsockRequest);
    datagram.type = 3;
    send(datagram);
    for (const uint16_t op :
         {kVsockResponse, kVsockShutdown, kVsockPayload, kVsockCreditUpdate, kVsockCreditRequest})
        send(header(op));
    EXPECT_EQ(receive_ops(), Ops(6, kVsockReset));
    send(header(kVsockReset));  // a reset is never answered
    EXPECT_EQ(receive_ops(), Ops{});
}

TEST_F(VsockTest, UnknownOperationEndsTheConnection) {
    connect();
    send(header(99));
    EXPECT_EQ(receive_ops(), Ops{kVsockReset});
    EXPECT_EQ(read_peer(), "EOF");
}

TEST_F(VsockTest, OneConnectionForEachPairOfPorts) {
    connect();
    send(header(kVsockRequest));
    EXPECT_EQ(receive_ops(), Ops{kVsockReset});
    EXPECT_EQ(accepted.size(), 1u);
    send(VsockGuest::header(kVsockRequest, kGuestPort + 1, kPort));
    EXPECT_EQ(receive_ops(), Ops{kVsockResponse});
}

TEST_F(VsockTest, TooManyConnectionsAreRefused) {
    rlimit limit{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
    ASSERT_GT(limit.rlim_cur, 2 * Vsock::kMaxConnections + 100);
    for (uint32_t i = 0; i < Vsock::kMaxConnections; ++i) {
        guest.offer(1);
        send(VsockGuest::header(kVsockRequest, kGuestPort + i, kPort));
        ASSERT_EQ(receive_ops(), Ops{kVsockResponse}) << i;
    }
    guest.offer(2);
    send(VsockGuest::header(kVsockRequest, 1, kPort));
    EXPECT_EQ(receive_ops(), Ops{kVsockReset});
    send(header(kVsockReset));
    send(VsockGuest::header(kVsockRequest, 1, kPort));
    EXPECT_EQ(receive_ops(), Ops{kVsockResponse});
}

TEST_F(VsockTest, GuestHalfCloses) {
    connect();
    send_text("last words");
    send(header(kVsockShutdown, 0, kVsockNoSend));
    EXPECT_EQ(read_peer(), "last wordsEOF");
    write_peer("answer");
    guest.host().turn();
    EXPECT_EQ(base::as_text(receive_one().payload), "answer");
    send_text("more");  // after its end of file
    EXPECT_EQ(receive_ops(), Ops{kVsockReset});
}

TEST_F(VsockTest, HostHalfCloses) {
    connect();
    write_peer("last words");
    ASSERT_EQ(::shutdown(peer(), SHUT_WR), 0);
    guest.host().turn();
    const auto packets = guest.receive();
    ASSERT_EQ(packets.size(), 2u);
    EXPECT_EQ(base::as_text(packets[0].payload), "last words");
    EXPECT_EQ(packets[1].header.op, kVsockShutdown);
    EXPECT_EQ(packets[1].header.flags, kVsockNoSend);
    send_text("answer");
    EXPECT_EQ(read_peer(), "answer");
    send(header(kVsockShutdown, 0, kVsockNoSend));
    guest.host().turn();
    EXPECT_EQ(receive_ops(), Ops{kVsockReset});
    EXPECT_EQ(read_peer(), "EOF");
}

TEST_F(VsockTest, HostCloses) {
    connect(4, 16);  // credit for half of what is written
    write_peer("12345678");
    accepted.clear();
    guest.host().turn();
    EXPECT_EQ(base::as_text(receive_one().payload), "1234");
    VsockHeader update = header(kVsockCreditUpdate);
    update.fwd_cnt = 4;
    send(update);
    const auto packets = guest.receive();
    ASSERT_EQ(packets.size(), 3u);
    EXPECT_EQ(base::as_text(packets[0].payload), "5678");
    EXPECT_EQ(packets[1].header.op, kVsockShutdown);
    EXPECT_EQ(packets[2].header.op, kVsockReset);
    send(header(kVsockShutdown, 0, kVsockNoSend | kVsockNoReceive));
    EXPECT_EQ(receive_ops(), Ops{kVsockReset});  // nothing is left of it
}

TEST_F(VsockTest, GuestCloses) {
    connect();
    send_text("last words");
    send(header(kVsockShutdown, 0, kVsockNoSend | kVsockNoReceive));
    EXPECT_EQ(receive_ops(), Ops{kVsockReset});
    EXPECT_EQ(read_peer(), "last wordsEOF");
}

TEST_F(VsockTest, GuestCloseKeepsWhatTheReaderHasNotTaken) {
    connect();
    const std::string part(65536, 'x');
    size_t sent = 0;
    while (sent < size_t{Vsock::kBufferBytes}) {  // within its credit, whatever the socket takes
        send_text(part);
        sent += part.size();
    }
    send(header(kVsockShutdown, 0, kVsockNoSend | kVsockNoReceive));
    std::string all;
    for (int i = 0; i < 20 && !all.ends_with("EOF"); ++i) {
        all += read_peer();
        guest.host().turn();
    }
    EXPECT_EQ(all.size(), sent + 3);
    const Ops ops = receive_ops();
    ASSERT_FALSE(ops.empty());
    EXPECT_EQ(ops.back(), kVsockReset);
}

TEST_F(VsockTest, GuestResets) {
    connect();
    send(header(kVsockReset));
    EXPECT_EQ(receive_ops(), Ops{});
    EXPECT_EQ(read_peer(), "EOF");
    EXPECT_TRUE(send_text("more"));
    EXPECT_EQ(receive_ops(), Ops{kVsockReset});
}

TEST_F(VsockTest, HostGoesWhileTheGuestSends) {
    connect();
    accepted.clear();
    send_text("to nobody");
    EXPECT_EQ(receive_ops(), Ops{kVsockReset});
    guest.host().turn();
    EXPECT_EQ(receive_ops(), Ops{});
}

TEST_F(VsockTest, ResetOfTheDeviceClosesAll) {
    connect();
    vsock.reset();
    EXPECT_EQ(read_peer(), "EOF");
    accepted.clear();
    send(header(kVsockRequest));
    EXPECT_EQ(receive_ops(), Ops{kVsockResponse});
    EXPECT_TRUE(send_text("again"));
    EXPECT_EQ(read_peer(), "again");
}

}  // namespace
}  // namespace boxlite::virtio
