#include "base/event_loop.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>

namespace boxlite::base {

Result<std::unique_ptr<EventLoop>> EventLoop::make() {
    Fd epoll(::epoll_create1(EPOLL_CLOEXEC));
    if (!epoll.valid()) return errno_error(ErrorCode::kInternal, "make an epoll descriptor");
    Fd wake = TRY(make_eventfd());
    Fd alarm(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
    if (!alarm.valid()) return errno_error(ErrorCode::kInternal, "make a timer");
    for (const int fd : {wake.get(), alarm.get()}) {
        epoll_event event{.events = EPOLLIN, .data = {.fd = fd}};
        if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, fd, &event) < 0)
            return errno_error(ErrorCode::kInternal, "watch a descriptor of the loop's own");
    }
    return std::unique_ptr<EventLoop>(new EventLoop(std::move(epoll), std::move(wake), std::move(alarm)));
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
    const Clock::time_point at = Clock::now() + delay;
    timers_.emplace(std::pair(at, id), std::move(callback));
    if (at < alarm_at_) set_alarm(at);
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
        if (stopping_) return {};
        if (before_wait_) before_wait_();
        epoll_event events[64];
        const int n = ::epoll_wait(epoll_.get(), events, 64, -1);
        if (n < 0 && errno != EINTR) return errno_error(ErrorCode::kInternal, "wait for events");
        for (int i = 0; i < n && !stopping_; ++i) {
            if (events[i].data.fd == wake_.get()) {
                run_posted();
                continue;
            }
            if (events[i].data.fd == alarm_.get()) {
                run_timers();
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
    while (!stopping_ && !timers_.empty() && timers_.begin()->first.first <= Clock::now()) {
        auto node = timers_.extract(timers_.begin());
        node.mapped()();
    }
    // Setting it makes it silent, too.
    set_alarm(timers_.empty() ? Clock::time_point::max() : timers_.begin()->first.first);
}

void EventLoop::set_alarm(Clock::time_point at) {
    alarm_at_ = at;
    itimerspec alarm{};  // zero: none
    if (at != Clock::time_point::max()) {
        const auto ns = std::max<int64_t>(1, std::chrono::nanoseconds(at.time_since_epoch()).count());
        alarm.it_value = {.tv_sec = ns / 1'000'000'000, .tv_nsec = ns % 1'000'000'000};
    }
    ::timerfd_settime(alarm_.get(), TFD_TIMER_ABSTIME, &alarm, nullptr);
}

}  // namespace boxlite::base
