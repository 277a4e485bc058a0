// What clients of the box's socket may ask.
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "base/log.h"
#include "rpc/parse.h"
#include "shim/supervisor.h"

namespace boxlite::shim {

namespace {

constexpr size_t kMaxClients = 512;

// Every Execution request has its id in field 1, as a string.
bool is_about_main(const rpc::RequestView& request) {
    v1::ExecutionId id;
    return request.service == "boxlite.v1.Execution" &&
           id.ParseFromArray(request.payload.data(), static_cast<int>(request.payload.size())) &&
           id.id() == "main";
}

}  // namespace

Result<void> Supervisor::listen() {
    const std::string path = spec_.box_dir() + "/shim.sock";
    ::unlink(path.c_str());
    listener_ = TRY(base::listen_unix(path));
    return loop_.watch(listener_.get(), EPOLLIN, [this](uint32_t) { accept_clients(); });
}

void Supervisor::accept_clients() {
    for (;;) {
        base::Fd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (!socket.valid()) return;
        std::erase_if(clients_, [](const Connection& client) { return !client->open(); });
        if (clients_.size() >= kMaxClients) continue;  // closed at once
        auto self = std::make_shared<std::weak_ptr<rpc::Channel>>();
        auto channel = rpc::Channel::make(
            loop_, std::move(socket),
            [this, self](const rpc::RequestView& request, rpc::Responder responder) {
                if (const auto connection = self->lock()) handle(connection, request, std::move(responder));
            },
            [this, self](const Error&) {
                const auto connection = self->lock();
                output_->forget(connection.get());
                users_.erase(connection.get());
                close_files_of(connection.get());
                close_tunnels_of(connection.get());
                if (state_ == State::kOff) loop_.post([this] { finish(); });
            });
        if (!channel.ok()) continue;
        *self = *channel;
        clients_.push_back(std::move(channel).value());
    }
}

void Supervisor::handle(const Connection& connection, const rpc::RequestView& request,
                        rpc::Responder responder) {
    if (request.service == "boxlite.v1.Box") return handle_box(connection, request, std::move(responder));
    const bool tunnel = request.service == "boxlite.v1.Tunnel";
    if (!tunnel && request.service != "boxlite.v1.Execution" && request.service != "boxlite.v1.Files")
        return responder.fail(base::make_error(ErrorCode::kUnsupported, "no service {}", request.service));
    // A tunnel has nothing left to read once the machine is off.
    if (!tunnel) users_.insert(connection.get());
    if (is_about_main(request) && (request.method == "Wait" || request.method == "Read" ||
                                   request.method == "Start" || request.method == "Close"))
        return handle_main(request, std::move(responder));
    Forwarded forwarded{connection, std::string(request.service), std::string(request.method),
                        std::string(request.payload), std::move(responder)};
    if (state_ == State::kStarting && !failure_)
        held_.push_back(std::move(forwarded));
    else
        forward(std::move(forwarded));
}

// The main process belongs to the box: it is started once, and its output goes through the log.
void Supervisor::handle_main(const rpc::RequestView& request, rpc::Responder responder) {
    if (request.method == "Wait") {
        if (main_exit_) return responder.reply(*main_exit_);
        if (failure_) return responder.fail(*failure_);
        if (!spec_.has_main())
            return responder.fail(base::make_error(ErrorCode::kNotFound, "the box has no main process"));
        if (state_ == State::kOff)
            return responder.fail(
                base::make_error(ErrorCode::kStopped, "the box has ended: {}", end_reason_));
        main_waiters_.push_back(std::move(responder));
        return;
    }
    responder.fail(base::make_error(ErrorCode::kUnsupported,
                                    "{} of the main process; its output is read with Box.ReadLog",
                                    request.method));
}

void Supervisor::handle_box(const Connection& connection, const rpc::RequestView& request,
                            rpc::Responder responder) {
    if (request.method == "Inspect") return inspect(std::move(responder));
    if (request.method == "Stats") return stats(std::move(responder));
    if (request.method == "WaitReady") {
        ready_waiters_.push_back(std::move(responder));
        if (state_ != State::kStarting || failure_) answer_waiters();
        return;
    }
    if (request.method == "ReadLog") {
        v1::ReadLogRequest read;
        users_.insert(connection.get());
        if (rpc::parse(request, read, responder)) output_->read(read, connection, std::move(responder));
        if (state_ == State::kOff) loop_.post([this] { finish(); });
        return;
    }
    if (request.method == "UpdateNetwork") {
        v1::NetworkPolicy policy;
        if (!rpc::parse(request, policy, responder)) return;
        return update_network(policy, std::move(responder));
    }
    if (request.method == "SetMemory") {
        v1::MemoryTarget target;
        if (!rpc::parse(request, target, responder)) return;
        const auto set = set_memory(target.mib());
        return set.ok() ? responder.reply(v1::Empty()) : responder.fail(set.error());
    }
    if (request.method == "Stop") {
        v1::StopRequest message;
        if (!rpc::parse(request, message, responder)) return;
        if (state_ == State::kOff) return responder.reply(v1::Empty());
        stop_waiters_.push_back(std::move(responder));
        return stop(message.grace_ms(), "stopped on request");
    }
    if (request.method == "Capture") {
        v1::CaptureRequest message;
        if (rpc::parse(request, message, responder)) capture(message, std::move(responder));
        return;
    }
    if (request.method == "Pause") return pause_on_request(std::move(responder));
    if (request.method == "Resume") {
        const auto done = resume();
        return done.ok() ? responder.reply(v1::Empty()) : responder.fail(done.error());
    }
    responder.fail(
        base::make_error(ErrorCode::kUnsupported, "no method {}.{}", request.service, request.method));
}

// First for what begins from now on, then for requests on what is open.
void Supervisor::update_network(const v1::NetworkPolicy& policy, rpc::Responder responder) {
    if (!network_)
        return responder.fail(base::make_error(ErrorCode::kInvalidState, "the box has no network"));
    auto held = std::make_shared<rpc::Responder>(std::move(responder));
    const auto answer = [held](const Result<void>& outcome) {
        outcome.ok() ? held->reply(v1::Empty()) : held->fail(outcome.error());
    };
    network_->update(policy, [this, policy, answer](const Result<void>& outcome) {
        if (outcome.ok() && interceptor_) return interceptor_->update(policy, answer);
        answer(outcome);
    });
}

// Lets go of everything that waited for the boot's outcome, and of what can only fail now.
void Supervisor::answer_waiters() {
    for (rpc::Responder& waiter : std::exchange(ready_waiters_, {})) {
        if (failure_)
            waiter.fail(*failure_);
        else
            waiter.reply(status());
    }
    for (Forwarded& held : std::exchange(held_, {})) forward(std::move(held));
    if (state_ != State::kOff && !failure_) return;
    for (rpc::Responder& waiter : std::exchange(main_waiters_, {})) {
        if (main_exit_)
            waiter.reply(*main_exit_);
        else
            waiter.fail(failure_
                            ? *failure_
                            : base::make_error(ErrorCode::kStopped, "the box has ended: {}", end_reason_));
    }
}

void Supervisor::inspect(rpc::Responder responder) {
    if (!network_ || network_pending_) return responder.reply(status());
    auto held = std::make_shared<rpc::Responder>(std::move(responder));
    network_->counters([this, held](const std::optional<v1::NetworkCounters>& counters) {
        v1::BoxStatus answer = status();
        if (counters) *answer.mutable_network() = *counters;
        held->reply(answer);
    });
}

v1::BoxStatus Supervisor::status() const {
    v1::BoxStatus status;
    constexpr const char* kNames[] = {"starting", "running", "paused", "stopping", "stopped"};
    status.set_state(failure_ ? "failed" : kNames[static_cast<int>(state_)]);
    status.set_shim_pid(::getpid());
    status.set_machine_pid(machine_->pid());
    status.set_engine(machine_->engine());
    status.set_isolation(machine_->isolation());
    status.set_kernel(kernel_release_);
    status.set_started_at_ns(started_at_ns_);
    status.set_boot_ms(boot_ms_);
    status.set_started_from(resumes() ? "snapshot" : spec_.fresh_machine() ? "template" : "boot");
    const auto add_jail = [&status](const char* whose, const jail::JailReport& report) {
        for (const std::string& part : report.applied) status.add_jail(fmt::format("{}: {}", whose, part));
        for (const auto& part : report.missing)
            status.add_jail(fmt::format("{}: missing: {} ({})", whose, part.what, part.why));
    };
    add_jail("machine", machine_->jail());
    add_jail("supervisor", own_jail_);
    if (network_) {
        for (const std::string& part : network_->status().jail()) status.add_jail(part);
        *status.mutable_ports() = network_->status().ports();
        if (interceptor_)
            for (const std::string& part : interceptor_->status().jail()) status.add_jail(part);
    }
    if (main_exit_) *status.mutable_main_exit() = *main_exit_;
    if (failure_) status.set_failure(failure_->message);
    return status;
}

}  // namespace boxlite::shim
