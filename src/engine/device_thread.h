// A thread that runs an event loop for devices.
#pragma once

#include <future>
#include <memory>
#include <thread>

#include "base/event_loop.h"
#include "jail/thread_role.h"

namespace boxlite::engine {

class DeviceThread {
  public:
    // With a role, the thread is closed in by it.
    static Result<std::unique_ptr<DeviceThread>> start(const char* name, jail::ThreadRole* role);
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

// Calls `call`, here, while neither of the two does anything. Not from one of them, not after stop().
Result<void> call_while_still(DeviceThread& one, DeviceThread& other,
                              const std::function<Result<void>()>& call);

}  // namespace boxlite::engine
