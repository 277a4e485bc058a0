// Private networks: names that boxes of one home join, and the addresses that they have there. A network
// exists as long as a box is on it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace boxlite::runtime {

// ^[a-z0-9][a-z0-9_-]*$, 1 to 63 characters, and none of the words that mean something else.
Result<void> check_network_name(std::string_view name);

// The place of a box on a network: an address of 10.128.0.0/9 and one of fd00::/8.
struct NetworkAddress {
    std::string network;
    std::string v4, v6;
};

// A place that nobody has. Each network has a /24 and a /64 of its own, which follow from its name where no
// other network of the home has them. kResourceExhausted when the network is full.
Result<NetworkAddress> choose_address(const std::string& network, const std::vector<NetworkAddress>& taken);

}  // namespace boxlite::runtime
