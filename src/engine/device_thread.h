// A thread that runs an event loop for devices.
#pragma once

#include <future>
#include <memory>
#include <thread>

#include "base/event_loop.h"

namespace boxlite::engine {

class DeviceThread {
  public:
    static Result<std::unique_ptr<DeviceThread>> start(const char* name);
    ~DeviceThread() { stop(); }
    base::EventLoop& loop() { return *loop_; }
    // Runs `call` on the thread and waits for it. Not from the thread itself, not after stop().
    void run(const std::function<void()>& call);
    // No callback runs any more once this returns.
    void stop();

  private:
    explicit DeviceThread(std::unique_ptr<base::EventLoop> loop) : loop_(std::move(loop)) {}
    std::unique_ptr<base::EventLoop> loop_;
    std::thread thread_;
};

// Runs `call` while neither of the two does anything else.
Result<void> run_on_both(DeviceThread& one, DeviceThread& other, const std::function<Result<void>()>& call);

}  // namespace boxlite::engine
