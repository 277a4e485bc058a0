#include "shim/interceptor.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>

#include "base/log.h"

namespace boxlite::shim {

namespace {

using std::chrono::milliseconds;

// Whoever starts the box brings the values at once.
constexpr milliseconds kStartBudget{15'000};
constexpr milliseconds kUpdateBudget{10'000};

v1::InterceptorSpec interceptor_spec(const v1::NetworkSpec& network) {
    v1::InterceptorSpec spec;
    spec.set_box_id(network.box_id());
    spec.set_strict_jail(network.strict_jail());
    *spec.mutable_policy() = network.policy();
    *spec.mutable_secrets() = network.secrets();
    return spec;
}

// Where the host has its trusted certificates, when its user says so.
std::vector<std::string> environment() {
    const char* bundle = std::getenv("SSL_CERT_FILE");
    return bundle ? std::vector<std::string>{fmt::format("SSL_CERT_FILE={}", bundle)}
                  : std::vector<std::string>{};
}

}  // namespace

Result<std::unique_ptr<Interceptor>> Interceptor::launch(base::EventLoop& loop, const std::string& program,
                                                         const v1::NetworkSpec& spec,
                                                         const std::string& secrets_socket, Ready ready) {
    std::unique_ptr<Interceptor> self(new Interceptor(loop));
    base::FdPair control = TRY(base::make_socketpair(SOCK_STREAM));
    base::FdPair netd = TRY(base::make_socketpair(SOCK_SEQPACKET));
    ::unlink(secrets_socket.c_str());
    const base::Fd listener = TRY(base::listen_unix(secrets_socket));
    const base::Fd null = TRY(base::open_file("/dev/null", O_RDWR));
    self->process_.emplace(TRY(base::Process::spawn({.argv = {program, spec.box_id()},
                                                     .env = environment(),
                                                     .fds = {{null.get(), 0},
                                                             {null.get(), 1},
                                                             {STDERR_FILENO, 2},
                                                             {control.second.get(), 3},
                                                             {netd.second.get(), 4},
                                                             {listener.get(), 5}}})));
    self->channel_ = std::move(netd.first);
    self->ready_ = std::move(ready);
    Interceptor* raw = self.get();
    TRY(loop.watch(raw->process_->pidfd(), EPOLLIN, [raw](uint32_t) { raw->ended(); }));
    raw->control_ = TRY(rpc::Channel::make(loop, std::move(control.first), nullptr, [](const Error&) {}));
    raw->control_->call(
        "boxlite.v1.Interceptor", "Start", interceptor_spec(spec), kStartBudget,
        [raw](const Result<std::string_view>& answer) {
            if (!raw->ready_) return;
            const Ready tell = std::exchange(raw->ready_, nullptr);
            if (!answer.ok()) return tell(answer.error());
            if (!raw->status_.ParseFromArray(answer->data(), static_cast<int>(answer->size())))
                return tell(base::make_error(ErrorCode::kNetwork, "the TLS process's answer is damaged"));
            tell({});
        });
    return self;
}

Interceptor::~Interceptor() {
    if (!process_) return;
    loop_.unwatch(process_->pidfd());
    (void)process_->signal(SIGKILL);
    (void)process_->wait();
}

void Interceptor::update(const v1::NetworkPolicy& policy, std::function<void(const Result<void>&)> done) {
    if (!process_ || !control_->open())
        return done(base::make_error(ErrorCode::kInvalidState, "the box's TLS process is gone"));
    control_->call("boxlite.v1.Interceptor", "Update", policy, kUpdateBudget,
                   [done = std::move(done)](const Result<std::string_view>& answer) {
                       done(answer.ok() ? Result<void>() : Result<void>(answer.error()));
                   });
}

void Interceptor::ended() {
    loop_.unwatch(process_->pidfd());
    const auto status = process_->wait();
    process_.reset();
    control_->close();
    base::log_error("the TLS process has ended; connections that it would look into are refused",
                    {{"code", std::to_string(status.ok() ? status->code : -1)},
                     {"signal", std::to_string(status.ok() ? status->signal : -1)}});
    if (ready_)
        std::exchange(ready_, nullptr)(
            base::make_error(ErrorCode::kNetwork,
                             "the process that looks into TLS connections ended before it was "
                             "ready"));
}

}  // namespace boxlite::shim
