#include "engine/device_thread.h"

#include <pthread.h>
#include <signal.h>

#include "base/log.h"

namespace boxlite::engine {

Result<std::unique_ptr<DeviceThread>> DeviceThread::start(const char* name) {
    std::unique_ptr<DeviceThread> self(new DeviceThread(TRY(base::EventLoop::make())));
    // Signals are for the main thread.
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    self->thread_ = std::thread([loop = self->loop_.get()] {
        const auto ended = loop->run();
        if (!ended.ok()) base::log_error("a device thread ended", {{"error", ended.error().message}});
    });
    pthread_sigmask(SIG_SETMASK, &old, nullptr);
    pthread_setname_np(self->thread_.native_handle(), name);
    return self;
}

void DeviceThread::run(const std::function<void()>& call) {
    std::promise<void> done;
    loop_->post([&] {
        call();
        done.set_value();
    });
    done.get_future().wait();
}

void DeviceThread::stop() {
    if (!thread_.joinable()) return;
    loop_->stop();
    thread_.join();
}

Result<void> run_on_both(DeviceThread& one, DeviceThread& other, const std::function<Result<void>()>& call) {
    Result<void> outcome;
    one.run([&] { other.run([&] { outcome = call(); }); });
    return outcome;
}

}  // namespace boxlite::engine
