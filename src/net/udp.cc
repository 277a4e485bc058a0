#include "net/udp.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include "net/layout.h"

namespace boxlite::net {

namespace {

using std::chrono::seconds;

// As NATs do (RFC 4787, REQ-5), and less for what was never answered.
constexpr seconds kIdle{180}, kUnanswered{30};
constexpr size_t kMaxDatagram = 65535;
constexpr int kBurst = 32;

Unreachable reason(int error) {
    if (error == ECONNREFUSED) return Unreachable::kPort;
    return error == EACCES || error == EPERM ? Unreachable::kProhibited : Unreachable::kHost;
}

}  // namespace

UdpFlows::UdpFlows(base::EventLoop& loop, const Dialing& dialing, FlowLog& log, const MacAddress& box,
                   std::function<void(base::ByteView)> send)
    : loop_(loop),
      dialing_(dialing),
      log_(log),
      box_(box),
      send_(std::move(send)),
      entries_(
          loop, kMaxFlows, kUnanswered,
          [](const Entry& entry) { return entry.answered ? kIdle : kUnanswered; },
          [this](Entry& entry) {
              if (entry.socket.valid()) loop_.unwatch(entry.socket.get());
              log_.close(entry.flow);
          }),
      buffer_(kMaxDatagram) {}

UdpFlows::~UdpFlows() {
    for (const base::Fd& socket : published_) loop_.unwatch(socket.get());
}

void UdpFlows::input(const Datagram& datagram, const IpPacket& ip) {
    const Key key{datagram.source, datagram.destination};
    Entry* entry = entries_.use(key);
    if (!entry) entry = open(key, ip);
    if (entry) transmit(key, *entry, datagram, ip);
}

UdpFlows::Entry* UdpFlows::open(const Key& key, const IpPacket& ip) {
    const auto refuse = [&](Unreachable why) -> Entry* {
        if (const auto told = unreachable_frame(ip, why)) send_(*told);
        return nullptr;
    };
    const auto [verdict, to, proxy, target] = dialing_.route(Protocol::kUdp, key.peer);
    if (!verdict.allowed) {
        log_.refuse("udp", key.peer, verdict.name, verdict.rule);
        return refuse(Unreachable::kProhibited);
    }
    const SocketAddress address(to);
    base::Fd socket(::socket(address.family(), SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!socket.valid() || ::connect(socket.get(), address.get(), address.length) < 0)
        return refuse(Unreachable::kHost);
    if (!loop_.watch(socket.get(), EPOLLIN, [this, key](uint32_t) { receive(key); }).ok())
        return refuse(Unreachable::kHost);
    Entry entry;
    entry.flow = log_.open(Protocol::kUdp, key.peer, verdict);
    entry.socket = std::move(socket);
    entry.refusal = unreachable_frame(ip, Unreachable::kPort);
    return &entries_.insert(key, std::move(entry));
}

void UdpFlows::transmit(const Key& key, Entry& entry, const Datagram& datagram, const IpPacket& ip) {
    ssize_t n;
    if (entry.published >= 0) {
        const SocketAddress to(entry.real_peer);
        n = ::sendto(entry.published, datagram.payload.data(), datagram.payload.size(), MSG_NOSIGNAL,
                     to.get(), to.length);
    } else {
        n = ::send(entry.socket.get(), datagram.payload.data(), datagram.payload.size(), MSG_NOSIGNAL);
    }
    if (n >= 0) {
        entry.flow.sent_bytes += static_cast<uint64_t>(n);
        return;
    }
    if (errno == EAGAIN || errno == ENOBUFS) return;  // lost, as datagrams may be
    if (const auto told = unreachable_frame(ip, reason(errno))) send_(*told);
    entry.flow.error = ::strerrordesc_np(errno);
    entries_.close(key);
}

void UdpFlows::receive(const Key& key) {
    Entry* entry = entries_.use(key);
    if (!entry) return;
    for (int i = 0; i < kBurst; ++i) {
        const ssize_t n = ::recv(entry->socket.get(), buffer_.data(), buffer_.size(), 0);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
        if (n < 0) {
            if (errno == ECONNREFUSED && entry->refusal) send_(*entry->refusal);
            entry->flow.error = ::strerrordesc_np(errno);
            return entries_.close(Key(key));
        }
        entry->answered = true;
        entry->flow.received_bytes += static_cast<uint64_t>(n);
        send_(udp_frame({key.peer, key.box, {buffer_.data(), static_cast<size_t>(n)}}, box_));
    }
}

Result<void> UdpFlows::publish(base::Fd socket, uint16_t box_port) {
    const int fd = socket.get();
    published_.push_back(std::move(socket));
    return loop_.watch(fd, EPOLLIN, [this, fd, box_port](uint32_t) { receive_published(fd, box_port); });
}

// The box sees the peer's own address, and the gateway in place of the host's loopback.
void UdpFlows::receive_published(int fd, uint16_t box_port) {
    for (int i = 0; i < kBurst; ++i) {
        sockaddr_storage storage;
        socklen_t length = sizeof storage;
        auto* address = reinterpret_cast<sockaddr*>(&storage);
        const ssize_t n = ::recvfrom(fd, buffer_.data(), buffer_.size(), 0, address, &length);
        if (n < 0) return;
        const auto real = endpoint_of(address);
        if (!real) continue;
        Endpoint peer = *real;
        const char* use = special_use(peer.address);
        if (!peer.address.is_v4() || (use && std::string_view(use) == "loopback"))
            peer.address = *IpAddress::parse(kGateway);
        const Key key{{*IpAddress::parse(kBoxAddress), box_port}, peer};
        Entry* entry = entries_.use(key);
        if (!entry) {
            Entry opened;
            opened.flow = log_.open(Protocol::kUdp, *real,
                                    {true, fmt::format("published port {}", box_port), {}, false});
            opened.flow.incoming = true;
            opened.published = fd;
            opened.real_peer = *real;
            entry = &entries_.insert(key, std::move(opened));
        }
        entry->answered = true;
        entry->flow.received_bytes += static_cast<uint64_t>(n);
        send_(udp_frame({key.peer, key.box, {buffer_.data(), static_cast<size_t>(n)}}, box_));
    }
}

void UdpFlows::recheck() {
    entries_.close_if([this](const Key& key, Entry& entry) {
        if (entry.published >= 0) return false;
        const Verdict verdict = dialing_.route(Protocol::kUdp, key.peer).verdict;
        if (verdict.allowed) return false;
        log_.refuse("udp", key.peer, entry.flow.name, verdict.rule);
        entry.flow.error = "the rules were changed";
        return true;
    });
}

}  // namespace boxlite::net
