#include "virtio/net.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/checksum.h"
#include "virtio/testing.h"

namespace boxlite::virtio {
namespace {

constexpr size_t kReceive = Net::kReceiveQueue, kTransmit = Net::kTransmitQueue;
constexpr size_t kHeader = 12;
constexpr uint64_t kMergeable = 1ull << 15, kGuestChecksum = 1ull << 1, kChecksum = 1ull << 0;

struct NetTest : ::testing::Test {
    NetTest() { device.accept(kMergeable | kGuestChecksum); }

    base::FdPair sockets = base::make_socketpair(SOCK_SEQPACKET | SOCK_NONBLOCK).value();
    int lost = 0;
    Net device{std::move(sockets.first), {2, 0, 0, 0, 0, 1}, 65520, [this] { ++lost; }};
    testing::FakeHost host{device, 256};

    static std::string frame(size_t bytes, char fill = 'f') { return std::string(bytes, fill); }

    void arrives(const std::string& content) {
        ASSERT_EQ(::send(sockets.second.get(), content.data(), content.size(), 0),
                  static_cast<ssize_t>(content.size()));
    }
    // What left through the socket; "" when there is nothing.
    std::string departed() {
        std::string content(100000, '\0');
        const ssize_t n = ::recv(sockets.second.get(), content.data(), content.size(), MSG_DONTWAIT);
        content.resize(n > 0 ? static_cast<size_t>(n) : 0);
        return content;
    }
    testing::Buffer to_send(const std::string& content) {
        return host.ram().readable(base::as_bytes(std::string(kHeader, '\0') + content));
    }
};

TEST_F(NetTest, ConfigurationHasAddressLinkAndMtu) {
    const base::Bytes expected = {2, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0xf0, 0xff};
    EXPECT_EQ(device.config(), expected);
}

TEST_F(NetTest, FramesLeaveWithoutTheirHeader) {
    EXPECT_EQ(host.request(kTransmit, {to_send(frame(60, 'a'))}), 0u);
    EXPECT_EQ(departed(), frame(60, 'a'));
    // As drivers lay it out: the header in a buffer of its own, a large frame in many.
    std::vector<testing::Buffer> parts = {host.ram().readable(base::Bytes(kHeader))};
    for (int i = 0; i < 16; ++i) parts.push_back(host.ram().readable(base::as_bytes(frame(4096, 'b'))));
    EXPECT_EQ(host.request(kTransmit, parts, true), 0u);
    EXPECT_EQ(departed(), frame(size_t{16} * 4096, 'b'));
}

// A header that leaves to the device what is behind `start`, with the result at `start` + `offset`.
base::Bytes left_to_the_device(uint16_t start, uint16_t offset) {
    base::Bytes header(kHeader);
    header[0] = 1;
    base::store_le(header.data() + 6, start);
    base::store_le(header.data() + 8, offset);
    return header;
}

TEST_F(NetTest, ChecksumsAreCompleted) {
    device.accept(kMergeable | kChecksum);
    // The first two words stand for the sum of a pseudo-header, which the driver leaves in the field.
    const auto sent_as = [&](const std::string& content, uint16_t start, uint16_t offset) {
        std::vector<testing::Buffer> parts = {host.ram().readable(left_to_the_device(start, offset))};
        const size_t piece = 13 + content.size() / 100 * 2;
        for (size_t i = 0; i < content.size(); i += piece)
            parts.push_back(host.ram().readable(base::as_bytes(std::string_view(content).substr(i, piece))));
        EXPECT_EQ(host.request(kTransmit, parts, true), 0u);
        return departed();
    };
    for (const size_t bytes : {60u, 61u, 1501u, 65534u}) {
        std::string content;
        for (size_t i = 0; i < bytes; ++i) content.push_back(static_cast<char>(i * 7 + 3));
        base::Checksum sum;
        sum.add(base::as_bytes(std::string_view(content).substr(34)));
        std::string expected = content;
        base::store_be(reinterpret_cast<uint8_t*>(expected.data()) + 50, sum.result());
        EXPECT_EQ(sent_as(content, 34, 16), expected) << bytes;
    }
    EXPECT_EQ(sent_as(std::string(40, '\xff'), 34, 2).substr(36, 2), "\xff\xff") << "zero is none";
    EXPECT_EQ(sent_as(frame(60), 34, 25), "") << "the field ends outside of the frame";
    EXPECT_EQ(sent_as(frame(60), 0xffff, 0xffff), "");
    device.accept(kMergeable);
    EXPECT_EQ(sent_as(frame(60), 34, 16), frame(60)) << "not asked for";
}

TEST_F(NetTest, WhatIsNoFrameIsDropped) {
    EXPECT_EQ(host.request(kTransmit, {host.ram().readable(base::Bytes(kHeader - 1))}), 0u);
    EXPECT_EQ(host.request(kTransmit, {to_send(frame(Net::kMinFrame - 1))}), 0u);
    EXPECT_EQ(host.request(kTransmit, {to_send(frame(Net::kMaxFrame + 1))}), 0u);
    EXPECT_EQ(host.request(kTransmit, {host.ram().writable(2000)}), 0u);
    EXPECT_EQ(departed(), "");
}

TEST_F(NetTest, AFrameIsSpreadOverBuffers) {
    std::vector<testing::Buffer> buffers;
    for (int i = 0; i < 40; ++i) {
        buffers.push_back(host.ram().writable(2048));
        host.driver(kReceive).post({buffers.back()});
    }
    host.kick(kReceive);
    arrives(frame(5000, 'r'));
    host.turn();
    std::string received;
    for (int i = 0; i < 3; ++i) {
        const auto used = host.driver(kReceive).take_used();
        ASSERT_TRUE(used);
        received += base::as_text(host.ram().read(buffers[static_cast<size_t>(i)].address, used->written));
    }
    EXPECT_FALSE(host.driver(kReceive).take_used());
    ASSERT_EQ(received.size(), kHeader + 5000);
    EXPECT_EQ(received.substr(kHeader), frame(5000, 'r'));
    EXPECT_EQ(received[0], 2);  // checksums are valid
    EXPECT_EQ(received.substr(10, 2), std::string("\x03\0", 2));
    // The next one goes on behind.
    arrives(frame(60, 's'));
    host.turn();
    const auto used = host.driver(kReceive).take_used();
    ASSERT_TRUE(used);
    EXPECT_EQ(used->written, kHeader + 60);
    EXPECT_EQ(base::as_text(host.ram().read(buffers[3].address + kHeader, 60)), frame(60, 's'));
}

TEST_F(NetTest, FramesWaitForBuffers) {
    host.kick(kReceive);
    arrives(frame(3000, 'x'));
    arrives(frame(100, 'y'));
    host.turn();
    const auto small = host.ram().writable(1500);
    host.driver(kReceive).post({small});
    host.kick(kReceive);
    host.turn();
    EXPECT_FALSE(host.driver(kReceive).take_used());
    host.driver(kReceive).post({host.ram().writable(3000)});
    host.kick(kReceive);
    ASSERT_TRUE(host.driver(kReceive).take_used());
    ASSERT_TRUE(host.driver(kReceive).take_used());
    host.driver(kReceive).post({host.ram().writable(200)});
    host.kick(kReceive);
    EXPECT_EQ(host.driver(kReceive).take_used()->written, kHeader + 100);
}

TEST_F(NetTest, BuffersWithoutRoomForAHeaderComeBackEmpty) {
    EXPECT_EQ(host.request(kReceive, {host.ram().writable(kHeader - 1)}), 0u);
    EXPECT_EQ(host.request(kReceive, {host.ram().readable(base::Bytes(100))}), 0u);
}

// A full socket holds the driver back, and nothing is lost.
TEST_F(NetTest, AFullSocketHoldsTheDriverBack) {
    size_t posted = 0;
    size_t taken = 0;
    const auto take = [&] {
        while (host.driver(kTransmit).take_used()) ++taken;
    };
    for (; posted < 200; ++posted)
        host.driver(kTransmit).post({to_send(frame(30000, static_cast<char>('a' + posted % 26)))});
    host.kick(kTransmit);
    take();
    EXPECT_LT(taken, 30u);
    for (size_t i = 0; i < posted;) {
        const std::string got = departed();
        if (got.empty()) {
            host.turn();
            continue;
        }
        EXPECT_EQ(got, frame(30000, static_cast<char>('a' + i % 26)));
        ++i;
    }
    take();
    EXPECT_EQ(taken, posted);
}

TEST_F(NetTest, TheBoxOutlivesTheOtherEnd) {
    host.driver(kReceive).post({host.ram().writable(2000)});
    host.kick(kReceive);
    arrives(frame(60, 'z'));
    sockets.second.reset();
    host.turn();
    host.turn();
    EXPECT_EQ(host.driver(kReceive).take_used()->written, kHeader + 60);
    host.driver(kReceive).post({host.ram().writable(2000)});
    host.kick(kReceive);
    host.turn();
    EXPECT_EQ(lost, 1);
    EXPECT_EQ(host.request(kTransmit, {to_send(frame(60))}), 0u);
    EXPECT_FALSE(host.driver(kReceive).take_used());
    EXPECT_EQ(lost, 1);
}

TEST_F(NetTest, BuffersThatWaitForFramesAreGivenBack) {
    for (int i = 0; i < 3; ++i) host.driver(kReceive).post({host.ram().writable(2000)});
    host.kick(kReceive);
    EXPECT_EQ(host.queue(kReceive).next_available(), 3);
    device.give_back(kReceive);
    EXPECT_EQ(host.queue(kReceive).next_available(), 0);
    arrives(frame(60));
    host.turn();
    EXPECT_TRUE(host.driver(kReceive).take_used());
}

TEST_F(NetTest, ResetForgetsBuffers) {
    host.driver(kReceive).post({host.ram().writable(2000)});
    host.kick(kReceive);
    device.reset();
    arrives(frame(60));
    host.kick(kReceive);
    EXPECT_FALSE(host.driver(kReceive).take_used());
}

}  // namespace
}  // namespace boxlite::virtio
