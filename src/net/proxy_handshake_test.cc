#include "net/proxy_handshake.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"

namespace boxlite::net {
namespace {

using Outcome = ProxyHandshake::Outcome;

class ProxyHandshakeTest : public testing::Test {
  protected:
    ProxyHandshakeTest() {
        auto pair = base::make_socketpair(SOCK_STREAM | SOCK_NONBLOCK).value();
        ours_ = std::move(pair.first);
        proxys_ = std::move(pair.second);
    }
    static std::string received(const base::Fd& socket) {
        char buffer[4096];
        const ssize_t n = ::recv(socket.get(), buffer, sizeof buffer, MSG_DONTWAIT);
        return n < 0 ? std::string() : std::string(buffer, static_cast<size_t>(n));
    }
    void answer(std::string_view text) const {
        ASSERT_EQ(::send(proxys_.get(), text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
    }
    base::Fd ours_, proxys_;
};

TEST_F(ProxyHandshakeTest, AsksAndLeavesWhatComesBehindTheAnswer) {
    ProxyHandshake handshake("example.com:443", "Basic dTpw");
    EXPECT_EQ(handshake.advance(ours_.get()), Outcome::kWaiting);
    const std::string request = received(proxys_);
    EXPECT_EQ(request,
              "CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\nProxy-Authorization: Basic "
              "dTpw\r\n\r\n");
    EXPECT_EQ(handshake.advance(ours_.get()), Outcome::kWaiting);
    answer("HTTP/1.1 200 Connection est");
    EXPECT_EQ(handshake.advance(ours_.get()), Outcome::kWaiting);
    answer("ablished\r\nVia: x\r\n\r\nSSH-2.0");
    EXPECT_EQ(handshake.advance(ours_.get()), Outcome::kOpen);
    EXPECT_EQ(received(ours_), "SSH-2.0");
    EXPECT_EQ(handshake.sent_bytes(), request.size());
    EXPECT_EQ(handshake.received_bytes(),
              std::string("HTTP/1.1 200 Connection established\r\nVia: x\r\n\r\n").size());
}

TEST_F(ProxyHandshakeTest, TellsWhatTheProxySaid) {
    ProxyHandshake handshake("[2001:db8::1]:22", "");
    handshake.advance(ours_.get());
    EXPECT_EQ(received(proxys_), "CONNECT [2001:db8::1]:22 HTTP/1.1\r\nHost: [2001:db8::1]:22\r\n\r\n");
    answer("HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic\r\n\r\n");
    EXPECT_EQ(handshake.advance(ours_.get()), Outcome::kFailed);
    EXPECT_EQ(handshake.problem(), "the proxy answered: 407 Proxy Authentication Required");
}

TEST_F(ProxyHandshakeTest, TrustsNoProxyToMakeSense) {
    const auto outcome_of = [this](std::string_view text, bool closes) {
        auto pair = base::make_socketpair(SOCK_STREAM | SOCK_NONBLOCK).value();
        ours_ = std::move(pair.first);
        proxys_ = std::move(pair.second);
        ProxyHandshake handshake("a:1", "");
        handshake.advance(ours_.get());
        received(proxys_);
        answer(text);
        if (closes) proxys_.reset();
        EXPECT_EQ(handshake.advance(ours_.get()), Outcome::kFailed);
        return handshake.problem();
    };
    EXPECT_EQ(outcome_of("SSH-2.0-x\r\n\r\n", false), "the proxy does not speak HTTP/1");
    EXPECT_EQ(outcome_of("HTTP/1.1 403 \x1b[2J\r\n\r\n", false), "the proxy answered: 403 ?[2J");
    EXPECT_EQ(outcome_of(std::string(64 << 10, 'x'), false), "the proxy's answer is too long");
    EXPECT_EQ(outcome_of("", true), "the proxy closed the connection");
}

}  // namespace
}  // namespace boxlite::net
