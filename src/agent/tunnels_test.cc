#include "agent/tunnels.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <future>
#include <thread>

#include "rpc/box.pb.h"
#include "rpc/client.h"

namespace boxlite::agent {
namespace {

namespace wire = boxlite::v1;

constexpr std::string_view kService = "boxlite.v1.Tunnel";
constexpr std::chrono::milliseconds kPatience{20'000};

// The service on a loop of its own, and a server on this host's loopback.
class TunnelsTest : public testing::Test {
  protected:
    TunnelsTest() {
        std::promise<void> ready;
        for (std::optional<rpc::Client>* client : {&client_, &second_}) {
            auto pair = base::make_socketpair(SOCK_STREAM).value();
            client->emplace(std::move(pair.first));
            ends_.push_back(std::move(pair.second));
        }
        server_ = std::thread([this, &ready] { serve(ready); });
        ready.get_future().wait();
    }
    ~TunnelsTest() override {
        loop_->stop();
        server_.join();
    }

    void serve(std::promise<void>& ready) {
        Tunnels tunnels(*loop_);
        Router router;
        tunnels.add_routes(router);
        std::vector<std::shared_ptr<rpc::Channel>> channels;
        for (base::Fd& end : ends_)
            channels.push_back(rpc::Channel::make(
                                   *loop_, std::move(end),
                                   [&](const rpc::RequestView& request, rpc::Responder responder) {
                                       router.dispatch(request, std::move(responder));
                                   },
                                   [](const Error&) {})
                                   .value());
        ready.set_value();
        EXPECT_TRUE(loop_->run().ok());
    }

    // Listens on the loopback of that family; returns the port.
    uint16_t listen(int family) {
        listener_ = base::Fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
        sockaddr_storage address{};
        socklen_t size = 0;
        if (family == AF_INET6) {
            auto& v6 = reinterpret_cast<sockaddr_in6&>(address);
            v6.sin6_family = AF_INET6;
            v6.sin6_addr = in6addr_loopback;
            size = sizeof v6;
        } else {
            auto& v4 = reinterpret_cast<sockaddr_in&>(address);
            v4.sin_family = AF_INET;
            v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
            size = sizeof v4;
        }
        auto* generic = reinterpret_cast<sockaddr*>(&address);
        EXPECT_EQ(::bind(listener_.get(), generic, size), 0);
        EXPECT_EQ(::getsockname(listener_.get(), generic, &size), 0);
        EXPECT_EQ(::listen(listener_.get(), 8), 0);
        return ntohs(reinterpret_cast<sockaddr_in&>(address).sin_port);  // at the same place in both
    }
    base::Fd accept() { return base::Fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)); }

    Result<wire::Empty> open(uint32_t port, const std::string& id = "t") {
        wire::TunnelRequest request;
        request.set_id(id);
        request.set_port(port);
        return client_->call<wire::Empty>(kService, "Open", request, kPatience);
    }
    Result<wire::ReadResponse> read(rpc::Client& client) {
        wire::ReadRequest request;
        request.set_id("t");
        request.set_max_bytes(1 << 20);
        return client.call<wire::ReadResponse>(kService, "Read", request, kPatience);
    }
    Result<wire::Empty> write(const std::string& data, bool close) {
        wire::WriteRequest request;
        request.set_id("t");
        request.set_data(data);
        request.set_close(close);
        return second_->call<wire::Empty>(kService, "Write", request, kPatience);
    }
    static std::string receive(const base::Fd& socket) {
        char buffer[256];
        const ssize_t n = ::read(socket.get(), buffer, sizeof buffer);
        return n < 0 ? std::string("error") : std::string(buffer, static_cast<size_t>(n));
    }

    std::unique_ptr<base::EventLoop> loop_ = base::EventLoop::make().value();
    std::vector<base::Fd> ends_;
    std::optional<rpc::Client> client_, second_;
    std::thread server_;
    base::Fd listener_;
};

TEST_F(TunnelsTest, CarriesBothWaysAndEachHalfCloses) {
    ASSERT_TRUE(open(listen(AF_INET)).ok());
    const base::Fd peer = accept();
    ASSERT_TRUE(write("question", true).ok());
    EXPECT_EQ(receive(peer), "question");
    EXPECT_EQ(receive(peer), "");
    ASSERT_EQ(::write(peer.get(), "answer", 6), 6);
    EXPECT_EQ(read(*client_)->data(), "answer");
    ::shutdown(peer.get(), SHUT_WR);
    EXPECT_TRUE(read(*client_)->eof());
    const auto late = write("more", false);
    ASSERT_FALSE(late.ok());
    EXPECT_EQ(late.error().code, ErrorCode::kInvalidState);
}

TEST_F(TunnelsTest, FindsAServerThatListensOnIpv6Alone) {
    ASSERT_TRUE(open(listen(AF_INET6)).ok());
    EXPECT_TRUE(accept().valid());
}

TEST_F(TunnelsTest, SaysThatNobodyListens) {
    const uint16_t port = listen(AF_INET);
    listener_.reset();
    const auto refused = open(port);
    ASSERT_FALSE(refused.ok());
    EXPECT_NE(refused.error().message.find("nothing in the box listens"), std::string::npos)
        << refused.error().message;
    // Nothing is left of it.
    EXPECT_EQ(write("x", false).error().code, ErrorCode::kNotFound);
}

TEST_F(TunnelsTest, RefusesWhatIsNoPortAndAnIdThatIsTaken) {
    EXPECT_EQ(open(0).error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(open(65536).error().code, ErrorCode::kInvalidArgument);
    const uint16_t port = listen(AF_INET);
    ASSERT_TRUE(open(port).ok());
    EXPECT_EQ(open(port).error().code, ErrorCode::kAlreadyExists);
    EXPECT_EQ(open(port, std::string(65, 'x')).error().code, ErrorCode::kInvalidArgument);
}

TEST_F(TunnelsTest, ClosedFromOneSideEndsOnTheOther) {
    ASSERT_TRUE(open(listen(AF_INET)).ok());
    const base::Fd peer = accept();
    wire::ExecutionId id;
    id.set_id("t");
    ASSERT_TRUE(client_->call<wire::Empty>(kService, "Close", id, kPatience).ok());
    EXPECT_EQ(receive(peer), "");
    EXPECT_EQ(read(*client_).error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace boxlite::agent
