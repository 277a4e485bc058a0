// From where the box wants to go to where netd goes for it.
#pragma once

#include "net/pins.h"
#include "net/policy.h"

namespace boxlite::net {

class Dialing {
  public:
    // Both outlive it.
    Dialing(const Policy& policy, const Pins& pins) : policy_(policy), pins_(pins) {}

    struct Route {
        Verdict verdict;
        Endpoint to;  // in the host's view
    };
    // Never to the host itself under one of its own addresses: that would go around what its firewall lets
    // others do, and is what kHostName is for.
    Route route(Protocol protocol, const Endpoint& wanted) const;

    const Policy& policy() const { return policy_; }

  private:
    const Policy& policy_;
    const Pins& pins_;
};

}  // namespace boxlite::net
