#include "net/service.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include "base/log.h"
#include "jail/confine_netd.h"
#include "net/layout.h"
#include "net/spec.h"
#include "rpc/parse.h"

namespace boxlite::net {

namespace {

constexpr uint16_t kDhcpServer = 67, kDhcpV6Server = 547;

Result<base::Fd> bind_port(v1::PortMapping& port) {
    const auto address = IpAddress::parse(port.host_address());
    if (!address)
        return base::make_error(ErrorCode::kInvalidArgument, "'{}' is no address to publish a port on",
                                port.host_address());
    const Endpoint wanted{*address, static_cast<uint16_t>(port.host_port())};
    SocketAddress local(wanted);
    base::Fd socket(
        ::socket(local.family(), (port.udp() ? SOCK_DGRAM : SOCK_STREAM) | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!socket.valid()) return base::errno_error(ErrorCode::kNetwork, "make a socket");
    const int on = 1;
    if (!address->is_v4()) (void)::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    if (!port.udp()) (void)::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (::bind(socket.get(), local.get(), local.length) < 0)
        return base::errno_error(errno == EADDRINUSE ? ErrorCode::kAlreadyExists : ErrorCode::kNetwork,
                                 "publish port {} of the box on {}", port.box_port(), wanted.to_string());
    if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&local.storage), &local.length) == 0)
        if (const auto bound = endpoint_of(local.get())) port.set_host_port(bound->port);
    return socket;
}

void add_jail(v1::NetworkStatus& status, const jail::JailReport& report) {
    for (const std::string& part : report.applied) status.add_jail(fmt::format("network: {}", part));
    for (const auto& part : report.missing)
        status.add_jail(fmt::format("network: missing: {} ({})", part.what, part.why));
}

}  // namespace

Result<std::unique_ptr<Service>> Service::make(base::EventLoop& loop, base::Fd frames, base::Fd control,
                                               std::unique_ptr<Interceptor> interceptor, Proxies proxies) {
    std::unique_ptr<Service> self(
        new Service(loop, std::move(frames), std::move(interceptor), std::move(proxies)));
    self->control_ = TRY(rpc::Channel::make(
        loop, std::move(control),
        [raw = self.get()](const rpc::RequestView& request, rpc::Responder responder) {
            raw->handle(request, std::move(responder));
        },
        [&loop](const Error&) { loop.stop(); }));
    return self;
}

Service::~Service() = default;

void Service::handle(const rpc::RequestView& request, rpc::Responder responder) {
    if (request.service == "boxlite.v1.Network" && request.method == "Start") {
        v1::NetworkSpec spec;
        if (!rpc::parse(request, spec, responder)) return;
        const auto status = start(spec);
        if (!status.ok()) return responder.fail(status.error());
        return responder.reply(*status);
    }
    if (request.service == "boxlite.v1.Network" && request.method == "Counters")
        return responder.reply(counters());
    if (request.service == "boxlite.v1.Network" && request.method == "Update") {
        v1::NetworkPolicy rules;
        if (!rpc::parse(request, rules, responder)) return;
        if (const auto updated = update(rules); !updated.ok()) return responder.fail(updated.error());
        return responder.reply(v1::Empty());
    }
    if (request.service == "boxlite.v1.Network" && request.method == "Stop") {
        stop();
        return responder.reply(v1::Empty());
    }
    responder.fail(
        base::make_error(ErrorCode::kUnsupported, "no method {}.{}", request.service, request.method));
}

Result<v1::NetworkStatus> Service::start(const v1::NetworkSpec& spec) {
    if (port_) return base::make_error(ErrorCode::kInvalidState, "the network has been started before");
    const auto mac = mac_from(spec.mac());
    if (!mac)
        return base::make_error(ErrorCode::kInvalidArgument, "the box's network interface has no address");
    box_.emplace(*mac);
    policy_ = TRY(parse_rules(spec.policy()));
    secrets_ = Placeholders(TRY(secret_names(spec.secrets())));
    log_ = std::make_unique<FlowLog>(loop_, [this](const v1::FlowReport& report) {
        control_->call("boxlite.v1.FlowLog", "Report", report, {}, [](const Result<std::string_view>&) {});
    });
    const ResolverConfig resolver = ResolverConfig::load();
    resolver_ = std::make_unique<HostResolver>(loop_, resolver);
    dialing_.emplace(policy_, pins_, proxies_, stand_ins_);
    dns_ = std::make_unique<DnsServer>(loop_, policy_, pins_, *log_, *resolver_,
                                       DnsServer::Unresolved{proxies_, stand_ins_, resolver.search},
                                       spec.hostname());
    port_ = std::make_unique<FramePort>(
        loop_, std::move(frames_),
        FramePort::Rates{spec.sent_bytes_per_second(), spec.received_bytes_per_second()},
        FramePort::Handlers{
            .frame = [this](base::ByteView bytes) { frame(bytes); },
            .writable = [this] { stack_->let_read(true); },
            .closed = [this] { loop_.stop(); },
        });
    const auto send = [this](base::ByteView bytes) {
        port_->send(bytes);
        if (port_->congested()) stack_->let_read(false);
    };
    tcp_ = std::make_unique<TcpFlows>(
        loop_, *dialing_, secrets_, *log_,
        TcpFlows::Outside{[this](base::Fd stream) { dns_->serve(std::move(stream)); },
                          [this](int fd) { stack_->renew(fd); }, interceptor_.get()});
    stack_ = std::make_unique<Stack>(loop_, *tcp_, *box_, send);
    udp_ = std::make_unique<UdpFlows>(loop_, *dialing_, *log_, box_->mac, send);
    echoes_ = std::make_unique<Echoes>(loop_, *dialing_, *log_, send);
    TRY(stack_->start());
    if (spec.has_private_network()) {
        private_network_ = TRY(PrivateNetwork::join(loop_, spec.private_network(), policy_, *log_, send));
        dns_->use(private_network_.get());
    }
    v1::NetworkStatus status;
    TRY(publish(spec, status));
    jail::NetdConfinement confinement;
    confinement.uid = jail::box_uid(spec.box_id());
    confinement.strict = spec.strict_jail();
    add_jail(status, TRY(jail::confine_netd(confinement)));
    TRY(port_->start());
    return status;
}

