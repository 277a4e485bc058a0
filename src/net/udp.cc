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
    : loop_(loop), dialing_(dialing), log_(log), box_(box), send_(std::move(send)), buffer_(kMaxDatagram) {}

UdpFlows::~UdpFlows() {
    for (auto& [key, entry] : entries_)
        if (entry.socket.valid()) loop_.unwatch(entry.socket.get());
    for (const base::Fd& socket : published_) loop_.unwatch(socket.get());
    if (timer_) loop_.cancel(timer_);
}

void UdpFlows::input(const Datagram& datagram, const IpPacket& ip) {
    const Key key{datagram.source, datagram.destination};
    const auto found = entries_.find(key);
    Entry* entry = found == entries_.end() ? open(key, ip) : &found->second;
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
    if (entries_.size() >= kMaxFlows) close(Key(order_.front()));
    Entry entry;
    entry.flow = log_.open(Protocol::kUdp, key.peer, verdict);
    entry.socket = std::move(socket);
    entry.refusal = unreachable_frame(ip, Unreachable::kPort);
    entry.order = order_.insert(order_.end(), key);
    entry.active_at = base::Clock::now();
    Entry& stored = entries_.emplace(key, std::move(entry)).first->second;
    if (!timer_) timer_ = loop_.after(kUnanswered, [this] { expire(); });
    return &stored;
}

void UdpFlows::touch(Entry& entry) {
    entry.active_at = base::Clock::now();
    order_.splice(order_.end(), order_, entry.order);
}

void UdpFlows::transmit(const Key& key, Entry& entry, const Datagram& datagram, const IpPacket& ip) {
    touch(entry);
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
    close(Key(key));
}

void UdpFlows::receive(const Key& key) {
    const auto found = entries_.find(key);
    if (found == entries_.end()) return;
    Entry& entry = found->second;
    for (int i = 0; i < kBurst; ++i) {
        const ssize_t n = ::recv(entry.socket.get(), buffer_.data(), buffer_.size(), 0);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
        if (n < 0) {
            if (errno == ECONNREFUSED && entry.refusal) send_(*entry.refusal);
            entry.flow.error = ::strerrordesc_np(errno);
            return close(Key(key));
        }
        entry.answered = true;
        entry.flow.received_bytes += static_cast<uint64_t>(n);
        touch(entry);
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
        auto found = entries_.find(key);
        if (found == entries_.end()) {
            if (entries_.size() >= kMaxFlows) close(Key(order_.front()));
            Entry entry;
            entry.flow = log_.open(Protocol::kUdp, *real,
                                   {true, fmt::format("published port {}", box_port), {}, false});
            entry.flow.incoming = true;
            entry.published = fd;
            entry.real_peer = *real;
            entry.order = order_.insert(order_.end(), key);
            found = entries_.emplace(key, std::move(entry)).first;
            if (!timer_) timer_ = loop_.after(kUnanswered, [this] { expire(); });
        }
        found->second.answered = true;
        found->second.flow.received_bytes += static_cast<uint64_t>(n);
        touch(found->second);
        send_(udp_frame({key.peer, key.box, {buffer_.data(), static_cast<size_t>(n)}}, box_));
    }
}

void UdpFlows::recheck() {
    std::vector<Key> refused;
    for (auto& [key, entry] : entries_) {
        if (entry.published >= 0) continue;
        const Verdict verdict = dialing_.route(Protocol::kUdp, key.peer).verdict;
        if (verdict.allowed) continue;
        log_.refuse("udp", key.peer, entry.flow.name, verdict.rule);
        entry.flow.error = "the rules were changed";
        refused.push_back(key);
    }
    for (const Key& key : refused) close(key);
}

void UdpFlows::close(const Key& key) {
    const auto found = entries_.find(key);
    if (found == entries_.end()) return;
    Entry& entry = found->second;
    if (entry.socket.valid()) loop_.unwatch(entry.socket.get());
    log_.close(entry.flow);
    order_.erase(entry.order);
    entries_.erase(found);
}

void UdpFlows::expire() {
    timer_ = 0;
    const auto now = base::Clock::now();
    for (auto it = order_.begin(); it != order_.end();) {
        const Key key = *it++;
        const Entry& entry = entries_.at(key);
        if (now - entry.active_at < kUnanswered) break;
        if (now - entry.active_at >= (entry.answered ? kIdle : kUnanswered)) close(key);
    }
    if (!entries_.empty()) timer_ = loop_.after(kUnanswered, [this] { expire(); });
}

}  // namespace boxlite::net
