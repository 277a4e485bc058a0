#include "agent/capable_thread.h"

#include <utility>

namespace boxlite::agent {

CapableThread::CapableThread() : thread_([this] { serve(); }) {}

CapableThread::~CapableThread() {
    {
        const std::lock_guard lock(mutex_);
        ending_ = true;
    }
    changed_.notify_all();
    thread_.join();
}

void CapableThread::run(std::function<void()> work) {
    std::unique_lock lock(mutex_);
    work_ = std::move(work);
    changed_.notify_all();
    changed_.wait(lock, [this] { return !work_; });
}

void CapableThread::serve() {
    std::unique_lock lock(mutex_);
    for (;;) {
        changed_.wait(lock, [this] { return work_ || ending_; });
        if (ending_) return;
        work_();
        work_ = nullptr;
        changed_.notify_all();
    }
}

}  // namespace boxlite::agent
