#include "virtio/console.h"

#include <gtest/gtest.h>

#include "virtio/testing.h"

namespace boxlite::virtio {
namespace {

constexpr size_t kReceive = 0, kTransmit = 1;

struct ConsoleTest : ::testing::Test {
    std::string output;
    size_t largest = 0;
    uint64_t total = 0;
    Console console{[this](base::ByteView piece) {
        largest = std::max(largest, piece.size());
        total += piece.size();
        if (output.size() < 100000) output += base::as_text(piece);
    }};
    testing::FakeHost host{console, 8};
};

TEST_F(ConsoleTest, OutputArrivesInOrderAndInPieces) {
    auto& ram = host.ram();
    const std::string text(10000, 'x');
    EXPECT_EQ(
        host.request(kTransmit, {ram.readable(base::as_bytes("one ")), ram.readable(base::as_bytes("two "))}),
        0u);
    EXPECT_EQ(host.request(kTransmit, {ram.readable(base::as_bytes(text))}, true), 0u);
    EXPECT_EQ(output, "one two " + text);
    EXPECT_LE(largest, 4096u);
    EXPECT_EQ(host.notified(kTransmit), 2u);
}

TEST_F(ConsoleTest, InputBuffersAreKept) {
    EXPECT_FALSE(host.request(kReceive, {host.ram().writable(64)}));
}

TEST_F(ConsoleTest, WritableBuffersPrintNothing) {
    EXPECT_EQ(host.request(kTransmit, {host.ram().writable(64)}), 0u);
    EXPECT_EQ(output, "");
}

// One request that names the same memory again and again must not keep the device busy for ever.
TEST_F(ConsoleTest, OutputOfOneRequestIsBounded) {
    const std::vector<testing::Buffer> again(1024, {testing::kRamBase, testing::kRamSize, false});
    EXPECT_EQ(host.request(kTransmit, again, true), 0u);
    EXPECT_EQ(total, 1u << 20);
}

}  // namespace
}  // namespace boxlite::virtio
