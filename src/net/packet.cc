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

constexpr uint16_t kTypeV4 = 0x0800, kTypeV6 = 0x86dd, kTypeArp = 0x0806;
constexpr size_t kArpBytes = 28;
// Ethernet, IPv4, the lengths of their addresses, and the high byte of what it is.
constexpr uint8_t kArpBegin[] = {0, 1, 8, 0, 6, 4, 0};
constexpr size_t kV4Header = 20, kV6Header = 40, kUdpHeader = 8, kTcpHeader = 20, kIcmpHeader = 8;
constexpr uint8_t kHopLimit = 64;
// The one that libslirp answers ARP for the gateway with.
constexpr std::array<uint8_t, 6> kGatewayMac = {0x52, 0x55, 0xc0, 0xa8, 0x7f, 0x01};
// What an ICMP error quotes of the packet that it is about, with room for its own headers in 576 and 1280.
constexpr size_t kQuoteV4 = 548, kQuoteV6 = 1232;

// The ones' complement sum (RFC 1071), over pieces of which only the last may be odd.
class Checksum {
  public:
    void add(base::ByteView bytes) {
        size_t i = 0;
        for (; i + 1 < bytes.size(); i += 2) sum_ += base::load_be<uint16_t>(bytes.data() + i);
        if (i < bytes.size()) sum_ += static_cast<uint64_t>(bytes[i]) << 8;
    }
    void add(uint64_t value) { sum_ += value; }
    uint16_t result() const {
        uint64_t folded = sum_;
        while (folded >> 16) folded = (folded & 0xffff) + (folded >> 16);
        return static_cast<uint16_t>(~folded);
    }

  private:
    uint64_t sum_ = 0;
};

void add_pseudo_header(Checksum& sum, const IpAddress& source, const IpAddress& destination, uint8_t protocol,
                       size_t length) {
    sum.add(source.bytes());
    sum.add(destination.bytes());
    sum.add(protocol);
    sum.add(length);
}

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

// Ethernet and IP headers for `length` bytes that follow.
base::Bytes ip_frame(const IpAddress& source, const IpAddress& destination, uint8_t protocol, size_t length) {
    const bool v4 = source.is_v4();
    const size_t header = v4 ? kV4Header : kV6Header;
    base::Bytes frame(kEthernetHeader + header + length);
    std::copy(kBoxMac.begin(), kBoxMac.end(), frame.begin());
    std::copy(kGatewayMac.begin(), kGatewayMac.end(), frame.begin() + kBoxMac.size());
    base::store_be<uint16_t>(frame.data() + 12, v4 ? kTypeV4 : kTypeV6);
    uint8_t* ip = frame.data() + kEthernetHeader;
    if (v4) {
        ip[0] = 0x45;
        base::store_be(ip + 2, static_cast<uint16_t>(header + length));
        base::store_be<uint16_t>(ip + 6, IP_DF);
        ip[8] = kHopLimit;
        ip[9] = protocol;
        std::copy_n(source.bytes().begin(), 4, ip + 12);
        std::copy_n(destination.bytes().begin(), 4, ip + 16);
        Checksum sum;
        sum.add({ip, header});
        base::store_be(ip + 10, sum.result());
    } else {
        ip[0] = 0x60;
        base::store_be(ip + 4, static_cast<uint16_t>(length));
        ip[6] = protocol;
        ip[7] = kHopLimit;
        std::copy_n(source.bytes().begin(), 16, ip + 8);
        std::copy_n(destination.bytes().begin(), 16, ip + 24);
    }
    return frame;
}

bool is_group(const IpAddress& address) {
    const base::ByteView bytes = address.bytes();
    return address.is_v4() ? bytes[0] >= 224 || bytes[3] == 255 : bytes[0] == 0xff;
}

bool is_icmp_error(const IpPacket& ip) {
    if (ip.payload.empty()) return true;
    if (ip.protocol == IPPROTO_ICMPV6) return ip.payload[0] < 128;
    return ip.protocol == IPPROTO_ICMP && ip.payload[0] != ICMP_ECHO;
}

// The box's own, and none for one that asks DHCP for it.
bool is_of_box(const IpAddress& address) {
    static const std::array<IpAddress, 5> all = {
        *IpAddress::parse(kBoxAddress), *IpAddress::parse(kBoxAddress6), *IpAddress::parse(kBoxLinkLocal),
        *IpAddress::parse("0.0.0.0"), *IpAddress::parse("::")};
    return std::find(all.begin(), all.end(), address) != all.end();
}

