// A single-threaded event loop over epoll. Everything but post() and stop() belongs to the thread that
// calls run().
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"

namespace boxlite::base {

class EventLoop {
  public:
    using Callback = std::function<void()>;
    // `events` are the EPOLL* bits that are ready.
    using IoCallback = std::function<void(uint32_t events)>;
    using TimerId = uint64_t;

    static Result<std::unique_ptr<EventLoop>> make();

    // Level triggered. The descriptor stays the caller's and must be unwatched before it is closed.
    // `events` 0 keeps it registered and quiet (errors and hang-ups still arrive).
    Result<void> watch(int fd, uint32_t events, IoCallback callback);
    Result<void> change(int fd, uint32_t events);
    void unwatch(int fd);

    // Runs `callback` once, after `delay`.
    TimerId after(std::chrono::milliseconds delay, Callback callback);
    void cancel(TimerId id);

    // Runs `callback` each time before the loop looks for events; an empty one ends that. For what prepares
    // many changes of what is watched, once.
    void before_wait(Callback callback) { before_wait_ = std::move(callback); }

    // Runs `callback` on the loop's thread, soon. Thread safe.
    void post(Callback callback);

    // Dispatches until stop(). Returns an error only when epoll itself fails.
    Result<void> run();
    // Thread safe.
    void stop();

  private:
    EventLoop(Fd epoll, Fd wake, Fd alarm)
        : epoll_(std::move(epoll)), wake_(std::move(wake)), alarm_(std::move(alarm)) {}
    void run_posted();
    // Runs what is due.
    void run_timers();
    void set_alarm(Clock::time_point at);

    struct Watch {
        IoCallback callback;
    };
    Fd epoll_;
    Fd wake_;
    // A timerfd, so that a turn of the loop needs no look at the clock: in a box of the uml engine that is a
    // system call of some 20 us. It may go off too early, for a timer that is no more, never too late.
    Fd alarm_;
    Clock::time_point alarm_at_ = Clock::time_point::max();
    bool stopping_ = false;
    // shared_ptr: a callback may unwatch itself or another entry of the same batch.
    std::map<int, std::shared_ptr<Watch>> watches_;
    std::map<std::pair<Clock::time_point, TimerId>, Callback> timers_;
    Callback before_wait_;
    TimerId next_timer_ = 1;
    std::mutex posted_mutex_;
    std::vector<Callback> posted_;
};

}  // namespace boxlite::base
