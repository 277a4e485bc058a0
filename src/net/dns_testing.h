// For tests: DNS messages as RFC 1035 lays them out.
#pragma once

#include <string_view>
#include <vector>

#include "net/address.h"

namespace boxlite::net::dns::testing {

// A query with recursion desired and the id 0x1234.
base::Bytes query(std::string_view name, uint16_t type, bool extended = false);

// Makes an answer of a query: a CNAME to x.<name>, and then addresses of the alias.
base::Bytes answer(base::Bytes query, const std::vector<IpAddress>& found);

}  // namespace boxlite::net::dns::testing
