#include "net/dialing.h"

#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "net/layout.h"

namespace boxlite::net {

namespace {

bool can_bind(const IpAddress& address) {
    const SocketAddress local({address, 0});
    const base::Fd probe(::socket(local.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
    return probe.valid() && ::bind(probe.get(), local.get(), local.length) == 0;
}

// An address that a socket can be bound to is one of the host's, but on a host that lets them be bound to any
// (net.ipv4.ip_nonlocal_bind): nobody has the address that is for documentation only.
bool is_of_this_host(const IpAddress& address) {
    const char* nobodys = address.is_v4() ? "192.0.2.1" : "2001:db8::1";
    return can_bind(address) && !can_bind(*IpAddress::parse(nobodys));
}

}  // namespace

Dialing::Route Dialing::route(Protocol protocol, const Endpoint& wanted) const {
    static const IpAddress alias = *IpAddress::parse(kHostAlias), alias6 = *IpAddress::parse(kHostAlias6);
    static const Prefix subnet = *Prefix::parse(kSubnet), subnet6 = *Prefix::parse(kSubnet6);
    if (wanted.address == alias || wanted.address == alias6)
        return {policy_.connect_host(protocol, wanted.port),
                {*IpAddress::parse(wanted.address.is_v4() ? "127.0.0.1" : "::1"), wanted.port}};
    if (subnet.contains(wanted.address) || subnet6.contains(wanted.address))
        return {{false, "nobody has this address in the box's network", {}, false}, wanted};
    Verdict verdict = policy_.connect(protocol, wanted, pins_.names(wanted.address));
    if (verdict.name.empty())
        if (const auto& names = pins_.names(wanted.address); !names.empty()) verdict.name = names.back();
    if (verdict.allowed && is_of_this_host(wanted.address))
        verdict = {false,
                   fmt::format("default: the host's own addresses are closed; {} is the way", kHostName),
                   {},
                   false};
    return {std::move(verdict), wanted};
}

}  // namespace boxlite::net