Result<void> Service::update(const v1::NetworkPolicy& rules) {
    if (!stack_) return base::make_error(ErrorCode::kInvalidState, "the network is not running");
    policy_ = TRY(parse_rules(rules));
    tcp_->recheck();
    udp_->recheck();
    echoes_->recheck();
    if (private_network_) private_network_->recheck();
    return {};
}

Result<Policy> Service::parse_rules(const v1::NetworkPolicy& rules) const {
    Policy policy = TRY(Policy::parse(policy_text(rules)));
    if (policy.has_https_rules() && !interceptor_)
        return base::make_error(
            ErrorCode::kInvalidState,
            "the box was started without rules about https requests, and has to be started again "
            "for them");
    return policy;
}

// The records of all that is open go out before the answer.
void Service::stop() {
    udp_.reset();
    echoes_.reset();
    stack_.reset();
    dns_.reset();
    private_network_.reset();
    resolver_.reset();
    port_.reset();
    if (log_) log_->flush();
}

Result<void> Service::publish(const v1::NetworkSpec& spec, v1::NetworkStatus& status) {
    for (const v1::PortMapping& wanted : spec.ports()) {
        v1::PortMapping port = wanted;
        base::Fd socket = TRY(bind_port(port));
        const auto box_port = static_cast<uint16_t>(port.box_port());
        TRY(port.udp() ? udp_->publish(std::move(socket), box_port)
                       : stack_->publish(std::move(socket), box_port));
        *status.add_ports() = port;
    }
    return {};
}

// What is for other boxes goes to them, UDP and echoes are taken out, but for what configures the box; the
// stack gets the rest, as far as it is sound.
void Service::frame(base::ByteView bytes) {
    if (bytes.size() < kEthernetHeader) return;
    const auto ip = parse_ip(bytes);
    if (ip && ip->fragment) {
        if (ip->sender != box_->mac) return;
        if (const auto whole = reassembly_.add(bytes, *ip, base::Clock::now())) frame(*whole);
        return;
    }
    if (private_network_ && private_network_->take(bytes, ip ? &*ip : nullptr)) return;
    const auto type = base::load_be<uint16_t>(bytes.data() + 12);
    if (type != kTypeV4 && type != kTypeV6) {
        if (type == kTypeArp && is_for_stack(bytes, nullptr, *box_)) stack_->input(bytes, nullptr);
        return;
    }
    if (!ip || !is_for_stack(bytes, &*ip, *box_)) return;
    static const IpAddress gateway = *IpAddress::parse(kGateway), gateway6 = *IpAddress::parse(kGateway6),
                           alias = *IpAddress::parse(kHostAlias), alias6 = *IpAddress::parse(kHostAlias6);
    const IpAddress& to_whom = ip->destination;
    const bool ours = to_whom == gateway || to_whom == gateway6 || to_whom == alias || to_whom == alias6;
    // The stack answers for its own addresses.
    if (is_echo_request(*ip) && !ours) return echoes_->input(*ip);
    if (ip->protocol != IPPROTO_UDP) return stack_->input(bytes, &*ip);
    const auto datagram = parse_udp(*ip);
    if (!datagram) return;
    const Endpoint& to = datagram->destination;
    if (to.port == (ip->source.is_v4() ? kDhcpServer : kDhcpV6Server)) return stack_->input(bytes, &*ip);
    if (!ours || to.port != DnsServer::kPort) return udp_->input(*datagram, *ip);
    dns_->query(datagram->payload, false, [this, from = to, back = datagram->source](base::ByteView answer) {
        port_->send(udp_frame({from, back, answer}, box_->mac));
    });
}

v1::NetworkCounters Service::counters() const {
    v1::NetworkCounters counters;
    if (!port_) return counters;
    counters.set_sent_bytes(port_->received_bytes());
    counters.set_received_bytes(port_->sent_bytes());
    counters.set_open_flows(log_->open_flows());
    counters.set_total_flows(log_->total_flows());
    counters.set_refused(log_->refused());
    counters.set_open_tcp(log_->open_tcp());
    counters.set_tcp_errors(log_->tcp_errors());
    return counters;
}

}  // namespace boxlite::net
