// Ethernet addresses of boxes.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "net/address.h"

namespace boxlite::net {

using MacAddress = std::array<uint8_t, 6>;

// Of the box with this id: locally administered, unicast, and but by chance no other box's.
MacAddress box_mac(std::string_view box_id);

// The six bytes of an address of one station; nullopt for anything else.
std::optional<MacAddress> mac_from(std::string_view bytes);

// "02:00:5e:10:00:00"
std::string to_string(const MacAddress& mac);

// What a kernel makes of it (RFC 4291, appendix A).
IpAddress link_local(const MacAddress& mac);

}  // namespace boxlite::net
