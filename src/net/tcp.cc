#include "net/tcp.h"

#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

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

TcpFlows::TcpFlows(base::EventLoop& loop, const Dialing& dialing, FlowLog& log,
                   std::function<void(base::Fd)> serve_dns, std::function<void(int fd)> renew)
    : loop_(loop), dialing_(dialing), log_(log), serve_dns_(std::move(serve_dns)), renew_(std::move(renew)) {}

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
    const auto [verdict, real] = dialing_.route(Protocol::kTcp, to);
    if (!verdict.allowed) return refuse(to, verdict);
    if (entries_.size() >= kMaxFlows)
        return refuse(to, {false, fmt::format("{} connections are open", kMaxFlows), verdict.name, false});
    Entry& entry = entries_[fd];
    entry.flow = log_.open(Protocol::kTcp, to, verdict);
    if (dialing_.policy().goes_by_names() && !verdict.name.empty() && verdict.by_name)
        return inspect(fd, entry, real);
    const SocketAddress address(real);
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
    serve_dns_(std::move(pair->first));
    return 0;
}

int TcpFlows::inspect(int fd, Entry& entry, const Endpoint& to) {
    const auto& policy = dialing_.policy();
    auto made =
        Inspection::start(loop_, fd, to,
                          {.may_go =
                               [&policy, to](const std::string& host) {
                                   return policy.connect(Protocol::kTcp, to, {host}).allowed;
                               },
                           .name = entry.flow.name,
                           .renew = [this, fd] { renew_(fd); },
                           .refused = [this, to, name = entry.flow.name](
                                          const std::string& why) { log_.refuse("tcp", to, name, why); },
                           .reset =
                               [this, fd] {
                                   reset_in_place(fd);
                                   renew_(fd);
                               }});
    if (!made.ok()) {
        entry.flow.error = made.error().message;
        errno = ENETUNREACH;
        return -1;
    }
    entry.inspection = std::move(made).value();
    errno = EINPROGRESS;
    return -1;
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
        if (verdict.allowed) {
            flow.rule = verdict.rule;
            continue;
        }
        log_.refuse("tcp", flow.peer, flow.name, verdict.rule);
        flow.error = "the rules were changed";
        count(fd, flow);
        entry.inspection.reset();
        // The stack finds a connection that was reset in its place.
        reset_in_place(fd);
        renew_(fd);
    }
}

// libslirp answers those to its own addresses itself.
bool TcpFlows::may_echo(const IpAddress& to) {
    const auto [verdict, real] = dialing_.route(Protocol::kIcmp, {to, 0});
    if (!verdict.allowed) log_.refuse("icmp", {to, 0}, verdict.name, verdict.rule);
    return verdict.allowed;
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
    entry.flow = log_.open(Protocol::kTcp, *peer,
                           {true, fmt::format("published port {}", local ? local->port : 0), {}, false});
    entry.flow.incoming = true;
}

void TcpFlows::closed(int fd) {
    const auto found = entries_.find(fd);
    if (found == entries_.end()) return;
    Flow& flow = found->second.flow;
    const auto& inspection = found->second.inspection;
    if (flow.error.empty())
        count(inspection && inspection->outside() >= 0 ? inspection->outside() : fd, flow);
    found->second.inspection.reset();
    log_.close(flow);
    entries_.erase(found);
}

}  // namespace boxlite::net
