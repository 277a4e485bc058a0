// A thread that keeps what the agent gives up: the agent's bounding set is that of the container's usual
// programs, so that they need not drop two dozen capabilities, a system call each, whenever one starts.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace boxlite::agent {

class CapableThread {
  public:
    CapableThread();
    ~CapableThread();
    CapableThread(const CapableThread&) = delete;
    CapableThread& operator=(const CapableThread&) = delete;

    // Does `work` on that thread and returns when it is done.
    void run(std::function<void()> work);

  private:
    void serve();

    std::mutex mutex_;
    std::condition_variable changed_;
    std::function<void()> work_;
    bool ending_ = false;
    std::thread thread_;
};

}  // namespace boxlite::agent
