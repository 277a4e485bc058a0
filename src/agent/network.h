// The machine's network interface, by rtnetlink.
#pragma once

#include "agent/messages.h"
#include "base/result.h"

namespace boxlite::agent {

// Gives the interface its addresses and routes and brings it up. Nothing is left to automatic configuration,
// nor of what it had before.
// kNotFound when the machine has none.
Result<void> set_up_network(const v1::GuestNetwork& network);

}  // namespace boxlite::agent
