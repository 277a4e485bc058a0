// Takes the guest's messages from the threads that get them to the machine's own. What the guest says faster
// than it is taken away is dropped beyond a bound.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "base/bytes.h"
#include "base/event_loop.h"

namespace boxlite::engine::kvm {

class ConsoleRelay : public std::enable_shared_from_this<ConsoleRelay> {
  public:
    static constexpr size_t kMaxWaiting = 256 << 10;

    ConsoleRelay(base::EventLoop& loop, std::function<void(base::ByteView)> sink)
        : loop_(loop), sink_(std::move(sink)) {}
    // Thread safe.
    void append(base::ByteView text);
    // On the loop's thread: passes on what waits.
    void flush();
    // On the loop's thread: nothing is passed on any more.
    void close() { sink_ = nullptr; }

  private:
    base::EventLoop& loop_;
    std::function<void(base::ByteView)> sink_;
    std::mutex mutex_;
    std::string waiting_;
};

}  // namespace boxlite::engine::kvm
