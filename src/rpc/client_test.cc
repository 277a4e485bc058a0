#include "rpc/client.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>

#include <thread>

#include "rpc/ttrpc.pb.h"

namespace boxlite::rpc {
namespace {

using std::chrono::milliseconds;

// The far end of a connection, played by hand.
struct Peer {
    base::Fd fd;

    std::pair<uint32_t, ttrpc::Request> read_request() const {
        uint8_t header_bytes[kFrameHeaderSize];
        EXPECT_TRUE(base::read_exact(fd.get(), header_bytes).ok());
        const auto header = decode_header(header_bytes).value();
        std::string data(header.length, '\0');
        EXPECT_TRUE(base::read_exact(fd.get(), {reinterpret_cast<uint8_t*>(data.data()), data.size()}).ok());
        ttrpc::Request request;
        EXPECT_TRUE(request.ParseFromString(data));
        return {header.stream, request};
    }
    void write(const std::string& bytes) const {
        EXPECT_TRUE(base::write_all(fd.get(), base::as_bytes(bytes)).ok());
    }
    void answer(uint32_t stream, const std::string& payload) const { write(response_bytes(stream, payload)); }
    static std::string response_bytes(uint32_t stream, const std::string& payload) {
        ttrpc::Response response;
        response.set_payload(payload);
        const std::string data = response.SerializeAsString();
        std::string bytes(kFrameHeaderSize, '\0');
        encode_header(
            {.length = static_cast<uint32_t>(data.size()), .stream = stream, .type = FrameType::kResponse},
            reinterpret_cast<uint8_t*>(bytes.data()));
        return bytes + data;
    }
};

class ClientTest : public testing::Test {
  protected:
    ClientTest() {
        auto pair = base::make_socketpair(SOCK_STREAM).value();
        client_.emplace(std::move(pair.first));
        peer_.fd = std::move(pair.second);
    }
    std::optional<Client> client_;
    Peer peer_;
};

TEST_F(ClientTest, CallsOneAfterAnother) {
    std::thread server([this] {
        for (int i = 0; i < 3; ++i) {
            const auto [stream, request] = peer_.read_request();
            EXPECT_EQ(stream, static_cast<uint32_t>(2 * i + 1));
            EXPECT_EQ(request.service(), "s");
            peer_.answer(stream, request.method() + request.payload());
        }
    });
    EXPECT_EQ(client_->call_bytes("s", "m", std::string("1")).value(), "m1");
    ttrpc::KeyValue message;
    message.set_key("k");
    EXPECT_EQ(client_->call_bytes("s", "", message).value(), message.SerializeAsString());
    EXPECT_EQ(client_->call<ttrpc::KeyValue>("s", "", message).value().key(), "k");
    server.join();
}

TEST_F(ClientTest, ALateAnswerIsNotTheNextCallsAnswer) {
    EXPECT_EQ(client_->call_bytes("s", "slow", std::string(), milliseconds(20)).error().code,
              ErrorCode::kRpc);
    ASSERT_TRUE(client_->connected());
    std::thread server([this] {
        const auto slow = peer_.read_request();
        const auto fast = peer_.read_request();
        // The late one arrives split around the other end's wait.
        const std::string late = Peer::response_bytes(slow.first, "late");
        peer_.write(late.substr(0, 5));
        peer_.write(late.substr(5));
        peer_.answer(fast.first, "fast");
    });
    EXPECT_EQ(client_->call_bytes("s", "fast", std::string()).value(), "fast");
    server.join();
}

TEST_F(ClientTest, AnswersToPostedRequestsAreTakenInAnyOrder) {
    const auto first = client_->post("s", "first", std::string());
    const auto second = client_->post("s", "second", std::string());
    ASSERT_TRUE(first.ok() && second.ok());
    std::thread server([this] {
        const auto one = peer_.read_request();
        const auto two = peer_.read_request();
        EXPECT_EQ(one.second.method(), "first");
        peer_.answer(two.first, "2");
        peer_.answer(one.first, "1");
        const auto three = peer_.read_request();
        peer_.answer(three.first, "3");
    });
    EXPECT_EQ(client_->take_bytes(*first, "first").value(), "1");
    EXPECT_EQ(client_->call_bytes("s", "third", std::string()).value(), "3");
    EXPECT_EQ(client_->take_bytes(*second, "second").value(), "2");
    server.join();
}

TEST_F(ClientTest, APeerVanishesBeforeAPostedRequestIsAnswered) {
    const auto posted = client_->post("s", "m", std::string());
    ASSERT_TRUE(posted.ok());
    peer_.fd.reset();
    EXPECT_EQ(client_->take_bytes(*posted, "m").error().code, ErrorCode::kPortal);
    EXPECT_EQ(client_->take_bytes(*posted, "m").error().code, ErrorCode::kPortal);
    EXPECT_EQ(client_->post("s", "m", std::string()).error().code, ErrorCode::kPortal);
}

TEST_F(ClientTest, PeerVanishesBeforeDuringAndAfterTheCall) {
    std::thread server([this] {
        const auto request = peer_.read_request();
        peer_.write(Peer::response_bytes(request.first, "half").substr(0, 13));
        peer_.fd.reset();
    });
    const auto error = client_->call_bytes("s", "m", std::string()).error();
    server.join();
    EXPECT_EQ(error.code, ErrorCode::kPortal);
    EXPECT_NE(error.message.find("m: the peer closed"), std::string::npos);
    EXPECT_FALSE(client_->connected());
    EXPECT_EQ(client_->call_bytes("s", "m", std::string()).error().code, ErrorCode::kPortal);
}

TEST_F(ClientTest, AVanishedPeerRaisesNoSignal) {
    peer_.fd.reset();
    EXPECT_EQ(client_->call_bytes("s", "m", std::string(1000, 'x')).error().code, ErrorCode::kPortal);
}

TEST_F(ClientTest, APeerThatSpeaksSomethingElse) {
    peer_.write("HTTP/1.1 400 Bad Request\r\n\r\n");
    EXPECT_EQ(client_->call_bytes("s", "m", std::string()).error().code, ErrorCode::kRpcTransport);
    EXPECT_FALSE(client_->connected());
}

TEST_F(ClientTest, APeerThatNeverReads) {
    const std::string payload(3 << 20, 'x');
    EXPECT_EQ(client_->call_bytes("s", "m", payload, milliseconds(30)).error().code, ErrorCode::kRpc);
    EXPECT_FALSE(client_->connected());  // the stream ends in the middle of a frame
}

}  // namespace
}  // namespace boxlite::rpc
