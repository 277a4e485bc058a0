// From where the box wants to go to where netd goes for it.
#pragma once

#include "net/pins.h"
#include "net/policy.h"
#include "net/proxy.h"
#include "net/stand_ins.h"

namespace boxlite::net {

class Dialing {
  public:
    // All outlive it.
    Dialing(const Policy& policy, const Pins& pins, const Proxies& proxies, const StandIns& stand_ins)
        : policy_(policy), pins_(pins), proxies_(proxies), stand_ins_(stand_ins) {}

    struct Route {
        Verdict verdict;
        Endpoint to;  // in the host's view; the proxy's, if there is one
        const ProxyServer* proxy = nullptr;
        std::string target;  // for the proxy: "example.com:443"
    };
    // Never to the host itself under one of its own addresses: that would go around what its firewall lets
    // others do, and is what kHostName is for. Nor to its proxy, unless a rule names that: the box could
    // have that go where it may not go.
    Route route(Protocol protocol, const Endpoint& wanted) const;

    // On a TCP connection to `peer` that says it is for `host`.
    Verdict verdict_for(const Endpoint& peer, const std::string& host) const;

    const Policy& policy() const { return policy_; }

  private:
    Route by_name(Protocol protocol, const Endpoint& wanted, const std::string& name) const;
    Route through_proxy(Route route) const;

    const Policy& policy_;
    const Pins& pins_;
    const Proxies& proxies_;
    const StandIns& stand_ins_;
};

}  // namespace boxlite::net
