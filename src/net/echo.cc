#include "net/echo.h"

#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

namespace boxlite::net {

namespace {

constexpr std::chrono::seconds kIdle{30};
constexpr size_t kMaxMessage = 65535;
constexpr int kBurst = 32;
// Of an echo's header: type, code, checksum, identifier.
constexpr size_t kIdAt = 4;

}  // namespace

Echoes::Echoes(base::EventLoop& loop, const Dialing& dialing, FlowLog& log,
               std::function<void(base::ByteView)> send)
    : loop_(loop),
      dialing_(dialing),
      log_(log),
      send_(std::move(send)),
      entries_(
          loop, kMaxFlows, kIdle, [](const Entry&) { return kIdle; },
          [this](Entry& entry) {
              loop_.unwatch(entry.socket.get());
              log_.close(entry.flow);
          }),
      buffer_(kMaxMessage) {}

void Echoes::input(const IpPacket& ip) {
    if (ip.payload.size() < kIcmpHeader) return;
    const Key key{ip.source, ip.destination, base::load_be<uint16_t>(ip.payload.data() + kIdAt)};
    Entry* entry = entries_.use(key);
    if (!entry) entry = open(key, ip);
    if (!entry) return;
    // The kernel puts its own identifier and checksum into it.
    const ssize_t n = ::send(entry->socket.get(), ip.payload.data(), ip.payload.size(), MSG_NOSIGNAL);
    if (n >= 0) {
        entry->flow.sent_bytes += ip.payload.size() - kIcmpHeader;
        return;
    }
    if (errno == EAGAIN || errno == ENOBUFS) return;  // lost, as packets may be
    entry->flow.error = ::strerrordesc_np(errno);
    if (const auto told = unreachable_frame(ip, Unreachable::kHost)) send_(*told);
    entries_.close(key);
}

Echoes::Entry* Echoes::open(const Key& key, const IpPacket& ip) {
    const auto refuse = [&](Unreachable why) -> Entry* {
        if (const auto told = unreachable_frame(ip, why)) send_(*told);
        return nullptr;
    };
    const auto [verdict, to, proxy, target] = dialing_.route(Protocol::kIcmp, {key.peer, 0});
    if (!verdict.allowed) {
        log_.refuse(protocol_name(Protocol::kIcmp), {key.peer, 0}, verdict.name, verdict.rule);
        return refuse(Unreachable::kProhibited);
    }
    const SocketAddress address(to);
    base::Fd socket(::socket(address.family(), SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC,
                             key.peer.is_v4() ? int{IPPROTO_ICMP} : int{IPPROTO_ICMPV6}));
    if (!socket.valid() || ::connect(socket.get(), address.get(), address.length) < 0 ||
        !loop_.watch(socket.get(), EPOLLIN, [this, key](uint32_t) { receive(key); }).ok())
        return refuse(Unreachable::kHost);
    return &entries_.insert(
        key, {log_.open(Protocol::kIcmp, {key.peer, 0}, verdict), std::move(socket), ip.sender});
}

void Echoes::receive(const Key& key) {
    Entry* entry = entries_.use(key);
    if (!entry) return;
    for (int i = 0; i < kBurst; ++i) {
        const ssize_t n = ::recv(entry->socket.get(), buffer_.data(), buffer_.size(), 0);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
        if (n < 0) {
            entry->flow.error = ::strerrordesc_np(errno);
            return entries_.close(Key(key));
        }
        const auto size = static_cast<size_t>(n);
        if (size < kIcmpHeader) continue;
        entry->flow.received_bytes += size - kIcmpHeader;
        send_(echo_answer(key.peer, key.box, key.id, {buffer_.data(), size}, entry->box));
    }
}

void Echoes::recheck() {
    entries_.close_if([this](const Key& key, Entry& entry) {
        if (dialing_.route(Protocol::kIcmp, {key.peer, 0}).verdict.allowed) return false;
        entry.flow.error = "the rules were changed";
        return true;
    });
}

}  // namespace boxlite::net
