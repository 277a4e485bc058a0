#include "net/peer_packet.h"

#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <netinet/tcp.h>

namespace boxlite::net {

namespace {

using Kind = PeerPacket::Kind;

constexpr size_t kTcpFlags = 13;
// Of a packet that an error is about: behind its IP header (RFC 792).
constexpr size_t kQuotedBytes = 8;

bool parse_tcp(base::ByteView segment, PeerPacket& packet) {
    if (!is_sound_tcp(segment)) return false;
    packet.protocol = Protocol::kTcp;
    packet.source.port = base::load_be<uint16_t>(segment.data());
    packet.destination.port = base::load_be<uint16_t>(segment.data() + 2);
    packet.sequence = base::load_be<uint32_t>(segment.data() + 4);
    packet.acknowledged = base::load_be<uint32_t>(segment.data() + 8);
    const uint8_t flags = segment[kTcpFlags];
    packet.acknowledges = flags & TH_ACK;
    packet.opens = flags & TH_SYN && !packet.acknowledges;
    packet.ends = flags & TH_FIN;
    packet.resets = flags & TH_RST;
    packet.data_bytes = segment.size() - (segment[12] >> 4u) * size_t{4};
    packet.next_sequence = packet.sequence + static_cast<uint32_t>(packet.data_bytes) +
                           (flags & TH_SYN ? 1 : 0) + (packet.ends ? 1 : 0);
    return true;
}

bool parse_datagram(base::ByteView datagram, PeerPacket& packet) {
    if (datagram.size() < kUdpHeader) return false;
    packet.protocol = Protocol::kUdp;
    packet.source.port = base::load_be<uint16_t>(datagram.data());
    packet.destination.port = base::load_be<uint16_t>(datagram.data() + 2);
    packet.data_bytes = datagram.size() - kUdpHeader;
    return true;
}

bool parse_echo(base::ByteView icmp, bool v4, PeerPacket& packet) {
    if (icmp.size() < kIcmpHeader) return false;
    const bool asks = icmp[0] == (v4 ? ICMP_ECHO : ICMP6_ECHO_REQUEST);
    if (!asks && icmp[0] != (v4 ? ICMP_ECHOREPLY : ICMP6_ECHO_REPLY)) return false;
    packet.protocol = Protocol::kIcmp;
    packet.kind = asks ? Kind::kData : Kind::kAnswer;
    (asks ? packet.source : packet.destination).port = base::load_be<uint16_t>(icmp.data() + 4);
    packet.data_bytes = icmp.size() - kIcmpHeader;
    return true;
}

uint8_t icmp_protocol(bool v4) {
    return v4 ? uint8_t{IPPROTO_ICMP} : uint8_t{IPPROTO_ICMPV6};
}

bool is_error(uint8_t type, bool v4) {
    if (v4) return type == ICMP_UNREACH || type == ICMP_TIMXCEED || type == ICMP_PARAMPROB;
    return type >= ICMP6_DST_UNREACH && type <= ICMP6_PARAM_PROB;
}

// The quoted packet is one that the error's receiver has sent to its sender.
bool parse_error(const IpPacket& ip, bool v4, PeerPacket& packet) {
    const base::ByteView icmp = ip.payload;
    const size_t header = v4 ? kV4Header : kV6Header;
    if (icmp.size() < kIcmpHeader + header + kQuotedBytes || !is_error(icmp[0], v4)) return false;
    const base::ByteView quoted = icmp.subspan(kIcmpHeader);
    if (v4 ? quoted[0] != 0x45 : quoted[0] >> 4 != 6) return false;
    const size_t size = v4 ? 4 : 16;
    const IpAddress from(quoted.subspan(v4 ? 12 : 8, size)), to(quoted.subspan(v4 ? 16 : 24, size));
    if (from != ip.destination || to != ip.source) return false;
    const uint8_t protocol = quoted[v4 ? 9 : 6];
    const base::ByteView inside = quoted.subspan(header);
    packet.kind = Kind::kError;
    if (protocol == IPPROTO_TCP || protocol == IPPROTO_UDP) {
        packet.protocol = protocol == IPPROTO_TCP ? Protocol::kTcp : Protocol::kUdp;
        packet.destination.port = base::load_be<uint16_t>(inside.data());
        packet.source.port = base::load_be<uint16_t>(inside.data() + 2);
        return true;
    }
    PeerPacket echo;
    if (protocol != icmp_protocol(v4) || !parse_echo(inside, v4, echo)) return false;
    packet.protocol = Protocol::kIcmp;
    packet.destination.port = echo.source.port;
    packet.source.port = echo.destination.port;
    return true;
}

}  // namespace

std::optional<PeerPacket> parse_peer_packet(const IpPacket& ip) {
    const bool v4 = ip.source.is_v4();
    if (ip.fragment || ip.packet.size() - ip.payload.size() != (v4 ? kV4Header : kV6Header))
        return std::nullopt;
    PeerPacket packet;
    packet.source.address = ip.source;
    packet.destination.address = ip.destination;
    bool sound = false;
    if (ip.protocol == IPPROTO_TCP) sound = parse_tcp(ip.payload, packet);
    if (ip.protocol == IPPROTO_UDP) sound = parse_datagram(ip.payload, packet);
    if (ip.protocol == icmp_protocol(v4))
        sound = parse_echo(ip.payload, v4, packet) || parse_error(ip, v4, packet);
    if (!sound) return std::nullopt;
    return packet;
}

base::Bytes reset_frame(const Endpoint& from, const Endpoint& to, uint32_t sequence,
                        std::optional<uint32_t> acknowledged, const MacAddress& to_mac) {
    base::Bytes frame = ip_frame(from.address, to.address, IPPROTO_TCP, kTcpHeader, to_mac);
    uint8_t* tcp = frame.data() + frame.size() - kTcpHeader;
    base::store_be(tcp, from.port);
    base::store_be(tcp + 2, to.port);
    base::store_be(tcp + 4, sequence);
    base::store_be(tcp + 8, acknowledged.value_or(0));
    tcp[12] = kTcpHeader / 4 << 4;
    tcp[kTcpFlags] = acknowledged ? TH_RST | TH_ACK : TH_RST;
    Checksum sum;
    add_pseudo_header(sum, from.address, to.address, IPPROTO_TCP, kTcpHeader);
    sum.add({tcp, kTcpHeader});
    base::store_be(tcp + 16, sum.result());
    return frame;
}

}  // namespace boxlite::net
