#include "rpc/client.h"

#include <poll.h>

#include <cstring>
#include <optional>

#include "rpc/stream_io.h"

namespace boxlite::rpc {

namespace {

constexpr auto kNever = base::Clock::time_point::max();

}  // namespace

Client::Client(base::Fd stream) : stream_(std::move(stream)) {
    // A descriptor that cannot be changed fails on its first use, with a better message.
    if (stream_.valid()) (void)base::set_nonblocking(stream_.get(), true).ok();
}

Result<std::string> Client::call_bytes(std::string_view service, std::string_view method,
                                       const Payload& payload, std::chrono::milliseconds timeout) {
    const auto deadline = timeout.count() > 0 ? base::Clock::now() + timeout : kNever;
    const uint32_t stream = TRY(send_request(service, method, payload, timeout, deadline));
    return await(stream, method, deadline);
}

Result<uint32_t> Client::post(std::string_view service, std::string_view method, const Payload& payload) {
    const uint32_t stream = TRY(send_request(service, method, payload, {}, kNever));
    posted_.emplace(stream, std::nullopt);
    return stream;
}

Result<std::string> Client::take_bytes(uint32_t posted, std::string_view method) {
    auto node = posted_.extract(posted);
    if (!node.empty() && node.mapped()) return *std::move(node.mapped());
    return await(posted, method, kNever);
}

Result<uint32_t> Client::send_request(std::string_view service, std::string_view method,
                                      const Payload& payload, std::chrono::milliseconds timeout,
                                      base::Clock::time_point deadline) {
    if (!stream_.valid())
        return base::make_error(ErrorCode::kPortal, "cannot call {}: the connection has ended", method);
    const uint32_t stream = next_stream_;
    const EncodedFrame frame = TRY(encode_request(stream, service, method, payload, timeout));
    next_stream_ += 2;
    auto sent = send(frame, deadline);
    if (forgets_) ::explicit_bzero(frame.bytes.get(), frame.size);
    if (!sent) {
        stream_.reset();
        return std::move(sent).error().with_context(method);
    }
    return stream;
}

Result<std::string> Client::await(uint32_t stream, std::string_view method,
                                  base::Clock::time_point deadline) {
    if (!stream_.valid())
        return base::make_error(ErrorCode::kPortal, "no answer to {}: the connection has ended", method);
    auto answer = receive(stream, deadline);
    if (!answer &&
        (answer.error().code == ErrorCode::kPortal || answer.error().code == ErrorCode::kRpcTransport))
        answer = std::move(answer).error().with_context(method);
    return answer;
}

Result<void> Client::send(const EncodedFrame& frame, base::Clock::time_point deadline) {
    size_t sent = 0;
    while (sent < frame.size) {
        const iovec part{frame.bytes.get() + sent, frame.size - sent};
        const auto n = TRY(write_some(stream_.get(), {&part, 1}));
        if (n)
            sent += *n;
        else
            TRY(wait(POLLOUT, deadline));
    }
    return {};
}

Result<std::string> Client::receive(uint32_t stream, base::Clock::time_point deadline) {
    // Ends the connection: a peer that breaks the protocol, or is gone, has no next answer.
    const auto broken = [this](Error error) {
        stream_.reset();
        return error;
    };
    for (;;) {
        auto frame = reader_.next();
        if (!frame) return broken(std::move(frame).error());
        if (*frame) {
            const FrameHeader& header = (*frame)->header;
            if (header.type != FrameType::kResponse)
                return broken(
                    base::make_error(ErrorCode::kRpcTransport, "the peer sent a request to a client"));
            const auto other = posted_.find(header.stream);
            // The late answer to a call that was given up.
            if (header.stream != stream && other == posted_.end()) continue;
            auto response = decode_response((*frame)->data);
            if (!response) return broken(std::move(response).error());
            auto answer = response->error ? Result<std::string>(*std::move(response->error))
                                          : Result<std::string>(std::string(response->payload));
            if (header.stream == stream) return answer;
            other->second = std::move(answer);
            continue;
        }
        auto n = read_some(stream_.get(), reader_.space());
        if (!n) return broken(std::move(n).error());
        if (!*n)
            TRY(wait(POLLIN, deadline));
        else if (**n == 0)
            return broken(
                base::make_error(ErrorCode::kPortal, "the peer closed the connection before it answered"));
        else
            reader_.commit(**n);
    }
}

Result<void> Client::wait(short events, base::Clock::time_point deadline) {
    for (;;) {
        int timeout = -1;
        if (deadline != kNever) {
            const auto left =
                std::chrono::ceil<std::chrono::milliseconds>(deadline - base::Clock::now()).count();
            if (left <= 0) return base::make_error(ErrorCode::kRpc, "the peer did not answer in time");
            timeout = static_cast<int>(std::min<int64_t>(left, INT32_MAX));
        }
        pollfd entry{.fd = stream_.get(), .events = events, .revents = 0};
        const int n = ::poll(&entry, 1, timeout);
        if (n > 0) return {};
        if (n < 0 && errno != EINTR) return base::errno_error(ErrorCode::kInternal, "wait for the peer");
    }
}

}  // namespace boxlite::rpc
