#include "net/tls/service.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include "jail/confine_netd.h"
#include "net/spec.h"
#include "rpc/parse.h"

namespace boxlite::net::tls {

namespace {

constexpr size_t kMaxClients = 16;
constexpr size_t kMaxRule = 1024;
constexpr size_t kMaxReports = 1000;

void answer(rpc::Responder& responder, const Result<void>& outcome) {
    outcome.ok() ? responder.reply(v1::Empty()) : responder.fail(outcome.error());
}

}  // namespace

Result<std::unique_ptr<Service>> Service::make(base::EventLoop& loop, base::Fd control, base::Fd netd,
                                               base::Fd secrets) {
    TRY(base::set_nonblocking(secrets.get(), true));
    std::unique_ptr<Service> self(new Service(loop, std::move(secrets)));
    Service* raw = self.get();
    self->control_ = TRY(rpc::Channel::make(
        loop, std::move(control),
        [raw](const rpc::RequestView& request, rpc::Responder responder) {
            raw->handle(request, std::move(responder));
        },
        [&loop](const Error&) { loop.stop(); }));
    self->netd_ = TRY(PacketSocket::make(
        loop, std::move(netd),
        {.received = [raw](base::ByteView message,
                           std::vector<base::Fd> ends) { raw->receive(message, std::move(ends)); },
         .closed = [raw] { raw->sessions_.clear(); }}));
    return self;
}

Service::~Service() {
    loop_.unwatch(listener_.get());
}

void Service::handle(const rpc::RequestView& request, rpc::Responder responder) {
    if (request.service == "boxlite.v1.Interceptor" && request.method == "Start") {
        v1::InterceptorSpec spec;
        if (!rpc::parse(request, spec, responder)) return;
        if (const auto started = start(spec); !started.ok()) return responder.fail(started.error());
        starting_.emplace(std::move(responder));
        return answer_start();
    }
    if (request.service == "boxlite.v1.Interceptor" && request.method == "Update") {
        v1::NetworkPolicy rules;
        if (rpc::parse(request, rules, responder)) answer(responder, update(rules));
        return;
    }
    responder.fail(
        base::make_error(ErrorCode::kUnsupported, "no method {}.{}", request.service, request.method));
}

Result<void> Service::start(const v1::InterceptorSpec& spec) {
    if (book_) return base::make_error(ErrorCode::kInvalidState, "it has been started before");
    policy_ = TRY(Policy::parse(policy_text(spec.policy())));
    auto names = TRY(secret_names(spec.secrets()));
    contexts_ = TRY(make_contexts());
    Session::prepare(contexts_->to_box.get());
    authority_ = TRY(Authority::make(spec.box_id()));
    status_.mutable_authority()->set_certificates(TRY(authority_->certificate()));
    status_.mutable_authority()->set_hash(authority_->hash());
    jail::NetdConfinement confinement;
    confinement.uid = jail::box_uid(spec.box_id());
    confinement.strict = spec.strict_jail();
    confinement.network = false;
    const jail::JailReport report = TRY(jail::confine_netd(confinement));
    for (const std::string& part : report.applied) status_.add_jail(fmt::format("tls: {}", part));
    for (const auto& part : report.missing)
        status_.add_jail(fmt::format("tls: missing: {} ({})", part.what, part.why));
    // From here on nobody can look into this process, and values may come.
    book_ = std::make_unique<SecretBook>(std::move(names));
    return loop_.watch(listener_.get(), EPOLLIN, [this](uint32_t) { accept_clients(); });
}

void Service::answer_start() {
    if (!starting_ || (!values_came_ && !book_->names().empty())) return;
    starting_->reply(status_);
    starting_.reset();
}

Result<void> Service::update(const v1::NetworkPolicy& rules) {
    policy_ = TRY(Policy::parse(policy_text(rules)));
    return {};
}

void Service::accept_clients() {
    for (;;) {
        base::Fd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (!socket.valid()) return;
        std::erase_if(clients_, [](const auto& client) { return !client->open(); });
        if (clients_.size() >= kMaxClients) continue;
        auto channel = rpc::Channel::make(
            loop_, std::move(socket),
            [this](const rpc::RequestView& request, rpc::Responder responder) {
                handle_secrets(request, std::move(responder));
            },
            [](const Error&) {});
        if (channel.ok()) clients_.push_back(std::move(channel).value());
    }
}

void Service::handle_secrets(const rpc::RequestView& request, rpc::Responder responder) {
    v1::SecretValues message;
    if (request.service != "boxlite.v1.Secrets" || request.method != "Set")
        return responder.fail(
            base::make_error(ErrorCode::kUnsupported, "no method {}.{}", request.service, request.method));
    if (!rpc::parse(request, message, responder)) return;
    std::vector<std::pair<std::string, std::string>> values;
    for (const v1::SecretValue& value : message.values()) values.emplace_back(value.name(), value.value());
    const auto set = book_->set(values);
    for (auto& [name, value] : values) wipe(value);
    for (v1::SecretValue& value : *message.mutable_values()) wipe(*value.mutable_value());
    answer(responder, set);
    if (!set.ok()) return;
    values_came_ = true;
    answer_start();
}

void Service::receive(base::ByteView bytes, std::vector<base::Fd> ends) {
    v1::Intercepted message;
    if (message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) && ends.size() == 2)
        intercept(message, std::move(ends));
}

void Service::intercept(const v1::Intercepted& message, std::vector<base::Fd> ends) {
    const uint64_t id = message.id();
    if (!book_) return report(id, "");
    Guard guard{.host = message.host(),
                .port = static_cast<uint16_t>(message.port()),
                .by_request = message.by_request(),
                .policy = policy_,
                .secrets = *book_,
                .refused = [this, id](const std::string& rule) { report(id, rule); }};
    auto session = Session::start({loop_, *contexts_, *authority_}, std::move(guard), std::move(ends[0]),
                                  std::move(ends[1]), [this, id] {
                                      sessions_.erase(id);
                                      report(id, "");
                                  });
    if (session.ok()) {
        sessions_[id] = std::move(session).value();
        return;
    }
    report(id, session.error().message);
    report(id, "");
}

void Service::report(uint64_t id, const std::string& rule) {
    // A line of a log less, rather than memory without end. That something is over always gets there.
    if (!rule.empty() && netd_->waiting() >= kMaxReports) return;
    v1::InterceptReport message;
    message.set_id(id);
    std::string text = rule.substr(0, kMaxRule);
    // A box's words may be in it, and a secret's value never.
    if (book_) replace_all(book_->scrubs(), text);
    message.set_rule(text);
    netd_->send(message.SerializeAsString());
}

}  // namespace boxlite::net::tls
