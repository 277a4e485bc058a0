#include "rpc/channel.h"

#include <sys/epoll.h>

#include <array>

#include "rpc/stream_io.h"

namespace boxlite::rpc {

namespace {

// So that one busy peer does not hold up the loop.
constexpr int kReadsPerTurn = 16;
constexpr size_t kPartsPerWrite = 32;

}  // namespace

Responder& Responder::operator=(Responder&& other) noexcept {
    if (this != &other) {
        if (!channel_.expired()) fail({ErrorCode::kInternal, "the request was dropped"});
        channel_ = std::exchange(other.channel_, {});
        stream_ = other.stream_;
        request_size_ = other.request_size_;
    }
    return *this;
}

Responder::~Responder() {
    fail({ErrorCode::kInternal, "the request was dropped"});
}

void Responder::reply(const Payload& payload) {
    const auto channel = std::exchange(channel_, {}).lock();
    if (!channel) return;
    channel->answered(request_size_);
    auto frame = encode_response(stream_, payload);
    channel->send(frame ? std::move(frame).value() : encode_error(stream_, frame.error()),
                  FrameType::kResponse);
}

void Responder::fail(const Error& error) {
    const auto channel = std::exchange(channel_, {}).lock();
    if (!channel) return;
    channel->answered(request_size_);
    channel->send(encode_error(stream_, error), FrameType::kResponse);
}

Result<std::shared_ptr<Channel>> Channel::make(base::EventLoop& loop, base::Fd stream,
                                               RequestHandler on_request, CloseHandler on_close,
                                               const ChannelLimits& limits) {
    TRY(base::set_nonblocking(stream.get(), true));
    std::shared_ptr<Channel> channel(
        new Channel(loop, std::move(stream), std::move(on_request), std::move(on_close), limits));
    channel->interest_ = EPOLLIN;
    TRY(loop.watch(channel->stream_.get(), EPOLLIN, [weak = std::weak_ptr(channel)](uint32_t events) {
        if (const auto self = weak.lock()) self->on_events(events);
    }));
    return channel;
}

Channel::Channel(base::EventLoop& loop, base::Fd stream, RequestHandler on_request, CloseHandler on_close,
                 const ChannelLimits& limits)
    : loop_(loop),
      stream_(std::move(stream)),
      on_request_(std::move(on_request)),
      on_close_(std::move(on_close)),
      limits_(limits) {}

Channel::~Channel() {
    close();
}

void Channel::close() {
    if (!stream_.valid()) return;
    loop_.unwatch(stream_.get());
    stream_.reset();
    for (const auto& [stream, call] : calls_)
        if (call.timer) loop_.cancel(call.timer);
    calls_.clear();
    queue_.clear();
    unsent_responses_ = unsent_requests_ = 0;
    on_close_ = nullptr;
}

void Channel::fail(Error reason) {
    if (!stream_.valid()) return;
    auto calls = std::exchange(calls_, {});
    const auto on_close = std::exchange(on_close_, {});
    close();
    for (auto& [stream, call] : calls) {
        if (call.timer) loop_.cancel(call.timer);
        call.handler(reason);
    }
    if (on_close) on_close(reason);
}

void Channel::call(std::string_view service, std::string_view method, const Payload& payload,
                   std::chrono::milliseconds timeout, ReplyHandler handler) {
    if (!stream_.valid())
        return handler(
            base::make_error(ErrorCode::kPortal, "cannot call {}: the connection has ended", method));
    if (unsent_requests_ + payload.size() > limits_.max_unsent_requests)
        return handler(base::make_error(ErrorCode::kResourceExhausted,
                                        "cannot call {}: the peer is behind by {} bytes", method,
                                        unsent_requests_));
    const uint32_t stream = next_stream_;
    auto frame = encode_request(stream, service, method, payload, timeout);
    if (!frame) return handler(std::move(frame).error());
    next_stream_ += 2;
    Call& entry = calls_[stream] = Call{std::move(handler)};
    if (timeout.count() > 0) {
        entry.timer = loop_.after(timeout, [this, stream] {
            const auto self = shared_from_this();
            if (const auto it = calls_.find(stream); it != calls_.end()) {
                it->second.timer = 0;
                finish_call(it, base::make_error(ErrorCode::kRpc, "the peer did not answer in time"));
            }
        });
    }
    send(std::move(frame).value(), FrameType::kRequest);
}

void Channel::on_events(uint32_t events) {
    if (!reading_ && (events & (EPOLLHUP | EPOLLERR)))
        return fail(base::make_error(ErrorCode::kPortal,
                                     "the peer closed the connection without taking its answers"));
    if (events & EPOLLOUT) flush();
    if (stream_.valid() && (events & (EPOLLIN | EPOLLHUP | EPOLLERR))) receive();
}

void Channel::receive() {
    if (!take_frames()) return;
    for (int turn = 0; turn < kReadsPerTurn && stream_.valid() && reading_; ++turn) {
        const auto space = reader_.space();
        auto n = read_some(stream_.get(), space);
        if (!n) return fail(std::move(n).error());
        if (!*n) return;
        if (**n == 0)
            return fail(base::make_error(ErrorCode::kPortal, "the peer closed the connection{}",
                                         reader_.partial() ? " in the middle of a message" : ""));
        reader_.commit(**n);
        if (!take_frames()) return;
        // A short read has drained the socket; asking again would cost a system call to learn it.
        if (**n < space.size()) return;
    }
}

// False when the channel is closed now, or must not take more for the time being.
bool Channel::take_frames() {
    while (stream_.valid() && reading_) {
        auto frame = reader_.next();
        if (!frame) {
            fail(std::move(frame).error());
            return false;
        }
        if (!*frame) return true;
        if ((*frame)->header.type == FrameType::kRequest)
            take_request(**frame);
        else
            take_response(**frame);
    }
    return false;
}

void Channel::take_request(const Frame& frame) {
    const auto request = decode_request(frame.data);
    if (!request) return fail(request.error());
    const uint32_t stream = frame.header.stream;
    const auto refuse = [&](const Error& error) { send(encode_error(stream, error), FrameType::kResponse); };
    if (open_requests_ >= limits_.max_requests)
        return refuse(base::make_error(ErrorCode::kResourceExhausted,
                                       "{} requests are waiting on this connection", open_requests_));
    if (open_request_bytes_ + request->payload.size() > limits_.max_request_bytes)
        return refuse(base::make_error(ErrorCode::kResourceExhausted,
                                       "requests with {} bytes are waiting on this connection",
                                       open_request_bytes_));
    if (!on_request_)
        return refuse(
            base::make_error(ErrorCode::kUnsupported, "this end of the connection serves no calls"));
    ++open_requests_;
    open_request_bytes_ += request->payload.size();
    on_request_(*request, Responder(weak_from_this(), stream, request->payload.size()));
}

void Channel::take_response(const Frame& frame) {
    const auto it = calls_.find(frame.header.stream);
    if (it == calls_.end()) return;  // given up
    auto response = decode_response(frame.data);
    if (!response) return fail(std::move(response).error());
    if (response->error)
        finish_call(it, *std::move(response->error));
    else
        finish_call(it, response->payload);
}

void Channel::finish_call(std::map<uint32_t, Call>::iterator it, Result<std::string_view> answer) {
    if (it->second.timer) loop_.cancel(it->second.timer);
    const ReplyHandler handler = std::move(it->second.handler);
    calls_.erase(it);
    handler(std::move(answer));
}

void Channel::answered(size_t request_size) {
    --open_requests_;
    open_request_bytes_ -= request_size;
}

void Channel::send(EncodedFrame frame, FrameType type) {
    if (!stream_.valid()) return;
    (type == FrameType::kResponse ? unsent_responses_ : unsent_requests_) += frame.size;
    queue_.push_back({std::move(frame), 0, type});
    // With something queued before, the loop is already waiting for the peer.
    if (queue_.size() == 1)
        flush();
    else
        update_interest();
}

void Channel::flush() {
    while (!queue_.empty()) {
        std::array<iovec, kPartsPerWrite> parts;
        size_t count = 0;
        for (auto it = queue_.begin(); it != queue_.end() && count < parts.size(); ++it, ++count)
            parts[count] = {it->frame.bytes.get() + it->sent, it->frame.size - it->sent};
        auto n = write_some(stream_.get(), {parts.data(), count});
        if (!n) {
            // The caller may be in the middle of its own work: tell it from the loop.
            queue_.clear();
            unsent_responses_ = unsent_requests_ = 0;
            loop_.post([weak = weak_from_this(), reason = std::move(n).error()] {
                if (const auto self = weak.lock()) self->fail(reason);
            });
            break;
        }
        if (!*n) break;
        for (size_t left = **n; left > 0;) {
            Outgoing& first = queue_.front();
            const size_t part = std::min(left, first.frame.size - first.sent);
            first.sent += part;
            left -= part;
            (first.type == FrameType::kResponse ? unsent_responses_ : unsent_requests_) -= part;
            if (first.sent == first.frame.size) queue_.pop_front();
        }
    }
    update_interest();
}

void Channel::update_interest() {
    const bool was_reading = reading_;
    if (unsent_responses_ > limits_.max_unsent_responses)
        reading_ = false;
    else if (unsent_responses_ <= limits_.max_unsent_responses / 2)
        reading_ = true;
    const uint32_t wanted = (reading_ ? EPOLLIN : 0u) | (queue_.empty() ? 0u : EPOLLOUT);
    if (wanted != interest_) {
        interest_ = wanted;
        (void)loop_.change(stream_.get(), wanted).ok();
    }
    // Frames that were read before the pause are not announced by the socket.
    if (reading_ && !was_reading && reader_.partial()) {
        loop_.post([weak = weak_from_this()] {
            if (const auto self = weak.lock(); self && self->stream_.valid()) self->receive();
        });
    }
}

}  // namespace boxlite::rpc
