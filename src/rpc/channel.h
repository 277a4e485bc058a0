// A ttrpc connection on an event loop, for both roles: it answers the peer's requests through a handler
// and makes calls of its own. Everything here belongs to the loop's thread. Handlers live as long as the
// channel does: they must not own it.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string_view>

#include "base/event_loop.h"
#include "base/fd.h"
#include "rpc/envelope.h"
#include "rpc/frame.h"

namespace boxlite::rpc {

class Channel;

// The duty to answer one request, once, now or later; it may outlive the channel, whose peer then gets
// nothing. Dropped without an answer, it answers kInternal.
class Responder {
  public:
    Responder(std::weak_ptr<Channel> channel, uint32_t stream, size_t request_size)
        : channel_(std::move(channel)), stream_(stream), request_size_(request_size) {}
    Responder(Responder&& other) noexcept
        : channel_(std::exchange(other.channel_, {})),
          stream_(other.stream_),
          request_size_(other.request_size_) {}
    Responder& operator=(Responder&& other) noexcept;
    ~Responder();

    // A message, or bytes that are a serialized message.
    void reply(const Payload& payload);
    void fail(const Error& error);
    // True when the peer has gone and nobody will see the answer.
    bool abandoned() const { return channel_.expired(); }

  private:
    std::weak_ptr<Channel> channel_;  // empty once answered
    uint32_t stream_;
    size_t request_size_;
};

struct ChannelLimits {
    size_t max_requests = 1024;                     // unanswered; a further one is kResourceExhausted
    size_t max_request_bytes = size_t{64} << 20;    // payloads of unanswered requests; likewise
    size_t max_unsent_responses = size_t{8} << 20;  // then no more is read until the peer reads half of them
    size_t max_unsent_requests = size_t{64} << 20;  // then call() fails with kResourceExhausted
};

class Channel : public std::enable_shared_from_this<Channel> {
  public:
    // The views are valid during the call.
    using RequestHandler = std::function<void(const RequestView& request, Responder responder)>;
    // The answer's payload, valid during the call, or the error: the peer's, or kPortal when the connection
    // ends first, or kRpc when the time is up.
    using ReplyHandler = std::function<void(Result<std::string_view> answer)>;
    // The connection has ended and is closed: by the peer (kPortal) or for its breach of protocol
    // (kRpcTransport). Called once, after the handlers of all open calls; never after close().
    using CloseHandler = std::function<void(const Error& reason)>;

    // Takes a connected stream and starts. `on_request` empty: requests are answered with kUnsupported.
    // `loop` must outlive the channel.
    static Result<std::shared_ptr<Channel>> make(base::EventLoop& loop, base::Fd stream,
                                                 RequestHandler on_request, CloseHandler on_close,
                                                 const ChannelLimits& limits = {});
    Channel(const Channel&) = delete;
    Channel& operator=(const Channel&) = delete;
    // Closes without a word to anyone.
    ~Channel();

    // `handler` is called once, from the loop or, when the call cannot be made, before this returns; not at
    // all after close(). `timeout` 0: none. Answers come in the peer's order.
    void call(std::string_view service, std::string_view method, const Payload& payload,
              std::chrono::milliseconds timeout, ReplyHandler handler);

    // Drops the connection, its calls and its queue. Safe within handlers.
    void close();
    bool open() const { return stream_.valid(); }
    // Bytes that the peer has not taken yet.
    size_t unsent_bytes() const { return unsent_responses_ + unsent_requests_; }

  private:
    friend class Responder;
    struct Outgoing {
        EncodedFrame frame;
        size_t sent = 0;
        FrameType type = FrameType::kRequest;
    };
    struct Call {
        ReplyHandler handler;
        base::EventLoop::TimerId timer = 0;
    };

    Channel(base::EventLoop& loop, base::Fd stream, RequestHandler on_request, CloseHandler on_close,
            const ChannelLimits& limits);
    void on_events(uint32_t events);
    void receive();
    bool take_frames();
    void take_request(const Frame& frame);
    void take_response(const Frame& frame);
    void answered(size_t request_size);
    void send(EncodedFrame frame, FrameType type);
    void flush();
    void update_interest();
    void fail(Error reason);
    void finish_call(std::map<uint32_t, Call>::iterator it, Result<std::string_view> answer);

    base::EventLoop& loop_;
    base::Fd stream_;
    RequestHandler on_request_;
    CloseHandler on_close_;
    ChannelLimits limits_;
    FrameReader reader_;
    std::deque<Outgoing> queue_;
    std::map<uint32_t, Call> calls_;
    uint32_t next_stream_ = 1;
    size_t open_requests_ = 0;
    size_t open_request_bytes_ = 0;
    size_t unsent_responses_ = 0;
    size_t unsent_requests_ = 0;
    bool reading_ = true;  // false while the peer does not take its answers
    uint32_t interest_ = 0;
};

}  // namespace boxlite::rpc
