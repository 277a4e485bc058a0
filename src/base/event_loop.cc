#include "base/event_loop.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>

namespace boxlite::base {

Result<std::unique_ptr<EventLoop>> EventLoop::make() {
    Fd epoll(::epoll_create1(EPOLL_CLOEXEC));
    if (!epoll.valid()) return errno_error(ErrorCode::kInternal, "make an epoll descriptor");
    Fd wake = TRY(make_eventfd());
    epoll_event event{.events = EPOLLIN, .data = {.fd = wake.get()}};
    if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, wake.get(), &event) < 0)
        return errno_error(ErrorCode::kInternal, "watch an eventfd");
    return std::unique_ptr<EventLoop>(new EventLoop(std::move(epoll), std::move(wake)));
}

Result<void> EventLoop::watch(int fd, uint32_t events, IoCallback callback) {
    epoll_event event{.events = events, .data = {.fd = fd}};
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) < 0)
        return errno_error(ErrorCode::kInternal, "watch descriptor {}", fd);
    watches_[fd] = std::make_shared<Watch>(Watch{std::move(callback)});
    return {};
}

Result<void> EventLoop::change(int fd, uint32_t events) {
    epoll_event event{.events = events, .data = {.fd = fd}};
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event) < 0)
        return errno_error(ErrorCode::kInternal, "watch descriptor {}", fd);
    return {};
}

void EventLoop::unwatch(int fd) {
    if (watches_.erase(fd)) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

EventLoop::TimerId EventLoop::after(std::chrono::milliseconds delay, Callback callback) {
    const TimerId id = next_timer_++;
    timers_.emplace(std::pair(Clock::now() + delay, id), std::move(callback));
    return id;
}

void EventLoop::cancel(TimerId id) {
    std::erase_if(timers_, [id](const auto& timer) { return timer.first.second == id; });
}

void EventLoop::post(Callback callback) {
    {
        const std::scoped_lock lock(posted_mutex_);
        posted_.push_back(std::move(callback));
    }
    const uint64_t one = 1;
    (void)!::write(wake_.get(), &one, sizeof one);
}

void EventLoop::stop() {
    post([this] { stopping_ = true; });
}

Result<void> EventLoop::run() {
    stopping_ = false;
    for (;;) {
        run_timers();
        if (stopping_) return {};
        if (before_wait_) before_wait_();
        const int timeout = next_timer_ms();
        epoll_event events[64];
        const int n = ::epoll_wait(epoll_.get(), events, 64, timeout);
        if (n < 0 && errno != EINTR) return errno_error(ErrorCode::kInternal, "wait for events");
        for (int i = 0; i < n && !stopping_; ++i) {
            if (events[i].data.fd == wake_.get()) {
                run_posted();
                continue;
            }
            const auto it = watches_.find(events[i].data.fd);
            if (it == watches_.end()) continue;
            const auto watch = it->second;
            watch->callback(events[i].events);
        }
    }
}

void EventLoop::run_posted() {
    uint64_t count;
    (void)!::read(wake_.get(), &count, sizeof count);
    std::vector<Callback> batch;
    {
        const std::scoped_lock lock(posted_mutex_);
        batch.swap(posted_);
    }
    for (Callback& callback : batch) callback();
}

void EventLoop::run_timers() {
    while (!stopping_ && next_timer_ms() == 0) {
        auto node = timers_.extract(timers_.begin());
        node.mapped()();
    }
}

int EventLoop::next_timer_ms() const {
    if (timers_.empty()) return -1;
    const auto left = timers_.begin()->first.first - Clock::now();
    return static_cast<int>(std::max<int64_t>(0, std::chrono::ceil<std::chrono::milliseconds>(left).count()));
}

}  // namespace boxlite::base
