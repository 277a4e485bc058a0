#include "rpc/channel.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <thread>

#include "rpc/client.h"
#include "rpc/ttrpc.pb.h"

namespace boxlite::rpc {
namespace {

using std::chrono::milliseconds;

// Two channels on one loop, or one channel with a bare descriptor at the far end.
class ChannelTest : public testing::Test {
  protected:
    ChannelTest() {
        auto pair = base::make_socketpair(SOCK_STREAM).value();
        near_ = std::move(pair.first);
        far_ = std::move(pair.second);
        guard_ = loop_->after(std::chrono::seconds(60), [this] {
            ADD_FAILURE() << "nothing happened any more";
            loop_->stop();
        });
    }
    std::shared_ptr<Channel> make(base::Fd fd, Channel::RequestHandler handler = nullptr,
                                  Channel::CloseHandler on_close = nullptr, ChannelLimits limits = {}) {
        return Channel::make(*loop_, std::move(fd), std::move(handler), std::move(on_close), limits).value();
    }
    void run() { ASSERT_TRUE(loop_->run().ok()); }

    std::unique_ptr<base::EventLoop> loop_ = base::EventLoop::make().value();
    base::EventLoop::TimerId guard_;
    base::Fd near_;
    base::Fd far_;
};

TEST_F(ChannelTest, AThousandInterleavedCallsAnsweredBackwards) {
    std::vector<std::pair<std::string, Responder>> parked;
    const auto server = make(std::move(far_), [&](const RequestView& request, Responder responder) {
        parked.emplace_back(request.payload, std::move(responder));
        if (parked.size() < 1000) return;
        for (auto it = parked.rbegin(); it != parked.rend(); ++it) {
            if (it->first.size() % 7 == 0)
                it->second.fail({ErrorCode::kStorage, it->first});
            else
                it->second.reply(it->first);
        }
        parked.clear();
    });
    const auto client = make(std::move(near_));
    int answers = 0;
    for (size_t i = 0; i < 1000; ++i) {
        const std::string payload = std::string(i % 50, 'p') + std::to_string(i);
        client->call("s", "m", payload, milliseconds(0), [&, payload](Result<std::string_view> answer) {
            if (payload.size() % 7 == 0) {
                EXPECT_EQ(answer.error().code, ErrorCode::kStorage);
                EXPECT_EQ(answer.error().message, payload);
            } else {
                EXPECT_EQ(answer.value(), payload);
            }
            if (++answers == 1000) loop_->stop();
        });
    }
    run();
    EXPECT_EQ(answers, 1000);
    EXPECT_EQ(client->unsent_bytes() + server->unsent_bytes(), 0u);
}

TEST_F(ChannelTest, BothEndsServeOnOneConnection) {
    const auto echo = [](const RequestView& request, Responder responder) {
        responder.reply(std::string(request.service) + "." + std::string(request.method));
    };
    const auto a = make(std::move(near_), echo);
    const auto b = make(std::move(far_), echo);
    a->call("to", "b", std::string(), milliseconds(0), [&](Result<std::string_view> answer) {
        EXPECT_EQ(answer.value(), "to.b");
        b->call("to", "a", std::string(), milliseconds(0), [&](Result<std::string_view> back) {
            EXPECT_EQ(back.value(), "to.a");
            loop_->stop();
        });
    });
    run();
}

TEST_F(ChannelTest, ForwardsPayloadsUntouched) {
    auto second = base::make_socketpair(SOCK_STREAM).value();
    const auto server = make(std::move(second.second), [](const RequestView& request, Responder responder) {
        responder.reply(request.payload);
    });
    const auto upstream = make(std::move(second.first));
    const auto middle = make(std::move(far_), [&](const RequestView& request, Responder responder) {
        auto held = std::make_shared<Responder>(std::move(responder));
        upstream->call(request.service, request.method, request.payload, milliseconds(0),
                       [held](Result<std::string_view> answer) {
                           if (answer)
                               held->reply(*answer);
                           else
                               held->fail(answer.error());
                       });
    });
    const auto client = make(std::move(near_));
    std::string payload(1 << 20, '\0');
    for (size_t i = 0; i < payload.size(); ++i) payload[i] = static_cast<char>(i * 31);
    client->call("s", "m", payload, milliseconds(0), [&](Result<std::string_view> answer) {
        EXPECT_TRUE(answer.ok() && *answer == payload);
        loop_->stop();
    });
    run();
}

TEST_F(ChannelTest, PeerVanishesMidCall) {
    std::string order;
    const auto client = make(std::move(near_), nullptr, [&](const Error& reason) {
        EXPECT_EQ(reason.code, ErrorCode::kPortal);
        order += 'c';
        loop_->stop();
    });
    for (int i = 0; i < 3; ++i)
        client->call("s", "m", std::string(), milliseconds(0), [&](Result<std::string_view> answer) {
            EXPECT_EQ(answer.error().code, ErrorCode::kPortal);
            order += 'f';
        });
    far_.reset();
    run();
    EXPECT_EQ(order, "fffc");
    EXPECT_FALSE(client->open());
    client->call("s", "m", std::string(), milliseconds(0), [&](Result<std::string_view> answer) {
        EXPECT_EQ(answer.error().code, ErrorCode::kPortal);
        order += 'x';
    });
    EXPECT_EQ(order, "fffcx");
}

TEST_F(ChannelTest, AResponderMayOutliveItsChannel) {
    std::vector<Responder> parked;
    auto server = make(std::move(far_), [&](const RequestView&, Responder responder) {
        parked.push_back(std::move(responder));
        loop_->stop();
    });
    const auto client = make(std::move(near_));
    client->call("s", "m", std::string(), milliseconds(0), [](Result<std::string_view>) {});
    run();
    ASSERT_EQ(parked.size(), 1u);
    EXPECT_FALSE(parked[0].abandoned());
    server.reset();
    EXPECT_TRUE(parked[0].abandoned());
    parked[0].reply(std::string("nobody hears this"));
}

TEST_F(ChannelTest, ADroppedRequestIsAnsweredWithAnError) {
    const auto server = make(std::move(far_), [](const RequestView&, Responder) {});
    const auto client = make(std::move(near_));
    client->call("s", "m", std::string(), milliseconds(0), [&](Result<std::string_view> answer) {
        EXPECT_EQ(answer.error().code, ErrorCode::kInternal);
        loop_->stop();
    });
    run();
}

TEST_F(ChannelTest, TimeIsUpAndTheLateAnswerIsDropped) {
    std::optional<Responder> slow;
    const auto server = make(std::move(far_), [&](const RequestView& request, Responder responder) {
        if (request.method == "slow") return void(slow.emplace(std::move(responder)));
        slow->reply(std::string("late"));
        responder.reply(std::string("fast"));
    });
    const auto client = make(std::move(near_));
    client->call("s", "slow", std::string(), milliseconds(20), [&](Result<std::string_view> answer) {
        EXPECT_EQ(answer.error().code, ErrorCode::kRpc);
        client->call("s", "fast", std::string(), milliseconds(0), [&](Result<std::string_view> next) {
            EXPECT_EQ(next.value(), "fast");
            loop_->stop();
        });
    });
    run();
}

TEST_F(ChannelTest, TooManyOrTooLargeRequestsAreRefusedOneByOne) {
    std::vector<Responder> parked;
    const auto server =
        make(std::move(far_),
             [&](const RequestView&, Responder responder) { parked.push_back(std::move(responder)); },
             nullptr, {.max_requests = 4, .max_request_bytes = 100});
    const auto client = make(std::move(near_));
    int refused = 0;
    const auto expect_refusal = [&](Result<std::string_view> answer) {
        EXPECT_EQ(answer.error().code, ErrorCode::kResourceExhausted);
        if (++refused == 2) loop_->stop();
    };
    client->call("s", "m", std::string(90, 'x'), milliseconds(0), [](Result<std::string_view>) {});
    client->call("s", "m", std::string(11, 'x'), milliseconds(0), expect_refusal);
    for (int i = 0; i < 3; ++i)
        client->call("s", "m", std::string(), milliseconds(0), [](Result<std::string_view>) {});
    client->call("s", "m", std::string(), milliseconds(0), expect_refusal);
    run();
    EXPECT_EQ(parked.size(), 4u);
}

TEST_F(ChannelTest, ASlowReaderStopsTheIntakeOfRequests) {
    size_t served = 0;
    const std::string answer(64 << 10, 'a');
    const auto server = make(std::move(far_),
                             [&](const RequestView&, Responder responder) {
                                 ++served;
                                 responder.reply(answer);
                             },
                             nullptr, {.max_requests = 1024, .max_unsent_responses = 1 << 20});
    // 500 answers would be 32 MB. The peer sends all its requests and reads nothing.
    base::Bytes requests;
    for (uint32_t i = 0; i < 500; ++i) {
        const auto frame = encode_request(2 * i + 1, "s", "m", std::string(), {}).value();
        requests.insert(requests.end(), frame.bytes.get(), frame.bytes.get() + frame.size);
    }
    ASSERT_TRUE(base::write_all(near_.get(), requests).ok());
    loop_->after(milliseconds(100), [this] { loop_->stop(); });
    run();
    EXPECT_GT(served, 10u);
    EXPECT_LT(served, 60u);  // 1 MiB, and what the socket holds
    EXPECT_LT(server->unsent_bytes(), size_t{1200} << 10);
    // Then it reads: every answer comes.
    std::thread reader([&] {
        base::Bytes buffer(500 * (kFrameHeaderSize + 1 + 3 + answer.size()));
        EXPECT_TRUE(base::read_exact(near_.get(), buffer).ok());
        loop_->stop();
    });
    run();
    reader.join();
    EXPECT_EQ(served, 500u);
}

TEST_F(ChannelTest, BreachOfProtocolClosesTheChannel) {
    const std::string breaches[] = {
        std::string("\xff\xff\xff\xff\0\0\0\1\1\0", 10),  // oversize
        std::string("\0\0\0\0\0\0\0\2\1\0", 10),          // even stream
        std::string("\0\0\0\2\0\0\0\1\1\0\x0a\x7f", 12),  // a request that is no message
    };
    for (const std::string& bytes : breaches) {
        auto pair = base::make_socketpair(SOCK_STREAM).value();
        const auto channel = make(
            std::move(pair.first), [](const RequestView&, Responder) { ADD_FAILURE(); },
            [&](const Error& reason) {
                EXPECT_EQ(reason.code, ErrorCode::kRpcTransport);
                loop_->stop();
            });
        ASSERT_TRUE(base::write_all(pair.second.get(), base::as_bytes(bytes)).ok());
        run();
        EXPECT_FALSE(channel->open());
        uint8_t byte;
        EXPECT_FALSE(base::read_exact(pair.second.get(), {&byte, 1}).ok());
    }
}

TEST_F(ChannelTest, AHalfFrameThenTheEnd) {
    const auto channel = make(std::move(near_), nullptr, [&](const Error& reason) {
        EXPECT_NE(reason.message.find("in the middle of a message"), std::string::npos);
        loop_->stop();
    });
    ASSERT_TRUE(base::write_all(far_.get(), base::as_bytes("\0\0")).ok());
    ASSERT_TRUE(base::write_all(far_.get(), std::array<uint8_t, 3>{}).ok());
    far_.reset();
    run();
}

TEST_F(ChannelTest, HandlersMayCloseTheChannelTheyAreCalledFrom) {
    std::shared_ptr<Channel> server = make(std::move(far_), [&](const RequestView&, Responder responder) {
        server->close();
        responder.reply(std::string("x"));
        server.reset();
    });
    const auto client = make(std::move(near_), nullptr, [&](const Error&) { loop_->stop(); });
    for (int i = 0; i < 2; ++i)
        client->call("s", "m", std::string(), milliseconds(0), [](Result<std::string_view>) {});
    run();
    EXPECT_EQ(server, nullptr);
}

TEST_F(ChannelTest, PerformanceFigures) {
    const auto server = make(std::move(far_), [](const RequestView& request, Responder responder) {
        responder.reply(request.payload);
    });
    std::thread caller([this, fd = std::move(near_)]() mutable {
        Client client(std::move(fd));
        for (const auto& [size, calls] : {std::pair<size_t, int>{16, 5000}, {1 << 20, 100}}) {
            const std::string payload(size, 'x');
            const auto start = base::Clock::now();
            for (int i = 0; i < calls; ++i)
                EXPECT_EQ(client.call_bytes("s", "m", payload).value().size(), size);
            const std::chrono::duration<double, std::micro> each = (base::Clock::now() - start) / calls;
            printf("%zu bytes there and back: %.1f us a call, %.0f MB/s each way\n", size, each.count(),
                   static_cast<double>(size) / each.count());
        }
        loop_->stop();
    });
    run();
    caller.join();
}

}  // namespace
}  // namespace boxlite::rpc
