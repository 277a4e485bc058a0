#include "runtime/networks.h"

#include <algorithm>
#include <array>
#include <set>

#include "base/hash.h"
#include "net/address.h"

namespace boxlite::runtime {

namespace {

constexpr size_t kMaxNameLength = 63;
constexpr std::array<std::string_view, 6> kReserved = {"default",  "none", "enabled",
                                                       "disabled", "host", "bridge"};
// Of 10.128.0.0/9.
constexpr uint32_t kSubnets = 1 << 15;
constexpr uint8_t kFirstBlock = 128;
// The first address of a subnet is left out: elsewhere it is a gateway's.
constexpr uint8_t kFirstHost = 2, kLastHost = 254;

std::array<uint8_t, 4> address_v4(uint32_t subnet, uint8_t host) {
    return {10, static_cast<uint8_t>(kFirstBlock + (subnet >> 8)), static_cast<uint8_t>(subnet), host};
}

// RFC 4193, 3.1: 40 bits of the network's own, and its subnet. Never fd00::/64, which is each box's own.
std::array<uint8_t, 16> address_v6(std::string_view network, uint32_t subnet, uint8_t host) {
    std::array<uint8_t, 16> bytes{0xfd};
    const uint64_t global = base::fnv1a_64(network) | 1;
    for (size_t i = 0; i < 5; ++i) bytes[1 + i] = static_cast<uint8_t>(global >> (8 * (4 - i)));
    bytes[6] = static_cast<uint8_t>(subnet >> 8);
    bytes[7] = static_cast<uint8_t>(subnet);
    bytes[15] = host;
    return bytes;
}

}  // namespace

Result<void> check_network_name(std::string_view name) {
    const auto plain = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
    const bool good =
        !name.empty() && name.size() <= kMaxNameLength && plain(name.front()) &&
        std::all_of(name.begin(), name.end(), [&](char c) { return plain(c) || c == '_' || c == '-'; });
    if (!good)
        return base::make_error(ErrorCode::kInvalidArgument,
                                "invalid network name '{}': 1 to {} characters, a lower-case letter or digit "
                                "first, then such, '_' and '-'",
                                name.substr(0, kMaxNameLength + 1), kMaxNameLength);
    if (std::find(kReserved.begin(), kReserved.end(), name) != kReserved.end())
        return base::make_error(ErrorCode::kInvalidArgument,
                                "a private network cannot be named '{}'; choose another name", name);
    return {};
}

Result<NetworkAddress> choose_address(const std::string& network, const std::vector<NetworkAddress>& taken) {
    std::set<uint32_t> others;
    std::set<uint8_t> hosts;
    std::optional<uint32_t> subnet;
    for (const NetworkAddress& one : taken) {
        const auto address = net::IpAddress::parse(one.v4);
        if (!address || !address->is_v4()) continue;
        const base::ByteView bytes = address->bytes();
        const uint32_t number = (static_cast<uint32_t>(bytes[1] & 0x7f) << 8) | bytes[2];
        if (one.network != network) {
            others.insert(number);
            continue;
        }
        subnet = number;
        hosts.insert(bytes[3]);
    }
    if (!subnet) {
        subnet = static_cast<uint32_t>(base::fnv1a_64(network) % kSubnets);
        for (uint32_t tried = 0; others.contains(*subnet); ++tried) {
            if (tried == kSubnets)
                return base::make_error(ErrorCode::kResourceExhausted,
                                        "there are {} private networks, and no addresses for another one",
                                        kSubnets);
            subnet = (*subnet + 1) % kSubnets;
        }
    }
    for (uint8_t host = kFirstHost; host <= kLastHost; ++host)
        if (!hosts.contains(host))
            return NetworkAddress{network, net::IpAddress(address_v4(*subnet, host)).to_string(),
                                  net::IpAddress(address_v6(network, *subnet, host)).to_string()};
    return base::make_error(ErrorCode::kResourceExhausted,
                            "network '{}' is full: it has {} boxes; remove one, or use another network",
                            network, hosts.size());
}

}  // namespace boxlite::runtime
