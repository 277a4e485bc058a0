// The box's own little network: who is where.
#pragma once

#include <cstdint>
#include <string_view>

namespace boxlite::net {

inline constexpr const char* kSubnet = "192.168.127.0/24";
inline constexpr const char* kBroadcast = "192.168.127.255";
inline constexpr const char* kSubnet6 = "fd00::/64";
// Where names are resolved, too.
inline constexpr const char* kGateway = "192.168.127.1";
inline constexpr const char* kGateway6 = "fd00::1";
inline constexpr const char* kBoxAddress = "192.168.127.2";
inline constexpr const char* kBoxAddress6 = "fd00::2";
// The host's loopback, for those that the policy lets there.
inline constexpr const char* kHostAlias = "192.168.127.254";
inline constexpr const char* kHostAlias6 = "fd00::fe";
inline constexpr const char* kHostName = "host.boxlite.internal";
// Names below are the box's own and its private network's.
inline constexpr std::string_view kInternalZone = "boxlite.internal";

// Of the addresses of a private network, which a box has beside its own.
inline constexpr unsigned kPrivatePrefix = 24, kPrivatePrefix6 = 64;

// The largest that libslirp takes is 65521; a multiple of 8 for what fragments.
inline constexpr uint16_t kMtu = 65520;

}  // namespace boxlite::net
