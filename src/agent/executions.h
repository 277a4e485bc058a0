// The Execution service: every process that clients have started, by id.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "agent/container.h"
#include "agent/execution.h"
#include "agent/messages.h"
#include "agent/router.h"
#include "base/event_loop.h"

namespace boxlite::agent {

class Executions {
  public:
    explicit Executions(base::EventLoop& loop) : loop_(loop) {}
    Executions(const Executions&) = delete;
    Executions& operator=(const Executions&) = delete;
    ~Executions();

    void add_routes(Router& router);

    // From now on processes can be started in `container`, which must outlive this object. With `idle_init`
    // PID 1 is started here, and the call returns when it is there; else "main" will be PID 1.
    Result<void> use(Container& container, bool idle_init);

    // Those who asked are gone: what they wait for is not told. The main process goes on as it is, others as
    // if they had been closed.
    void host_lost();

    // SIGTERM to PID 1 (an idle one passes it on to everybody), SIGKILL to all after `grace`. `done` is
    // called when every process has gone, or when the kernel has not ended one within five more seconds.
    void terminate(std::chrono::milliseconds grace, std::function<void()> done);

  private:
    void start(const v1::StartRequest& request, rpc::Responder responder);
    Result<void> check_start(const v1::StartRequest& request) const;
    Result<void> launch(const v1::StartRequest& request, rpc::Responder& responder);
    Result<void> start_idle_init();
    Result<Execution*> find(const std::string& id);
    void close(const std::string& id, rpc::Responder responder);
    void let_go(const std::string& id);
    Execution::Events events();
    void on_ended(Execution& execution);
    void keep_finished(const std::string& id);
    void forget(const Execution& execution);
    void init_has_ended();
    void check_terminated();

    base::EventLoop& loop_;
    Container* container_ = nullptr;
    std::map<std::string, std::unique_ptr<Execution>> executions_;
    std::map<const Execution*, std::unique_ptr<Execution>> closed_;  // still running, without an id
    struct Finished {
        std::string id;
        base::EventLoop::TimerId timer;
    };
    std::deque<Finished> finished_;  // oldest first

    enum class Init { kNone, kStarting, kRunning, kEnded };
    Init init_ = Init::kNone;
    pid_t init_pid_ = 0;
    base::Fd idle_pidfd_;
    bool terminating_ = false;
    std::function<void()> terminated_;
    base::EventLoop::TimerId kill_timer_ = 0;
};

}  // namespace boxlite::agent
