#include "net/neighbour.h"

#include <netinet/icmp6.h>
#include <netinet/in.h>

#include <algorithm>

#include "net/layout.h"

namespace boxlite::net {

namespace {

constexpr uint16_t kRequest = 1, kReply = 2;  // RFC 826
constexpr uint8_t kUnroutedHopLimit = 255;    // RFC 4861, 7.1

base::Bytes arp_reply(const IpAddress& address, const MacAddress& mac, const IpAddress& asker,
                      const MacAddress& to) {
    base::Bytes frame(kEthernetHeader + kArpBytes);
    std::copy(to.begin(), to.end(), frame.begin());
    std::copy(mac.begin(), mac.end(), frame.begin() + 6);
    base::store_be(&frame[12], kTypeArp);
    uint8_t* arp = frame.data() + kEthernetHeader;
    std::copy(kArpBegin.begin(), kArpBegin.end(), arp);
    arp[7] = kReply;
    std::copy(mac.begin(), mac.end(), arp + 8);
    std::copy_n(address.bytes().begin(), 4, arp + 14);
    std::copy(to.begin(), to.end(), arp + 18);
    std::copy_n(asker.bytes().begin(), 4, arp + 24);
    return frame;
}

// Of `address`, from the gateway's station. `options` follow.
base::Bytes advertisement(const IpAddress& address, const IpAddress& to, const MacAddress& to_mac,
                          base::ByteView options) {
    const size_t length = sizeof(nd_neighbor_advert) + options.size();
    base::Bytes frame = ip_frame(address, to, IPPROTO_ICMPV6, length, to_mac);
    frame[kEthernetHeader + 7] = kUnroutedHopLimit;
    uint8_t* icmp = frame.data() + frame.size() - length;
    icmp[0] = ND_NEIGHBOR_ADVERT;
    if (!options.empty()) icmp[4] = 0x60;  // solicited, and goes before what was known
    std::copy(address.bytes().begin(), address.bytes().end(), icmp + 8);
    std::copy(options.begin(), options.end(), icmp + sizeof(nd_neighbor_advert));
    Checksum sum;
    add_pseudo_header(sum, address, to, IPPROTO_ICMPV6, length);
    sum.add({icmp, length});
    base::store_be(icmp + 2, sum.result());
    return frame;
}

}  // namespace

std::vector<base::Bytes> announcements(const BoxInterface& box) {
    const IpAddress own = *IpAddress::parse(kBoxAddress);
    std::vector<base::Bytes> all = {arp_reply(own, box.mac, {}, kGatewayMac)};
    const IpAddress gateway = *IpAddress::parse(kGateway6);
    for (const IpAddress& address : {*IpAddress::parse(kBoxAddress6), box.link_local}) {
        base::Bytes frame = advertisement(address, gateway, kGatewayMac, {});
        std::copy(box.mac.begin(), box.mac.end(), frame.begin() + 6);
        all.push_back(std::move(frame));
    }
    return all;
}

std::optional<NeighbourQuestion> parse_neighbour_question(base::ByteView frame, const IpPacket* ip) {
    if (ip) {
        const base::ByteView icmp = ip->payload;
        if (ip->source.is_v4() || ip->protocol != IPPROTO_ICMPV6 ||
            icmp.size() < sizeof(nd_neighbor_solicit) || icmp[0] != ND_NEIGHBOR_SOLICIT ||
            ip->packet[7] != kUnroutedHopLimit || ip->source == *IpAddress::parse("::"))
            return std::nullopt;
        return NeighbourQuestion{ip->sender, ip->source, IpAddress(icmp.subspan(8, 16))};
    }
    if (frame.size() < kEthernetHeader + kArpBytes || base::load_be<uint16_t>(&frame[12]) != kTypeArp)
        return std::nullopt;
    const base::ByteView arp = frame.subspan(kEthernetHeader, kArpBytes);
    NeighbourQuestion question{{}, IpAddress(arp.subspan(14, 4)), IpAddress(arp.subspan(24, 4))};
    std::copy_n(frame.begin() + 6, question.sender.size(), question.sender.begin());
    if (!std::equal(kArpBegin.begin(), kArpBegin.end(), arp.begin()) || arp[7] != kRequest ||
        question.asker == IpAddress())
        return std::nullopt;
    return question;
}

base::Bytes neighbour_answer(const NeighbourQuestion& question) {
    if (question.about.is_v4())
        return arp_reply(question.about, kGatewayMac, question.asker, question.sender);
    base::Bytes option = {ND_OPT_TARGET_LINKADDR, 1};
    option.insert(option.end(), kGatewayMac.begin(), kGatewayMac.end());
    return advertisement(question.about, question.asker, question.sender, option);
}

}  // namespace boxlite::net
