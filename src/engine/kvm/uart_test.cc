#include "engine/kvm/uart.h"

#include <gtest/gtest.h>

#include "engine/kvm/console_relay.h"

namespace boxlite::engine::kvm {
namespace {

TEST(Uart, SendsLinesAndNeverTheDivisor) {
    std::vector<std::string> lines;
    Uart uart([&](base::ByteView text) { lines.emplace_back(base::as_text(text)); });
    EXPECT_EQ(uart.read(5), 0x60);  // ready to send, and nothing came
    uart.write(3, 0x83);
    uart.write(0, 1);
    uart.write(1, 0);
    uart.write(3, 0x03);
    for (const char c : std::string("oops\nrest")) uart.write(0, static_cast<uint8_t>(c));
    EXPECT_EQ(lines, std::vector<std::string>{"oops\n"});
    uart.flush();
    uart.flush();
    EXPECT_EQ(lines, (std::vector<std::string>{"oops\n", "rest"}));
}

TEST(Uart, ALineWithoutAnEndIsCut) {
    size_t sent = 0;
    Uart uart([&](base::ByteView text) { sent += text.size(); });
    for (int i = 0; i < 1000; ++i) uart.write(0, 'x');
    EXPECT_GE(sent, 512u);
}

TEST(ConsoleRelay, KeepsABoundAndTheOrder) {
    const auto loop = base::EventLoop::make().value();
    std::string got;
    const auto relay = std::make_shared<ConsoleRelay>(*loop, [&](base::ByteView text) {
        got += base::as_text(text);
        loop->stop();
    });
    relay->append(base::as_bytes("one "));
    relay->append(base::as_bytes("two"));
    relay->append(base::Bytes(2 * ConsoleRelay::kMaxWaiting, 'x'));
    ASSERT_TRUE(loop->run().ok());
    EXPECT_EQ(got.size(), ConsoleRelay::kMaxWaiting);
    EXPECT_EQ(got.substr(0, 8), "one twox");
    relay->close();
    relay->append(base::as_bytes("three"));
    relay->flush();
    EXPECT_EQ(got.size(), ConsoleRelay::kMaxWaiting);
}

}  // namespace
}  // namespace boxlite::engine::kvm
