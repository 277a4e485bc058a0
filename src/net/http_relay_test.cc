#include "net/http_relay.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

namespace boxlite::net {
namespace {

std::string only_a(const HttpHead& head) {
    return head.host == "a.example" ? "" : "not for " + head.host;
}

// What may go on of a text that comes in pieces of a size, and the problem behind a '!'.
std::string passed(std::string_view text, size_t piece = 1) {
    HttpRequests requests(only_a);
    std::string held, out;
    while (!text.empty()) {
        held += text.substr(0, piece);
        text.remove_prefix(std::min(piece, text.size()));
        const size_t n = requests.clear(base::as_bytes(held));
        out += held.substr(0, n);
        held.erase(0, n);
        if (!requests.problem().empty()) return out + "!" + requests.problem();
    }
    return out;
}

constexpr std::string_view kGet = "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n";
constexpr std::string_view kPost = "POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 5\r\n\r\nGET x";
constexpr std::string_view kChunked =
    "PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nHost: a.example:80\r\n\r\n"
    "5;x=y\r\nGET x\r\nA\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n";

TEST(HttpRequests, OneBehindTheOther) {
    std::string all;
    for (const std::string_view part : {kGet, kPost, std::string_view("\r\n"), kChunked, kGet}) all += part;
    for (const size_t piece : {size_t{1}, size_t{7}, all.size()}) EXPECT_EQ(passed(all, piece), all);
}

TEST(HttpRequests, EachIsLookedAt) {
    const std::string other = "GET / HTTP/1.1\r\nHost: b.example\r\n\r\n";
    for (const std::string_view first : {kGet, kPost, kChunked}) {
        const std::string all = std::string(first) + other;
        EXPECT_EQ(passed(all), std::string(first) + "!not for b.example");
    }
    EXPECT_EQ(passed(other), "!not for b.example");
    EXPECT_EQ(passed(std::string(kGet) + "GET http://b.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n"),
              std::string(kGet) + "!not for b.example");
}

// What one server takes for the end of a request and another one does not.
TEST(HttpRequests, AmbiguousOnesAreRefused) {
    const std::string begin = "POST / HTTP/1.1\r\nHost: a.example\r\n";
    for (const char* rest :
         {"Content-Length: 5\r\nContent-Length: 6\r\n\r\n",
          "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
          "Transfer-Encoding: gzip, chunked\r\n\r\n", "Transfer-Encoding : chunked\r\n\r\n",
          "Content-Length: 5x\r\n\r\n", "Content-Length: -1\r\n\r\n", "Content-Length:\r\n\r\n",
          "Host: b.example\r\n\r\n", "X: y\r\n folded: z\r\n\r\n", "no colon\r\n\r\n",
          "Transfer-Encoding: chunked\r\n\r\nx\r\n", "Transfer-Encoding: chunked\r\n\r\n1\r\nab",
          "Transfer-Encoding: chunked\r\n\r\n\r\n",
          "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n"})
        EXPECT_NE(passed(begin + rest).find('!'), std::string::npos) << rest;
    EXPECT_NE(passed("GET / HTTP/2.0\r\nHost: a.example\r\n\r\n").find('!'), std::string::npos);
    EXPECT_NE(passed("GET /\r\nHost: a.example\r\n\r\n").find('!'), std::string::npos);
    EXPECT_NE(passed(std::string(kMaxHttpHead + 10, 'a'), 4096).find("too long"), std::string::npos);
}

TEST(HttpRequests, AnotherProtocolHasToBeGranted) {
    const std::string ask = "GET / HTTP/1.1\r\nHost: a.example\r\nUpgrade: websocket\r\n\r\n";
    HttpRequests requests(only_a);
    EXPECT_EQ(requests.clear(base::as_bytes(ask)), ask.size());
    EXPECT_EQ(requests.clear(base::as_bytes("\x81\x05hello")), 0u);
    requests.answered(base::as_bytes("HTTP/1.1 100 Continue\r\n\r\nHTTP/1."));
    EXPECT_EQ(requests.clear(base::as_bytes("\x81\x05hello")), 0u);
    requests.answered(base::as_bytes("1 101 Switching Protocols\r\n\r\n"));
    EXPECT_EQ(requests.clear(base::as_bytes("\x81\x05hello")), 7u);

    HttpRequests refused(only_a);
    EXPECT_EQ(refused.clear(base::as_bytes(ask)), ask.size());
    refused.answered(base::as_bytes("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"));
    EXPECT_EQ(refused.clear(base::as_bytes("GET / HTTP/1.1\r\nHost: b.example\r\n\r\n")), 0u);
    EXPECT_EQ(refused.problem(), "not for b.example");
    EXPECT_NE(passed(std::string(kGet) + ask).find("another protocol"), std::string::npos);
}

struct RelayTest : ::testing::Test {
    base::FdPair inside = base::make_socketpair(SOCK_STREAM | SOCK_NONBLOCK).value();
    base::FdPair outside = base::make_socketpair(SOCK_STREAM | SOCK_NONBLOCK).value();
    std::unique_ptr<base::EventLoop> loop = base::EventLoop::make().value();
    std::string refused;
    bool reset = false;
    HttpRelay relay{*loop,
                    std::move(inside.first),
                    std::move(outside.first),
                    only_a,
                    {[this](const std::string& why) { refused = why; }, [this] { reset = true; }}};

