#include "net/packet.h"

#include <netinet/icmp6.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <netinet/ip_icmp.h>
#include <netinet/udp.h>

#include <algorithm>

#include "net/layout.h"

namespace boxlite::net {

namespace {

// What an ICMP error quotes of the packet that it is about, with room for its own headers in 576 and 1280.
constexpr size_t kQuoteV4 = 548, kQuoteV6 = 1232;

std::optional<IpPacket> parse_v4(base::ByteView packet) {
    if (packet.size() < kV4Header || packet[0] >> 4 != 4) return std::nullopt;
    const size_t header = size_t{packet[0] & 0xfu} * 4;
    const size_t total = base::load_be<uint16_t>(packet.data() + 2);
    if (header < kV4Header || total < header || total > packet.size()) return std::nullopt;
    IpPacket ip;
    ip.packet = packet.first(total);
    ip.payload = ip.packet.subspan(header);
    ip.source = IpAddress(packet.subspan(12, 4));
    ip.destination = IpAddress(packet.subspan(16, 4));
    ip.protocol = packet[9];
    ip.fragment = base::load_be<uint16_t>(packet.data() + 6) & (IP_MF | IP_OFFMASK);
    return ip;
}

std::optional<IpPacket> parse_v6(base::ByteView packet) {
    if (packet.size() < kV6Header || packet[0] >> 4 != 6) return std::nullopt;
    const size_t length = base::load_be<uint16_t>(packet.data() + 4);
    if (length > packet.size() - kV6Header) return std::nullopt;
    IpPacket ip;
    ip.packet = packet.first(kV6Header + length);
    ip.payload = ip.packet.subspan(kV6Header);
    ip.source = IpAddress(packet.subspan(8, 16));
    ip.destination = IpAddress(packet.subspan(24, 16));
    ip.protocol = packet[6];
    ip.fragment = ip.protocol == IPPROTO_FRAGMENT;
    return ip;
}

// Of many, in general or on the box's own network.
bool is_group(const IpAddress& address) {
    static const std::array<IpAddress, 2> broadcast = {*IpAddress::parse("255.255.255.255"),
                                                       *IpAddress::parse(kBroadcast)};
    if (address.is_v4() && (address.bytes()[0] & 0xf0) == 224) return true;
    if (!address.is_v4()) return address.bytes()[0] == 0xff;
    return std::find(broadcast.begin(), broadcast.end(), address) != broadcast.end();
}

bool is_icmp_error(const IpPacket& ip) {
    if (ip.payload.empty()) return true;
    if (ip.protocol == IPPROTO_ICMPV6) return ip.payload[0] < 128;
    return ip.protocol == IPPROTO_ICMP && ip.payload[0] != ICMP_ECHO;
}

// The box's own, and none for one that asks DHCP for it.
bool is_of_box(const IpAddress& address, const BoxInterface& box) {
    static const std::array<IpAddress, 4> all = {*IpAddress::parse(kBoxAddress),
                                                 *IpAddress::parse(kBoxAddress6),
                                                 *IpAddress::parse("0.0.0.0"), *IpAddress::parse("::")};
    return address == box.link_local || std::find(all.begin(), all.end(), address) != all.end();
}

// RFC 826, for IPv4 over ethernet.
bool is_sound_arp(base::ByteView frame, const BoxInterface& box) {
    if (frame.size() < kEthernetHeader + kArpBytes) return false;
    const base::ByteView arp = frame.subspan(kEthernetHeader, kArpBytes);
    return std::equal(std::begin(kArpBegin), std::end(kArpBegin), arp.begin()) &&
           (arp[7] == 1 || arp[7] == 2) && is_of_box(IpAddress(arp.subspan(14, 4)), box);
}

// Echo requests, and what neighbour discovery is made of (RFC 4861): the options fill the rest exactly.
bool is_sound_icmp6(base::ByteView icmp) {
    if (icmp.size() < kIcmpHeader) return false;
    size_t options = 0;
    switch (icmp[0]) {
        case ICMP6_ECHO_REQUEST:
            return true;
        case ND_ROUTER_SOLICIT:
            options = sizeof(nd_router_solicit);
            break;
        case ND_NEIGHBOR_SOLICIT:
            options = sizeof(nd_neighbor_solicit);
            break;
        case ND_NEIGHBOR_ADVERT:
            options = sizeof(nd_neighbor_advert);
            break;
        default:
            return false;
    }
    if (icmp.size() < options) return false;
    for (base::ByteView rest = icmp.subspan(options); !rest.empty();) {
        const size_t length = rest.size() >= 2 ? size_t{rest[1]} * 8 : 0;
        if (length == 0 || length > rest.size()) return false;
        rest = rest.subspan(length);
    }
    return true;
}

}  // namespace

std::optional<IpPacket> parse_ip(base::ByteView frame) {
    if (frame.size() < kEthernetHeader) return std::nullopt;
    const auto type = base::load_be<uint16_t>(frame.data() + 12);
    const base::ByteView packet = frame.subspan(kEthernetHeader);
    std::optional<IpPacket> ip;
    if (type == kTypeV4) ip = parse_v4(packet);
    if (type == kTypeV6) ip = parse_v6(packet);
    if (ip) std::copy_n(frame.begin() + 6, ip->sender.size(), ip->sender.begin());
    return ip;
}

bool is_for_stack(base::ByteView frame, const IpPacket* ip, const BoxInterface& box) {
    if (frame.size() < kEthernetHeader || !std::equal(box.mac.begin(), box.mac.end(), frame.begin() + 6))
        return false;
    if (!ip) return is_sound_arp(frame, box);
    if (ip->fragment || !is_of_box(ip->source, box)) return false;
    const bool v4 = ip->source.is_v4();
    if (v4 && ip->packet.size() - ip->payload.size() != kV4Header) return false;
    const base::ByteView payload = ip->payload;
    switch (ip->protocol) {
        case IPPROTO_TCP:
            return is_sound_tcp(payload) && !is_group(ip->destination);
        case IPPROTO_ICMP:
            return v4 && payload.size() >= kIcmpHeader && payload[0] == ICMP_ECHO;
        case IPPROTO_ICMPV6:
            return !v4 && is_sound_icmp6(payload);
        case IPPROTO_UDP:
            return payload.size() >= kUdpHeader;
        default:
            return false;
    }
}

bool is_sound_tcp(base::ByteView segment) {
    if (segment.size() < kTcpHeader) return false;
    const size_t header = (segment[12] >> 4u) * size_t{4};
    return header >= kTcpHeader && header <= segment.size();
}

bool is_echo_request(const IpPacket& ip) {
    if (ip.payload.empty()) return false;
    return (ip.protocol == IPPROTO_ICMP && ip.payload[0] == ICMP_ECHO) ||
           (ip.protocol == IPPROTO_ICMPV6 && ip.payload[0] == ICMP6_ECHO_REQUEST);
}

std::optional<Datagram> parse_udp(const IpPacket& ip) {
    if (ip.protocol != IPPROTO_UDP || ip.fragment || ip.payload.size() < kUdpHeader) return std::nullopt;
    const uint8_t* udp = ip.payload.data();
    const size_t length = base::load_be<uint16_t>(udp + 4);
    if (length < kUdpHeader || length > ip.payload.size()) return std::nullopt;
    if (base::load_be<uint16_t>(udp + 6) != 0) {
        Checksum sum;
        add_pseudo_header(sum, ip.source, ip.destination, IPPROTO_UDP, length);
        sum.add(ip.payload.first(length));
        if (sum.result() != 0) return std::nullopt;
    } else if (!ip.source.is_v4()) {
        return std::nullopt;  // RFC 8200, 8.1
    }
    return Datagram{{ip.source, base::load_be<uint16_t>(udp)},
                    {ip.destination, base::load_be<uint16_t>(udp + 2)},
                    ip.payload.subspan(kUdpHeader, length - kUdpHeader)};
}

base::Bytes udp_frame(const Datagram& datagram, const MacAddress& box) {
    const IpAddress& source = datagram.source.address;
    const IpAddress& destination = datagram.destination.address;
    const size_t length = kUdpHeader + datagram.payload.size();
    base::Bytes frame = ip_frame(source, destination, IPPROTO_UDP, length, box);
    uint8_t* udp = frame.data() + frame.size() - length;
    base::store_be(udp, datagram.source.port);
    base::store_be(udp + 2, datagram.destination.port);
    base::store_be(udp + 4, static_cast<uint16_t>(length));
    std::copy(datagram.payload.begin(), datagram.payload.end(), udp + kUdpHeader);
    Checksum sum;
    add_pseudo_header(sum, source, destination, IPPROTO_UDP, length);
    sum.add({udp, length});
    base::store_be(udp + 6, sum.result() == 0 ? uint16_t{0xffff} : sum.result());
    return frame;
}

base::Bytes echo_answer(const IpAddress& from, const IpAddress& to, uint16_t id, base::ByteView message,
                        const MacAddress& box) {
    const bool v4 = from.is_v4();
    const uint8_t protocol = v4 ? uint8_t{IPPROTO_ICMP} : uint8_t{IPPROTO_ICMPV6};
    base::Bytes frame = ip_frame(from, to, protocol, message.size(), box);
    uint8_t* icmp = frame.data() + frame.size() - message.size();
    std::copy(message.begin(), message.end(), icmp);
    icmp[0] = v4 ? ICMP_ECHOREPLY : ICMP6_ECHO_REPLY;
    icmp[1] = 0;
    base::store_be<uint16_t>(icmp + 2, 0);
    base::store_be(icmp + 4, id);
    Checksum sum;
    if (!v4) add_pseudo_header(sum, from, to, protocol, message.size());
    sum.add({icmp, message.size()});
    base::store_be(icmp + 2, sum.result());
    return frame;
}

std::optional<base::Bytes> unreachable_frame(const IpPacket& ip, Unreachable why) {
    if (is_group(ip.destination) || is_icmp_error(ip)) return std::nullopt;
    const bool v4 = ip.source.is_v4();
    if (ip.fragment && (!v4 || (base::load_be<uint16_t>(ip.packet.data() + 6) & IP_OFFMASK)))
        return std::nullopt;
    const base::ByteView quote = ip.packet.first(std::min(ip.packet.size(), v4 ? kQuoteV4 : kQuoteV6));
    const uint8_t protocol = v4 ? uint8_t{IPPROTO_ICMP} : uint8_t{IPPROTO_ICMPV6};
    const size_t length = 8 + quote.size();
    base::Bytes frame = ip_frame(ip.destination, ip.source, protocol, length, ip.sender);
    uint8_t* icmp = frame.data() + frame.size() - length;
    icmp[0] = v4 ? ICMP_UNREACH : ICMP6_DST_UNREACH;
    switch (why) {
        case Unreachable::kProhibited:
            icmp[1] = v4 ? ICMP_UNREACH_FILTER_PROHIB : ICMP6_DST_UNREACH_ADMIN;
            break;
        case Unreachable::kPort:
            icmp[1] = v4 ? ICMP_UNREACH_PORT : ICMP6_DST_UNREACH_NOPORT;
            break;
        case Unreachable::kHost:
            icmp[1] = v4 ? ICMP_UNREACH_HOST : ICMP6_DST_UNREACH_ADDR;
            break;
    }
    std::copy(quote.begin(), quote.end(), icmp + 8);
    Checksum sum;
    if (!v4) add_pseudo_header(sum, ip.destination, ip.source, protocol, length);
    sum.add({icmp, length});
    base::store_be(icmp + 2, sum.result());
    return frame;
}

}  // namespace boxlite::net
