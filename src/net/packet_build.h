// What packets that netd writes are made of.
#pragma once

#include "base/checksum.h"
#include "net/mac.h"

namespace boxlite::net {

using base::Checksum;

inline constexpr uint16_t kTypeV4 = 0x0800, kTypeV6 = 0x86dd, kTypeArp = 0x0806;
inline constexpr size_t kEthernetHeader = 14;
inline constexpr size_t kV4Header = 20, kV6Header = 40, kUdpHeader = 8, kTcpHeader = 20, kIcmpHeader = 8;
inline constexpr size_t kArpBytes = 28;
// Ethernet, IPv4, the lengths of their addresses, and the high byte of what it is (RFC 826).
inline constexpr std::array<uint8_t, 7> kArpBegin = {0, 1, 8, 0, 6, 4, 0};
inline constexpr uint8_t kHopLimit = 64;
// The one that libslirp answers ARP for the gateway with.
inline constexpr MacAddress kGatewayMac = {0x52, 0x55, 0xc0, 0xa8, 0x7f, 0x01};

// Of what is behind an IP header (RFC 9293, 3.1 and RFC 8200, 8.1).
void add_pseudo_header(Checksum& sum, const IpAddress& source, const IpAddress& destination, uint8_t protocol,
                       size_t length);

// Ethernet and IP headers for `length` bytes that follow, from the gateway's station to the one at `to`.
base::Bytes ip_frame(const IpAddress& source, const IpAddress& destination, uint8_t protocol, size_t length,
                     const MacAddress& to);

}  // namespace boxlite::net
