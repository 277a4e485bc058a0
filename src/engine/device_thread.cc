#include "engine/device_thread.h"

#include <pthread.h>
#include <signal.h>

#include <latch>

#include "base/log.h"

namespace boxlite::engine {

Result<std::unique_ptr<DeviceThread>> DeviceThread::start(const char* name, jail::ThreadRole* role) {
    std::unique_ptr<DeviceThread> self(new DeviceThread(TRY(base::EventLoop::make())));
    // Signals are for the main thread.
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    std::promise<Result<void>> closed_in;
    self->thread_ = std::thread([loop = self->loop_.get(), role, &closed_in] {
        closed_in.set_value(role ? role->enter() : Result<void>());
        const auto ended = loop->run();
        if (!ended.ok()) base::log_error("a device thread ended", {{"error", ended.error().message}});
    });
    pthread_sigmask(SIG_SETMASK, &old, nullptr);
    pthread_setname_np(self->thread_.native_handle(), name);
    TRY(closed_in.get_future().get());
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

Result<void> call_while_still(DeviceThread& one, DeviceThread& other,
                              const std::function<Result<void>()>& call) {
    // The threads may be the last to look at them.
    struct Meeting {
        std::latch still{2};
        std::latch over{1};
    };
    const auto meeting = std::make_shared<Meeting>();
    const auto wait = [meeting] {
        meeting->still.count_down();
        meeting->over.wait();
    };
    one.loop().post(wait);
    other.loop().post(wait);
    meeting->still.wait();
    auto outcome = call();
    meeting->over.count_down();
    return outcome;
}

}  // namespace boxlite::engine