// RFC 826, for IPv4 over ethernet.
bool is_sound_arp(base::ByteView frame) {
    if (frame.size() < kEthernetHeader + kArpBytes) return false;
    const base::ByteView arp = frame.subspan(kEthernetHeader, kArpBytes);
    return std::equal(std::begin(kArpBegin), std::end(kArpBegin), arp.begin()) &&
           (arp[7] == 1 || arp[7] == 2) && is_of_box(IpAddress(arp.subspan(14, 4)));
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
    if (type == kTypeV4) return parse_v4(packet);
    if (type == kTypeV6) return parse_v6(packet);
    return std::nullopt;
}

bool is_for_stack(base::ByteView frame, const IpPacket* ip) {
    if (frame.size() < kEthernetHeader || !std::equal(kBoxMac.begin(), kBoxMac.end(), frame.begin() + 6))
        return false;
    if (!ip) return is_sound_arp(frame);
    if (ip->fragment || !is_of_box(ip->source)) return false;
    const bool v4 = ip->source.is_v4();
    if (v4 && ip->packet.size() - ip->payload.size() != kV4Header) return false;
    const base::ByteView payload = ip->payload;
    switch (ip->protocol) {
        case IPPROTO_TCP: {
            if (payload.size() < kTcpHeader) return false;
            const size_t header = (payload[12] >> 4u) * size_t{4};
            return header >= kTcpHeader && header <= payload.size() && !is_group(ip->destination);
        }
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

std::vector<base::Bytes> announcements() {
    const IpAddress box = *IpAddress::parse(kBoxAddress);
    base::Bytes arp(kEthernetHeader + kArpBytes);
    std::copy(kGatewayMac.begin(), kGatewayMac.end(), arp.begin());
    std::copy(kBoxMac.begin(), kBoxMac.end(), arp.begin() + 6);
    base::store_be<uint16_t>(&arp[12], kTypeArp);
    uint8_t* body = arp.data() + kEthernetHeader;
    std::copy(std::begin(kArpBegin), std::end(kArpBegin), body);
    body[7] = 2;  // a reply
    std::copy(kBoxMac.begin(), kBoxMac.end(), body + 8);
    std::copy(box.bytes().begin(), box.bytes().end(), body + 14);
    std::vector<base::Bytes> all = {std::move(arp)};
    for (const char* text : {kBoxAddress6, kBoxLinkLocal}) {
        const IpAddress address = *IpAddress::parse(text), gateway = *IpAddress::parse(kGateway6);
        constexpr size_t kLength = sizeof(nd_neighbor_advert);
        base::Bytes frame = ip_frame(address, gateway, IPPROTO_ICMPV6, kLength);
        std::copy(kGatewayMac.begin(), kGatewayMac.end(), frame.begin());
        std::copy(kBoxMac.begin(), kBoxMac.end(), frame.begin() + 6);
        frame[kEthernetHeader + 7] = 255;  // hop limit
        uint8_t* icmp = frame.data() + frame.size() - kLength;
        icmp[0] = ND_NEIGHBOR_ADVERT;
        std::copy(address.bytes().begin(), address.bytes().end(), icmp + 8);
        Checksum sum;
        add_pseudo_header(sum, address, gateway, IPPROTO_ICMPV6, kLength);
        sum.add({icmp, kLength});
        base::store_be(icmp + 2, sum.result());
        all.push_back(std::move(frame));
    }
    return all;
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

base::Bytes udp_frame(const Datagram& datagram) {
    const IpAddress& source = datagram.source.address;
    const IpAddress& destination = datagram.destination.address;
    const size_t length = kUdpHeader + datagram.payload.size();
    base::Bytes frame = ip_frame(source, destination, IPPROTO_UDP, length);
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

std::optional<base::Bytes> unreachable_frame(const IpPacket& ip, Unreachable why) {
    if (is_group(ip.destination) || is_icmp_error(ip)) return std::nullopt;
    const bool v4 = ip.source.is_v4();
    if (ip.fragment && (!v4 || (base::load_be<uint16_t>(ip.packet.data() + 6) & IP_OFFMASK)))
        return std::nullopt;
    const base::ByteView quote = ip.packet.first(std::min(ip.packet.size(), v4 ? kQuoteV4 : kQuoteV6));
    const uint8_t protocol = v4 ? uint8_t{IPPROTO_ICMP} : uint8_t{IPPROTO_ICMPV6};
    const size_t length = 8 + quote.size();
    base::Bytes frame = ip_frame(ip.destination, ip.source, protocol, length);
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
