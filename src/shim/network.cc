#include "shim/network.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "base/log.h"
#include "net/layout.h"
#include "net/mac.h"
#include "net/resolver_config.h"

namespace boxlite::shim {

namespace {

using std::chrono::milliseconds;

constexpr milliseconds kStartBudget{10'000};
constexpr milliseconds kStopBudget{500};
// Of the socket that carries frames, each way: several of the largest.
constexpr int kFrameBuffer = 1 << 20;

std::string to_line(const v1::Flow& flow) {
    nlohmann::ordered_json line = {
        {"time", base::format_time(flow.started_at_ns())},
        {"protocol", flow.protocol()},
        {"direction", flow.incoming() ? "in" : "out"},
        {"name", flow.name()},
        {"address", flow.address()},
        {"port", flow.port()},
        {"verdict", flow.allowed() ? "allowed" : "refused"},
        {"rule", flow.rule()},
        {"sent_bytes", flow.sent_bytes()},
        {"received_bytes", flow.received_bytes()},
        {"duration_ms", flow.duration_ms()},
    };
    if (!flow.error().empty()) line["error"] = flow.error();
    return line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace

Result<std::unique_ptr<Network>> Network::make(base::EventLoop& loop, const v1::NetworkSpec& spec,
                                               const std::string& log_path) {
    const auto mac = net::mac_from(spec.mac());
    if (!mac)
        return base::make_error(ErrorCode::kInvalidArgument, "the box's network interface has no address");
    std::unique_ptr<Network> self(new Network(loop, spec, TRY(RotatingFile::create(log_path, kLogBytes))));
    base::FdPair frames = TRY(base::make_socketpair(SOCK_SEQPACKET | SOCK_NONBLOCK));
    for (const base::Fd* end : {&frames.first, &frames.second})
        (void)::setsockopt(end->get(), SOL_SOCKET, SO_SNDBUF, &kFrameBuffer, sizeof kFrameBuffer);
    self->dns_search_ = net::ResolverConfig::load().search;
    self->process_frames_ = std::move(frames.second);
    // On the device's thread; the log takes any.
    self->device_ = std::make_unique<virtio::Net>(std::move(frames.first), *mac, net::kMtu, [] {
        base::log_error("the network process is gone; the box goes on without a network");
    });
    return self;
}

Network::~Network() {
    if (!process_) return;
    loop_.unwatch(process_->pidfd());
    (void)process_->signal(SIGKILL);
    (void)process_->wait();
}

Result<void> Network::launch(const std::string& program, base::Fd interceptor, base::Fd proxies,
                             Ready ready) {
    base::FdPair control = TRY(base::make_socketpair(SOCK_STREAM));
    const base::Fd null = TRY(base::open_file("/dev/null", O_RDWR));
    std::vector<std::pair<int, int>> fds = {{null.get(), 0},
                                            {null.get(), 1},
                                            {STDERR_FILENO, 2},
                                            {process_frames_.get(), 3},
                                            {control.second.get(), 4}};
    if (interceptor.valid()) fds.emplace_back(interceptor.get(), 5);
    if (proxies.valid()) fds.emplace_back(proxies.get(), 6);
    process_.emplace(TRY(base::Process::spawn(
        {.argv = {program, spec_.box_id()}, .env = std::vector<std::string>{}, .fds = std::move(fds)})));
    process_frames_.reset();
    ready_ = std::move(ready);
    TRY(loop_.watch(process_->pidfd(), EPOLLIN, [this](uint32_t) { ended(); }));
    control_ = TRY(rpc::Channel::make(
        loop_, std::move(control.first),
        [this](const rpc::RequestView& request, rpc::Responder responder) {
            write_flows(request, std::move(responder));
        },
        [](const Error&) {}));
    control_->call(
        "boxlite.v1.Network", "Start", spec_, kStartBudget, [this](const Result<std::string_view>& answer) {
            if (!ready_) return;
            const Ready tell = std::exchange(ready_, nullptr);
            if (!answer.ok()) return tell(answer.error());
            if (!status_.ParseFromArray(answer->data(), static_cast<int>(answer->size())))
                return tell(base::make_error(ErrorCode::kNetwork, "the network process's answer is damaged"));
            tell({});
        });
    return {};
}

v1::GuestNetwork Network::guest() const {
    v1::GuestNetwork guest;
    guest.add_addresses(fmt::format("{}/24", net::kBoxAddress));
    guest.add_addresses(fmt::format("{}/64", net::kBoxAddress6));
    if (spec_.has_private_network()) {
        const v1::NetworkMember& self = spec_.private_network().self();
        guest.add_addresses(fmt::format("{}/{}", self.address(), net::kPrivatePrefix));
        guest.add_addresses(fmt::format("{}/{}", self.address6(), net::kPrivatePrefix6));
    }
    guest.add_gateways(net::kGateway);
    guest.add_gateways(net::kGateway6);
    guest.set_mtu(net::kMtu);
    guest.set_mac(spec_.mac());
    return guest;
}

void Network::complete(v1::ContainerSpec& container) const {
    container.set_address(net::kBoxAddress);
    container.add_dns_servers(net::kGateway);
    for (const char* address : {net::kHostAlias, net::kHostAlias6}) {
        v1::HostEntry* host = container.add_hosts();
        host->set_name(net::kHostName);
        host->set_address(address);
    }
    // So that the other boxes' names alone are found there first.
    if (spec_.has_private_network()) container.add_dns_search(std::string(net::kInternalZone));
    for (const std::string& domain : dns_search_) container.add_dns_search(domain);
}

void Network::write_flows(const rpc::RequestView& request, rpc::Responder responder) {
    v1::FlowReport report;
    if (request.service != "boxlite.v1.FlowLog" ||
        !report.ParseFromArray(request.payload.data(), static_cast<int>(request.payload.size())))
        return responder.fail(base::make_error(ErrorCode::kUnsupported, "no method {}", request.method));
    std::string lines;
    for (const v1::Flow& flow : report.flows()) {
        lines += to_line(flow);
        if (!flow.allowed())
            base::log_info("refused", {{"protocol", flow.protocol()},
                                       {"name", flow.name()},
                                       {"address", flow.address()},
                                       {"port", std::to_string(flow.port())},
                                       {"rule", flow.rule()}});
    }
    if (report.missed() > 0)
        base::log_warn("flows were too many to be logged", {{"missed", std::to_string(report.missed())}});
    if (!lines.empty())
        if (const auto written = log_.append(base::as_bytes(lines)); !written.ok())
            base::log_warn("flows were not logged", {{"error", written.error().message}});
    responder.reply(v1::Empty());
}

void Network::counters(std::function<void(std::optional<v1::NetworkCounters>)> done) {
    if (!process_ || !control_->open()) return done(std::nullopt);
    control_->call(
        "boxlite.v1.Network", "Counters", v1::Empty(), kStopBudget,
        [done = std::move(done)](const Result<std::string_view>& answer) {
            v1::NetworkCounters counters;
            if (answer.ok() && counters.ParseFromArray(answer->data(), static_cast<int>(answer->size())))
                return done(counters);
            done(std::nullopt);
        });
}

void Network::update(const v1::NetworkPolicy& policy, std::function<void(const Result<void>&)> done) {
    if (!process_ || !control_->open())
        return done(base::make_error(ErrorCode::kInvalidState, "the box's network process is gone"));
    control_->call("boxlite.v1.Network", "Update", policy, kStartBudget,
                   [done = std::move(done)](const Result<std::string_view>& answer) {
                       done(answer.ok() ? Result<void>() : Result<void>(answer.error()));
                   });
}

void Network::stop(std::function<void()> done) {
    stopped_ = std::move(done);
    if (std::exchange(stopping_, true)) return;
    if (!process_) return loop_.post([this] { ended(); });
    const auto end = [this](const Result<std::string_view>&) {
        if (process_) (void)process_->signal(SIGKILL);
    };
    control_->call("boxlite.v1.Network", "Stop", v1::Empty(), kStopBudget, end);
}

void Network::ended() {
    if (process_) {
        loop_.unwatch(process_->pidfd());
        const auto status = process_->wait();
        process_.reset();
        control_->close();
        if (!stopping_)
            base::log_error("the network process has ended",
                            {{"code", std::to_string(status.ok() ? status->code : -1)},
                             {"signal", std::to_string(status.ok() ? status->signal : -1)}});
    }
    if (ready_)
        std::exchange(ready_,
                      nullptr)(base::make_error(ErrorCode::kNetwork,
                                                "the network process ended before it was ready: is libslirp "
                                                "installed? A box with `--network none` does without"));
    if (stopped_) std::exchange(stopped_, nullptr)();
}

}  // namespace boxlite::shim
