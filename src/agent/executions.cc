#include "agent/executions.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "agent/program.h"

namespace boxlite::agent {

namespace {

constexpr std::string_view kService = "boxlite.v1.Execution";
constexpr std::string_view kMain = "main";
constexpr size_t kMaxIdLength = 64;
constexpr size_t kMaxExecutions = 1024;
constexpr size_t kKeptFinished = 64;
constexpr auto kFinishedLife = std::chrono::minutes(5);
constexpr auto kAfterKill = std::chrono::seconds(5);

}  // namespace

Executions::~Executions() {
    if (kill_timer_) loop_.cancel(kill_timer_);
    for (const Finished& finished : finished_) loop_.cancel(finished.timer);
    if (idle_pidfd_.valid()) loop_.unwatch(idle_pidfd_.get());
}

void Executions::add_routes(Router& router) {
    router.add<v1::StartRequest>(kService, "Start",
                                 [this](const v1::StartRequest& request, rpc::Responder responder) {
                                     start(request, std::move(responder));
                                 });
    router.add<v1::ReadRequest>(
        kService, "Read", [this](const v1::ReadRequest& request, rpc::Responder responder) {
            const auto execution = find(request.id());
            if (execution)
                (*execution)->read(request.stream(), request.max_bytes(), std::move(responder));
            else
                responder.fail(execution.error());
        });
    router.add<v1::WriteRequest>(
        kService, "Write", [this](v1::WriteRequest request, rpc::Responder responder) {
            const auto execution = find(request.id());
            if (execution)
                (*execution)
                    ->write(std::move(*request.mutable_data()), request.close(), std::move(responder));
            else
                responder.fail(execution.error());
        });
    router.add<v1::ExecutionId>(kService, "Wait",
                                [this](const v1::ExecutionId& request, rpc::Responder responder) {
                                    const auto execution = find(request.id());
                                    if (execution)
                                        (*execution)->wait(std::move(responder));
                                    else
                                        responder.fail(execution.error());
                                });
    router.add<v1::SignalRequest>(
        kService, "Signal", [this](const v1::SignalRequest& request, rpc::Responder responder) {
            const auto execution = find(request.id());
            if (execution)
                answer(responder, (*execution)->signal(request.signal(), request.group()));
            else
                responder.fail(execution.error());
        });
    router.add<v1::ResizeRequest>(kService, "Resize",
                                  [this](const v1::ResizeRequest& request, rpc::Responder responder) {
                                      const auto execution = find(request.id());
                                      if (execution)
                                          answer(responder, (*execution)->resize(request.tty()));
                                      else
                                          responder.fail(execution.error());
                                  });
    router.add<v1::ExecutionId>(kService, "Close",
                                [this](const v1::ExecutionId& request, rpc::Responder responder) {
                                    close(request.id(), std::move(responder));
                                });
}

Result<void> Executions::use(Container& container, bool idle_init) {
    container_ = &container;
    return idle_init ? start_idle_init() : Result<void>();
}

Result<void> Executions::start_idle_init() {
    auto plan = std::make_unique<ChildPlan>();
    plan->kind = ChildPlan::Kind::kIdleInit;
    plan->argv = {"init"};
    const base::Fd null = TRY(base::open_file("/dev/null", O_RDWR));
    plan->stdio.fill(null.get());
    Launched init = TRY(container_->start_init(std::move(plan)));
    ChildFailure failure;
    ssize_t n;
    do n = ::read(init.status.get(), &failure, sizeof failure);
    while (n < 0 && errno == EINTR);
    if (n > 0) return start_error(failure, *init.plan);
    TRY(container_->adopt_init(init));
    init_ = Init::kRunning;
    init_pid_ = init.pid;
    idle_pidfd_ = std::move(init.pidfd);
    return loop_.watch(idle_pidfd_.get(), EPOLLIN, [this](uint32_t) {
        loop_.unwatch(idle_pidfd_.get());
        ::waitid(P_PIDFD, static_cast<id_t>(idle_pidfd_.get()), nullptr, WEXITED);
        idle_pidfd_.reset();
        init_has_ended();
    });
}

void Executions::start(const v1::StartRequest& request, rpc::Responder responder) {
    auto started = check_start(request);
    if (started) started = launch(request, responder);
    if (!started) responder.fail(started.error());
}

Result<void> Executions::check_start(const v1::StartRequest& request) const {
    const std::string& id = request.id();
    if (id.empty() || id.size() > kMaxIdLength)
        return base::make_error(ErrorCode::kInvalidArgument, "an execution's id has 1 to {} characters",
                                kMaxIdLength);
    if (!container_)
        return base::make_error(ErrorCode::kInvalidState, "the container has not been set up yet");
    if (terminating_ || init_ == Init::kEnded)
        return base::make_error(ErrorCode::kStopped, "the container has ended; start the box again");
    if (executions_.contains(id))
        return base::make_error(ErrorCode::kAlreadyExists, "there is an execution '{}'", id);
    if (executions_.size() + closed_.size() >= kMaxExecutions)
        return base::make_error(ErrorCode::kResourceExhausted, "{} executions are open; close some",
                                kMaxExecutions);
    if (id == kMain && init_ != Init::kNone)
        return base::make_error(ErrorCode::kInvalidState, "the container has its main process already");
    if (id != kMain && init_ != Init::kRunning)
        return base::make_error(ErrorCode::kInvalidState, "the container's main process is not running yet");
    return {};
}

// Takes `responder` on success.
Result<void> Executions::launch(const v1::StartRequest& request, rpc::Responder& responder) {
    const v1::ProcessSpec& spec = request.process();
    auto plan = TRY(plan_program(spec, container_->root(), container_->privileged()));
    Stdio stdio = spec.has_tty() ? TRY(make_terminal(*container_, spec.tty(), plan->user))
                                 : TRY(make_pipes(spec.stdin_open()));
    plan->stdio = stdio.child;
    plan->terminal = spec.has_tty();
    const bool is_init = request.id() == kMain;
    if (is_init) plan->kind = ChildPlan::Kind::kInit;
    Launched launched =
        TRY(is_init ? container_->start_init(std::move(plan)) : container_->start_member(std::move(plan)));
    stdio.owned.clear();
    auto execution = TRY(Execution::make(loop_, *container_, request.id(), std::move(launched),
                                         std::move(stdio), spec, std::move(responder), events()));
    if (is_init) {
        init_ = Init::kStarting;
        init_pid_ = execution->launched().pid;
    }
    executions_[request.id()] = std::move(execution);
    return {};
}

Execution::Events Executions::events() {
    return {.on_running = [this](Execution& execution) -> Result<void> {
                if (execution.launched().pid != init_pid_) return {};
                TRY(container_->adopt_init(execution.launched()));
                init_ = Init::kRunning;
                return {};
            },
            .on_failed =
                [this](Execution& execution) {
                    if (execution.launched().pid == init_pid_) init_ = Init::kNone;
                    forget(execution);
                    check_terminated();
                },
            .on_ended = [this](Execution& execution) { on_ended(execution); }};
}

void Executions::on_ended(Execution& execution) {
    const bool was_init = execution.launched().pid == init_pid_;
    if (closed_.contains(&execution))
        forget(execution);
    else
        keep_finished(execution.id());
    if (was_init)
        init_has_ended();
    else
        check_terminated();
}

void Executions::keep_finished(const std::string& id) {
    finished_.push_back({id, loop_.after(kFinishedLife, [this, id] {
                             const auto it = executions_.find(id);
                             if (it != executions_.end()) forget(*it->second);
                         })});
    if (finished_.size() > kKeptFinished) forget(*executions_.at(finished_.front().id));
}

// Destroys it.
void Executions::forget(const Execution& execution) {
    if (closed_.erase(&execution)) return;
    const auto it = std::find_if(finished_.begin(), finished_.end(),
                                 [&](const Finished& finished) { return finished.id == execution.id(); });
    if (it != finished_.end()) {
        loop_.cancel(it->timer);
        finished_.erase(it);
    }
    executions_.erase(std::string(execution.id()));
}

Result<Execution*> Executions::find(const std::string& id) {
    const auto it = executions_.find(id);
    if (it == executions_.end())
        return base::make_error(ErrorCode::kNotFound, "there is no execution '{}'", id);
    return it->second.get();
}

void Executions::close(const std::string& id, rpc::Responder responder) {
    if (!executions_.contains(id))
        return responder.fail(base::make_error(ErrorCode::kNotFound, "there is no execution '{}'", id));
    let_go(id);
    responder.reply(std::string_view());
}

void Executions::let_go(const std::string& id) {
    const auto it = executions_.find(id);
    it->second->close_streams();
    if (it->second->ended()) return forget(*it->second);
    auto execution = std::move(it->second);
    executions_.erase(it);
    closed_[execution.get()] = std::move(execution);
}

void Executions::host_lost() {
    std::vector<std::string> others;
    for (const auto& [id, execution] : executions_) {
        if (id == kMain)
            execution->forget_requests();
        else
            others.push_back(id);
    }
    for (const std::string& id : others) let_go(id);
}

void Executions::terminate(std::chrono::milliseconds grace, std::function<void()> done) {
    terminating_ = true;
    terminated_ = std::move(done);
    if (init_ == Init::kStarting || init_ == Init::kRunning) {
        ::kill(init_pid_, SIGTERM);
        kill_timer_ = loop_.after(grace, [this] {
            ::kill(init_pid_, SIGKILL);
            kill_timer_ = loop_.after(kAfterKill, [this] {
                kill_timer_ = 0;
                std::exchange(terminated_, nullptr)();
            });
        });
    }
    check_terminated();
}

void Executions::init_has_ended() {
    init_ = Init::kEnded;
    check_terminated();
}

// PID 1 ends only after everybody else in its namespace.
void Executions::check_terminated() {
    if (!terminated_ || (init_ != Init::kNone && init_ != Init::kEnded)) return;
    if (kill_timer_) loop_.cancel(kill_timer_);
    kill_timer_ = 0;
    std::exchange(terminated_, nullptr)();
}

}  // namespace boxlite::agent
