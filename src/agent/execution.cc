#include "agent/execution.h"

#include <signal.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

namespace boxlite::agent {

namespace {

constexpr auto kKillAfterTimeout = std::chrono::seconds(2);

// Of a process that has ended or is about to.
siginfo_t reap(int pidfd) {
    siginfo_t info{};
    int result;
    do result = ::waitid(P_PIDFD, static_cast<id_t>(pidfd), &info, WEXITED);
    while (result < 0 && errno == EINTR);
    return info;
}

}  // namespace

Result<std::unique_ptr<Execution>> Execution::make(base::EventLoop& loop, Container& container,
                                                   std::string id, Launched launched, Stdio stdio,
                                                   const v1::ProcessSpec& spec, rpc::Responder start,
                                                   Events events) {
    std::unique_ptr<Execution> execution(new Execution(loop, container, std::move(id), std::move(launched),
                                                       std::move(stdio), spec.has_tty(), std::move(start),
                                                       std::move(events)));
    TRY(loop.watch(execution->launched_.status.get(), EPOLLIN,
                   [self = execution.get()](uint32_t) { self->on_status(); }));
    if (spec.timeout_ms()) execution->set_timeout(spec.timeout_ms());
    return execution;
}

Execution::Execution(base::EventLoop& loop, Container& container, std::string id, Launched launched,
                     Stdio stdio, bool terminal, rpc::Responder start, Events events)
    : loop_(loop),
      container_(container),
      id_(std::move(id)),
      launched_(std::move(launched)),
      terminal_(terminal),
      start_(std::move(start)),
      events_(std::move(events)),
      in_(loop, std::move(stdio.in), terminal ? InputStream::Kind::kTerminal : InputStream::Kind::kPipe),
      out_(loop, std::move(stdio.out)),
      err_(loop, std::move(stdio.err)) {}

Execution::~Execution() {
    if (timer_) loop_.cancel(timer_);
    if (launched_.status.valid()) loop_.unwatch(launched_.status.get());
    if (launched_.pidfd.valid()) loop_.unwatch(launched_.pidfd.get());
}

void Execution::on_status() {
    ChildFailure failure;
    const ssize_t n = ::read(launched_.status.get(), &failure, sizeof failure);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) return;
    loop_.unwatch(launched_.status.get());
    launched_.status.reset();
    if (n > 0) return fail_start(start_error(failure, *launched_.plan));

    v1::StartResponse answer;
    answer.set_pid(launched_.plan->pid_inside);
    launched_.plan.reset();
    launched_.stack.reset();
    auto running = events_.on_running(*this);
    if (running) running = loop_.watch(launched_.pidfd.get(), EPOLLIN, [this](uint32_t) { on_exit(); });
    if (!running) {
        ::kill(launched_.pid, SIGKILL);
        return fail_start(running.error());
    }
    state_ = State::kRunning;
    start_->reply(answer);
    start_.reset();
}

void Execution::fail_start(const Error& error) {
    reap(launched_.pidfd.get());
    state_ = State::kEnded;
    start_->fail(error);
    start_.reset();
    for (rpc::Responder& waiter : waiters_) waiter.fail(error);
    waiters_.clear();
    // It may destroy this object, and must not go with it.
    const auto on_failed = std::move(events_.on_failed);
    on_failed(*this);
}

void Execution::set_timeout(uint32_t timeout_ms) {
    timer_ = loop_.after(std::chrono::milliseconds(timeout_ms), [this] {
        exit_.set_timed_out(true);
        ::kill(-launched_.pid, SIGTERM);
        timer_ = loop_.after(kKillAfterTimeout, [this] {
            timer_ = 0;
            killed_by_us_ = true;
            ::kill(-launched_.pid, SIGKILL);
        });
    });
}

void Execution::on_exit() {
    loop_.unwatch(launched_.pidfd.get());
    const siginfo_t info = reap(launched_.pidfd.get());
    if (timer_) loop_.cancel(timer_);
    timer_ = 0;
    state_ = State::kEnded;
    if (info.si_code == CLD_EXITED)
        exit_.set_code(info.si_status);
    else
        exit_.set_signal(info.si_status);
    exit_.set_oom_killed(exit_.signal() == SIGKILL && !killed_by_us_ && container_.claim_oom_kill());
    in_.close();
    out_.process_ended();
    err_.process_ended();
    for (rpc::Responder& waiter : waiters_) waiter.reply(exit_);
    waiters_.clear();
    const auto on_ended = std::move(events_.on_ended);
    on_ended(*this);
}

void Execution::read(v1::Stream stream, uint32_t max_bytes, rpc::Responder responder) {
    (stream == v1::STDERR ? err_ : out_).read(max_bytes, std::move(responder));
}

void Execution::write(std::string data, bool close_after, rpc::Responder responder) {
    in_.write(std::move(data), close_after, std::move(responder));
}

void Execution::wait(rpc::Responder responder) {
    if (ended())
        responder.reply(exit_);
    else
        waiters_.push_back(std::move(responder));
}

Result<void> Execution::signal(int number, bool group) {
    if (number < 1 || number > SIGRTMAX)
        return base::make_error(ErrorCode::kInvalidArgument, "there is no signal {}", number);
    if (ended()) return base::make_error(ErrorCode::kInvalidState, "the process '{}' has ended", id_);
    killed_by_us_ |= number == SIGKILL;
    // Not reaped yet, so the number is still this process's.
    if (::kill(group ? -launched_.pid : launched_.pid, number) < 0)
        return base::errno_error(ErrorCode::kInvalidState, "signal the process '{}'", id_);
    return {};
}

Result<void> Execution::resize(const v1::Tty& size) const {
    if (!terminal_)
        return base::make_error(ErrorCode::kInvalidState, "the process '{}' has no terminal to resize", id_);
    return resize_terminal(out_.fd(), size);
}

void Execution::forget_requests() {
    in_.forget_requests();
    out_.forget_requests();
    err_.forget_requests();
    waiters_.clear();
}

void Execution::close_streams() {
    in_.close();
    out_.close();
    err_.close();
}

}  // namespace boxlite::agent