    void SetUp() override { ASSERT_TRUE(relay.start().ok()); }
    void turn() {
        for (int i = 0; i < 4; ++i) {
            loop->post([this] { loop->stop(); });
            ASSERT_TRUE(loop->run().ok());
        }
    }
    static void put(const base::Fd& fd, std::string_view text) {
        ASSERT_EQ(::send(fd.get(), text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
    }
    static std::string get(const base::Fd& fd) {
        std::string text(1 << 20, '\0');
        const ssize_t n = ::recv(fd.get(), text.data(), text.size(), 0);
        text.resize(n > 0 ? static_cast<size_t>(n) : 0);
        return n == 0 ? "(end)" : text;
    }
};

TEST_F(RelayTest, CarriesBothWaysAndItsEnds) {
    put(inside.second, kGet);
    turn();
    EXPECT_EQ(get(outside.second), kGet);
    put(outside.second, "HTTP/1.1 200 OK\r\n\r\nbody");
    turn();
    EXPECT_EQ(get(inside.second), "HTTP/1.1 200 OK\r\n\r\nbody");
    ::shutdown(inside.second.get(), SHUT_WR);
    turn();
    EXPECT_EQ(get(outside.second), "(end)");
    put(outside.second, "more");
    outside.second.reset();
    turn();
    EXPECT_EQ(get(inside.second), "more");
    EXPECT_EQ(get(inside.second), "(end)");
    EXPECT_FALSE(reset);
}

TEST_F(RelayTest, ALaterRequestForAnotherHostReachesNobody) {
    put(inside.second, kGet);
    turn();
    EXPECT_EQ(get(outside.second), kGet);
    put(inside.second, "GET / HTTP/1.1\r\nHost: b.example\r\n\r\n");
    turn();
    EXPECT_EQ(refused, "not for b.example");
    EXPECT_TRUE(reset);
    EXPECT_EQ(get(outside.second), "");
}

TEST_F(RelayTest, ASlowReaderHoldsTheWriterBack) {
    put(inside.second, "POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 100000000\r\n\r\n");
    const std::string piece(64 << 10, 'x');
    size_t sent = 0;
    for (int i = 0; i < 200; ++i) {
        const ssize_t n = ::send(inside.second.get(), piece.data(), piece.size(), MSG_DONTWAIT);
        if (n > 0) sent += static_cast<size_t>(n);
        turn();
    }
    EXPECT_LT(sent, size_t{4} << 20);
    size_t received = 0;
    for (;;) {
        turn();
        const std::string got = get(outside.second);
        if (got.empty()) break;
        received += got.size();
    }
    EXPECT_GT(received, sent);
}

}  // namespace
}  // namespace boxlite::net
