#include "net/mac.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/hash.h"

namespace boxlite::net {

namespace {

// Bits of an address's first byte (IEEE 802, 8.2).
constexpr uint8_t kGroup = 1, kLocal = 2;

}  // namespace

MacAddress box_mac(std::string_view box_id) {
    uint64_t hash = base::fnv1a_64(box_id);
    MacAddress mac;
    for (uint8_t& byte : mac) {
        byte = static_cast<uint8_t>(hash);
        hash >>= 8;
    }
    mac[0] = static_cast<uint8_t>((mac[0] & ~kGroup) | kLocal);
    return mac;
}

std::optional<MacAddress> mac_from(std::string_view bytes) {
    MacAddress mac;
    if (bytes.size() != mac.size()) return std::nullopt;
    std::copy(bytes.begin(), bytes.end(), mac.begin());
    if (mac[0] & kGroup || mac == MacAddress{}) return std::nullopt;
    return mac;
}

std::string to_string(const MacAddress& mac) {
    return fmt::format("{:02x}:{:02x}:{:02x}:{:02x}:{:02x}:{:02x}", mac[0], mac[1], mac[2], mac[3], mac[4],
                       mac[5]);
}

IpAddress link_local(const MacAddress& mac) {
    const std::array<uint8_t, 16> bytes = {
        0xfe,   0x80,   0,    0,    0,      0,      0,     0, static_cast<uint8_t>(mac[0] ^ kLocal),
        mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]};
    return IpAddress(bytes);
}

}  // namespace boxlite::net
