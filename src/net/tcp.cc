#include "net/tcp.h"

#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "net/dns_server.h"
#include "net/layout.h"

namespace boxlite::net {

namespace {

// What the kernel counted, also for a connection that is over.
void count(int fd, Flow& flow) {
    tcp_info info{};
    socklen_t size = sizeof info;
    if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) < 0) return;
    flow.received_bytes = info.tcpi_bytes_received;
    flow.sent_bytes = info.tcpi_bytes_sent - info.tcpi_bytes_retrans + info.tcpi_notsent_bytes;
    // The first segment that comes is the answer to ours.
    if (info.tcpi_segs_in == 0) flow.error = "no answer";
    // What is acknowledged first is our own one; a server's side does not count it.
    else if (info.tcpi_bytes_acked == 0 && !flow.incoming)
        flow.error = ::strerrordesc_np(ECONNREFUSED);
}

// A socket that reads as one whose peer has reset the connection: the other end of a pair was closed with
// something unread.
void reset_in_place(int fd) {
    auto pair = base::make_socketpair(SOCK_STREAM | SOCK_NONBLOCK);
    if (!pair.ok()) return (void)::shutdown(fd, SHUT_RDWR);
    (void)::send(pair->second.get(), "", 1, MSG_NOSIGNAL);
    (void)::dup3(pair->second.get(), fd, O_CLOEXEC);
}

}  // namespace

TcpFlows::TcpFlows(base::EventLoop& loop, const Dialing& dialing, const Placeholders& secrets, FlowLog& log,
                   Outside outside)
    : loop_(loop),
      dialing_(dialing),
      log_(log),
      secrets_(secrets),
      outside_(std::move(outside)),
      memory_(loop) {}

TcpFlows::~TcpFlows() = default;

int TcpFlows::refuse(const Endpoint& to, const Verdict& verdict) {
    log_.refuse("tcp", to, verdict.name, verdict.rule);
    errno = ECONNREFUSED;
    return -1;
}

int TcpFlows::connect(int fd, const Endpoint& to) {
    static const IpAddress gateway = *IpAddress::parse(kGateway), gateway6 = *IpAddress::parse(kGateway6);
    if ((to.address == gateway || to.address == gateway6) && to.port == DnsServer::kPort)
        return connect_dns(fd);
    const Dialing::Route route = dialing_.route(Protocol::kTcp, to);
    const Verdict& verdict = route.verdict;
    if (!verdict.allowed) return refuse(to, verdict);
    if (entries_.size() >= kMaxFlows)
        return refuse(to, {false, fmt::format("{} connections are open", kMaxFlows), verdict.name, false});
    Entry& entry = entries_[fd];
    memory_.settle(entries_.size());
    entry.flow = log_.open(Protocol::kTcp, to, verdict);
    entry.by_name = dialing_.policy().goes_by_names() && !verdict.name.empty() && verdict.by_name;
    entry.by_request = verdict.by_request;
    if (route.proxy || is_looked_into(entry)) return inspect(fd, entry, route);
    const SocketAddress address(route.to);
    const int result = ::connect(fd, address.get(), address.length);
    if (result < 0 && errno != EINPROGRESS) {
        // The stack is about to close it, and to tell the box.
        entry.flow.error = ::strerrordesc_np(errno);
        if (errno == ECONNRESET) errno = ECONNREFUSED;
    }
    return result;
}

int TcpFlows::connect_dns(int fd) {
    auto pair = base::make_socketpair(SOCK_STREAM | SOCK_NONBLOCK);
    if (!pair.ok() || ::dup3(pair->second.get(), fd, O_CLOEXEC) < 0) {
        errno = ECONNREFUSED;
        return -1;
    }
    outside_.serve_dns(std::move(pair->first));
    return 0;
}

int TcpFlows::inspect(int fd, Entry& entry, const Dialing::Route& route) {
    std::optional<ProxyHandshake> proxy;
    if (route.proxy) proxy.emplace(route.target, route.proxy->authorization);
    auto made =
        Inspection::start(loop_, fd, route.proxy ? route.proxy->addresses : std::vector<Endpoint>{route.to},
                          std::move(proxy), handlers(fd, entry));
    if (!made.ok()) {
        entry.flow.error = made.error().message;
        errno = ENETUNREACH;
        return -1;
    }
    entry.inspection = std::move(made).value();
    errno = EINPROGRESS;
    return -1;
}

