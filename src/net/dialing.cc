#include "net/dialing.h"

#include <fmt/format.h>
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
    if (const std::string* name = stand_ins_.name_of(wanted.address)) return by_name(protocol, wanted, *name);
    Verdict verdict = policy_.connect(protocol, wanted, pins_.names(wanted.address));
    if (verdict.name.empty())
        if (const auto& names = pins_.names(wanted.address); !names.empty()) verdict.name = names.back();
    if (verdict.allowed && is_of_this_host(wanted.address))
        verdict = {false,
                   fmt::format("default: the host's own addresses are closed; {} is the way", kHostName),
                   {},
                   false};
    if (verdict.allowed && verdict.is_public && proxies_.listens_at(wanted))
        verdict = {false, "default: the host's proxy is closed", {}, false};
    Route route{std::move(verdict), wanted};
    return protocol == Protocol::kTcp && route.verdict.allowed ? through_proxy(std::move(route)) : route;
}

Verdict Dialing::verdict_for(const Endpoint& peer, const std::string& host) const {
    return stand_ins_.name_of(peer.address) ? policy_.connect_name(Protocol::kTcp, peer.port, host)
                                            : policy_.connect(Protocol::kTcp, peer, {host});
}

// There is an address of it only behind the proxy.
Dialing::Route Dialing::by_name(Protocol protocol, const Endpoint& wanted, const std::string& name) const {
    Route route{policy_.connect_name(protocol, wanted.port, name), wanted};
    if (!route.verdict.allowed) return route;
    if (protocol == Protocol::kTcp) route = through_proxy(std::move(route));
    if (!route.proxy)
        route.verdict = {false, "only the host's proxy knows its address, and this does not go through that",
                         name, false};
    return route;
}

Dialing::Route Dialing::through_proxy(Route route) const {
    const std::string& name = route.verdict.name;
    route.proxy = proxies_.find(name.empty() ? route.to.address.to_string() : name, route.to.port);
    if (!route.proxy) return route;
    route.target = name.empty() ? route.to.to_string() : fmt::format("{}:{}", name, route.to.port);
    route.to = route.proxy->addresses.front();
    return route;
}

}  // namespace boxlite::net
