#include "net/frame_port.h"

#include <sys/epoll.h>
#include <sys/socket.h>

namespace boxlite::net {

namespace {

// Frames of one round, so that everything else gets its turn.
constexpr int kBurst = 32;

}  // namespace

FramePort::FramePort(base::EventLoop& loop, base::Fd socket, const Rates& rates, Handlers handlers,
                     size_t max_queued_bytes)
    : loop_(loop),
      socket_(std::move(socket)),
      handlers_(std::move(handlers)),
      max_queued_bytes_(max_queued_bytes),
      buffer_(kMaxFrame),
      from_box_(rates.from_box),
      to_box_(rates.to_box) {}

FramePort::~FramePort() {
    loop_.unwatch(socket_.get());
    if (read_timer_) loop_.cancel(read_timer_);
    if (write_timer_) loop_.cancel(write_timer_);
}

Result<void> FramePort::start() {
    events_ = EPOLLIN;
    return loop_.watch(socket_.get(), events_, [this](uint32_t events) { ready(events); });
}

void FramePort::watch_what_matters() {
    const uint32_t events = (read_timer_ ? 0u : uint32_t{EPOLLIN}) | (full_ ? uint32_t{EPOLLOUT} : 0u);
    if (events == std::exchange(events_, events)) return;
    (void)loop_.change(socket_.get(), events);
}

void FramePort::ready(uint32_t events) {
    if (events & EPOLLOUT) {
        full_ = false;
        flush();
    }
    if (events & EPOLLIN) return read_frames();
    if (events & (EPOLLHUP | EPOLLERR)) handlers_.closed();
}

void FramePort::read_frames() {
    for (int i = 0; i < kBurst; ++i) {
        if (from_box_.limited()) {
            const auto wait = from_box_.wait(base::Clock::now());
            if (wait.count() > 0) {
                read_timer_ = loop_.after(wait, [this] {
                    read_timer_ = 0;
                    watch_what_matters();
                });
                return watch_what_matters();
            }
        }
        const ssize_t n = ::recv(socket_.get(), buffer_.data(), buffer_.size(), MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) return;
        if (n <= 0) return handlers_.closed();
        received_bytes_ += static_cast<uint64_t>(n);
        from_box_.take(static_cast<uint64_t>(n));
        handlers_.frame({buffer_.data(), static_cast<size_t>(n)});
    }
}

// False when it has to wait.
bool FramePort::write_frame(base::ByteView frame) {
    if (full_ || write_timer_) return false;
    if (to_box_.limited()) {
        const auto wait = to_box_.wait(base::Clock::now());
        if (wait.count() > 0) {
            write_timer_ = loop_.after(wait, [this] {
                write_timer_ = 0;
                flush();
            });
            return false;
        }
    }
    ssize_t n;
    do n = ::send(socket_.get(), frame.data(), frame.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    if (n < 0 && (errno == EAGAIN || errno == ENOBUFS)) {
        full_ = true;
        return false;
    }
    // Other errors are the end of the connection, which the loop tells.
    if (n > 0) sent_bytes_ += static_cast<uint64_t>(n);
    to_box_.take(frame.size());
    return true;
}

void FramePort::send(base::ByteView frame) {
    if (queue_.empty() && write_frame(frame)) return;
    if (queued_bytes_ + frame.size() > max_queued_bytes_) return;
    queue_.emplace_back(frame.begin(), frame.end());
    queued_bytes_ += frame.size();
    watch_what_matters();
}

void FramePort::flush() {
    while (!queue_.empty() && write_frame(queue_.front())) {
        queued_bytes_ -= queue_.front().size();
        queue_.pop_front();
    }
    watch_what_matters();
    if (queue_.empty()) handlers_.writable();
}

}  // namespace boxlite::net