// The entry is where it is for as long as the inspection lives; what is refused may be told later.
Inspection::Handlers TcpFlows::handlers(int fd, Entry& entry) {
    Flow& flow = entry.flow;
    const auto refused = [this, to = entry.flow.peer, name = entry.flow.name](const std::string& why) {
        log_.refuse("tcp", to, name, why);
    };
    return {
        .check = [this, &entry](const std::string& host) { return check_host(entry, host); },
        .check_request = [this, &entry](const HttpHead& head) { return check_request(entry, head); },
        .is_intercepted =
            [this, port = flow.peer.port](const std::string& host) {
                return secrets_.any_for(host) || dialing_.policy().looks_at(host, port, true);
            },
        .intercept = [this, &entry, refused, port = flow.peer.port](const std::string& host, base::Fd inside,
                                                                    const base::Fd& outside) -> Result<void> {
            if (!outside_.interceptor)
                return base::make_error(
                    ErrorCode::kInvalidState,
                    "what goes over TLS can be looked at when the box has been started again");
            return outside_.interceptor->take(host, port, is_by_request(entry, host), std::move(inside),
                                              outside, refused);
        },
        .renew = [this, fd] { outside_.renew(fd); },
        .refused = refused,
        .failed = [&flow](const std::string& why) { flow.error = why; },
        .reset =
            [this, fd] {
                reset_in_place(fd);
                outside_.renew(fd);
            },
        .strict = entry.by_name || dialing_.policy().has_http_rules(),
        .looks = is_looked_into(entry),
        .http_only = [this, &entry](const std::string& host) { return is_by_request(entry, host); },
    };
}

bool TcpFlows::is_looked_into(const Entry& entry) const {
    return entry.by_name || !secrets_.empty() || dialing_.policy().has_http_rules();
}

// Several names may share an address, with rules of different kinds.
bool TcpFlows::is_by_request(const Entry& entry, const std::string& host) const {
    if (!entry.by_name || host.empty()) return entry.by_request;
    return dialing_.verdict_for(entry.flow.peer, host).by_request;
}

std::string TcpFlows::check_host(const Entry& entry, const std::string& host) const {
    const Flow& flow = entry.flow;
    if (!entry.by_name || dialing_.verdict_for(flow.peer, host).allowed) return {};
    return fmt::format("it goes to '{}' and asks for '{}'", flow.name, host);
}

std::string TcpFlows::check_request(const Entry& entry, const HttpHead& head) const {
    if (std::string why = check_host(entry, head.host); !why.empty()) return why;
    if (const SecretName* secret = secrets_.find_in_head(head.text))
        return secret->describe() + ", and goes over TLS only";
    const Verdict verdict = dialing_.policy().request({.host = head.host,
                                                       .port = entry.flow.peer.port,
                                                       .method = head.method,
                                                       .target = head.target,
                                                       .by_request = is_by_request(entry, head.host)});
    return verdict.allowed ? std::string() : verdict.rule;
}

bool TcpFlows::is_unseen(const Entry& entry, const Verdict& verdict) const {
    if (entry.inspection && (entry.inspection->dialling() || entry.inspection->looks_on()))
        return verdict.by_request != entry.by_request;
    const Flow& flow = entry.flow;
    const std::string host = flow.name.empty() ? flow.peer.address.to_string() : flow.name;
    const Policy& policy = dialing_.policy();
    return verdict.by_request || policy.looks_at(host, flow.peer.port, true) ||
           policy.looks_at(host, flow.peer.port, false);
}

bool TcpFlows::on_hold(int fd) {
    const auto found = entries_.find(fd);
    return found != entries_.end() && found->second.inspection && found->second.inspection->dialling();
}

void TcpFlows::recheck() {
    for (auto& [fd, entry] : entries_) {
        Flow& flow = entry.flow;
        if (flow.incoming) continue;
        const Verdict verdict = dialing_.route(Protocol::kTcp, flow.peer).verdict;
        if (verdict.allowed && !is_unseen(entry, verdict)) {
            flow.rule = verdict.rule;
            continue;
        }
        log_.refuse("tcp", flow.peer, flow.name, verdict.rule);
        flow.error = "the rules were changed";
        flow.refused = true;
        count(fd, flow);
        entry.inspection.reset();
        // The stack finds a connection that was reset in its place.
        reset_in_place(fd);
        outside_.renew(fd);
    }
}

void TcpFlows::accepted(int fd) {
    sockaddr_storage storage;
    socklen_t length = sizeof storage;
    auto* address = reinterpret_cast<sockaddr*>(&storage);
    if (::getpeername(fd, address, &length) < 0) return;
    const auto peer = endpoint_of(address);
    if (!peer) return;
    socklen_t size = sizeof storage;
    const auto local =
        ::getsockname(fd, address, &size) == 0 ? endpoint_of(address) : std::optional<Endpoint>();
    Entry& entry = entries_[fd];
    memory_.settle(entries_.size());
    entry.flow = log_.open(Protocol::kTcp, *peer,
                           {true, fmt::format("published port {}", local ? local->port : 0), {}, false});
    entry.flow.incoming = true;
}

void TcpFlows::closed(int fd) {
    const auto found = entries_.find(fd);
    if (found == entries_.end()) return;
    Flow& flow = found->second.flow;
    const auto& inspection = found->second.inspection;
    if (flow.error.empty()) {
        count(inspection && inspection->outside() >= 0 ? inspection->outside() : fd, flow);
        if (inspection && inspection->proxy()) {
            flow.sent_bytes -= std::min(flow.sent_bytes, inspection->proxy()->sent_bytes());
            flow.received_bytes -= std::min(flow.received_bytes, inspection->proxy()->received_bytes());
        }
    }
    found->second.inspection.reset();
    log_.close(flow);
    entries_.erase(found);
    memory_.settle(entries_.size());
}

}  // namespace boxlite::net
