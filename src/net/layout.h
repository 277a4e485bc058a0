// The box's own little network: who is where.
#pragma once

#include <array>
#include <cstdint>

namespace boxlite::net {

inline constexpr const char* kSubnet = "192.168.127.0/24";
inline constexpr const char* kSubnet6 = "fd00::/64";
// Where names are resolved, too.
inline constexpr const char* kGateway = "192.168.127.1";
inline constexpr const char* kGateway6 = "fd00::1";
inline constexpr const char* kBoxAddress = "192.168.127.2";
inline constexpr const char* kBoxAddress6 = "fd00::2";
// That the box's kernel makes of kBoxMac (RFC 4291, appendix A).
inline constexpr const char* kBoxLinkLocal = "fe80::c0ff:fea8:7f02";
// The host's loopback, for those that the policy lets there.
inline constexpr const char* kHostAlias = "192.168.127.254";
inline constexpr const char* kHostAlias6 = "fd00::fe";
inline constexpr const char* kHostName = "host.boxlite.internal";

// The largest that libslirp takes is 65521; a multiple of 8 for what fragments.
inline constexpr uint16_t kMtu = 65520;
inline constexpr std::array<uint8_t, 6> kBoxMac = {0x02, 0x00, 0xc0, 0xa8, 0x7f, 0x02};

}  // namespace boxlite::net
