#include "agent/stream.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "rpc/wire.h"

namespace boxlite::agent {

namespace {

// The size that pipes have at first: more never comes at once.
constexpr size_t kChunk = size_t{64} << 10;
constexpr size_t kLargePipe = kMaxRead;
// Key and length in front of ReadResponse.data, so that the answer is put together without a copy.
constexpr uint32_t kDataField = 1;
constexpr uint32_t kEofField = 2;
constexpr size_t kHeadroom = 8;

void answer_end(rpc::Responder& responder) {
    std::array<uint8_t, 4> message;
    const uint8_t* end = rpc::write_number_field(message.data(), kEofField, 1);
    responder.reply(base::as_text({message.data(), static_cast<size_t>(end - message.data())}));
}

}  // namespace

void OutputStream::read(uint32_t max_bytes, rpc::Responder responder) {
    if (max_bytes == 0 || max_bytes > kMaxRead)
        return responder.fail(base::make_error(ErrorCode::kInvalidArgument,
                                               "max_bytes is {}; it must be 1 to {}", max_bytes, kMaxRead));
    waiting_.push_back({max_bytes, std::move(responder)});
    if (waiting_.size() == 1) serve();
}

OutputStream::Outcome OutputStream::answer(uint32_t max_bytes, rpc::Responder& responder) {
    if (!fd_.valid()) return Outcome::kEnd;
    std::array<uint8_t, kHeadroom + kChunk> small;
    uint8_t* data = (large_ ? large_.get() : small.data()) + kHeadroom;
    const size_t wanted = std::min<size_t>(max_bytes, large_ ? kLargePipe : kChunk);
    ssize_t n;
    do n = ::read(fd_.get(), data, wanted);
    while (n < 0 && errno == EINTR);
    if (n < 0 && errno == EAGAIN) return process_ended_ ? Outcome::kEnd : Outcome::kNothing;
    // EIO: a terminal that no process has open.
    if (n <= 0) return Outcome::kEnd;
    const auto size = static_cast<size_t>(n);
    const size_t prefix = rpc::bytes_field_size(size) - size;
    uint8_t* start = data - prefix;
    rpc::write_bytes_field_start(start, kDataField, size);
    responder.reply(base::as_text({start, prefix + size}));
    if (size == kChunk && !large_) enlarge();
    return Outcome::kAnswered;
}

// A terminal stays as it is, and nothing is lost.
void OutputStream::enlarge() {
    if (::fcntl(fd_.get(), F_SETPIPE_SZ, kLargePipe) < 0) return;
    large_ = std::make_unique_for_overwrite<uint8_t[]>(kHeadroom + kLargePipe);
}

void OutputStream::serve() {
    while (!waiting_.empty()) {
        const Outcome outcome = answer(waiting_.front().max_bytes, waiting_.front().responder);
        if (outcome == Outcome::kNothing) return arm();
        if (outcome == Outcome::kEnd) return close();
        waiting_.pop_front();
    }
}

// One event per request: a pipe whose writer has gone would report that for ever.
void OutputStream::arm() {
    constexpr uint32_t kEvents = EPOLLIN | EPOLLONESHOT;
    const auto armed = watched_ ? loop_.change(fd_.get(), kEvents)
                                : loop_.watch(fd_.get(), kEvents, [this](uint32_t) { serve(); });
    watched_ = true;
    if (armed) return;
    waiting_.front().responder.fail(armed.error());
    waiting_.pop_front();
}

void OutputStream::process_ended() {
    process_ended_ = true;
    if (!waiting_.empty()) serve();
}

void OutputStream::close() {
    if (watched_) loop_.unwatch(fd_.get());
    watched_ = false;
    fd_.reset();
    large_.reset();
    for (Waiting& waiting : waiting_) answer_end(waiting.responder);
    waiting_.clear();
}

Error InputStream::no_reader() const {
    return {ErrorCode::kInvalidState, kind_ == Kind::kSocket
                                          ? "the program at the box's port takes no more"
                                          : "nobody reads the process's standard input any more"};
}

void InputStream::write(std::string data, bool close_after, rpc::Responder responder) {
    if (!fd_.valid()) return responder.fail(no_reader());
    waiting_.push_back({std::move(data), 0, close_after, std::move(responder)});
    if (waiting_.size() == 1) serve();
}

void InputStream::serve() {
    while (!waiting_.empty()) {
        Waiting& first = waiting_.front();
        while (first.written < first.data.size()) {
            const ssize_t n =
                ::write(fd_.get(), first.data.data() + first.written, first.data.size() - first.written);
            if (n < 0 && errno == EINTR) continue;
            if (n < 0 && errno == EAGAIN) {
                if (enlarged_ || first.data.size() - first.written < kChunk) return arm();
                enlarged_ = true;
                ::fcntl(fd_.get(), F_SETPIPE_SZ, kLargePipe);
                continue;
            }
            if (n < 0) return close();
            first.written += static_cast<size_t>(n);
        }
        rpc::Responder responder = std::move(first.responder);
        const bool closing = first.close_after && kind_ != Kind::kTerminal;
        waiting_.pop_front();
        responder.reply(std::string_view());
        if (closing) return close();
    }
}

void InputStream::arm() {
    constexpr uint32_t kEvents = EPOLLOUT | EPOLLONESHOT;
    const auto armed = watched_ ? loop_.change(fd_.get(), kEvents)
                                : loop_.watch(fd_.get(), kEvents, [this](uint32_t) { serve(); });
    watched_ = true;
    if (!armed) close();
}

void InputStream::close() {
    if (watched_) loop_.unwatch(fd_.get());
    watched_ = false;
    if (kind_ == Kind::kSocket && fd_.valid()) (void)::shutdown(fd_.get(), SHUT_WR);
    fd_.reset();
    for (Waiting& waiting : waiting_) waiting.responder.fail(no_reader());
    waiting_.clear();
}

}  // namespace boxlite::agent
