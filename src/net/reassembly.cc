#include "net/reassembly.h"

#include <netinet/ip.h>
#include <netinet/ip6.h>

#include <algorithm>

namespace boxlite::net {

namespace {

constexpr size_t kMaxPayload = 65535;
constexpr size_t kFragmentHeader = 8;

}  // namespace

// Only those with nothing but a plain IP header in front, as of everything from the box.
std::optional<Reassembly::Fragment> Reassembly::parse(const IpPacket& ip) {
    Fragment fragment;
    if (ip.source.is_v4()) {
        if (ip.packet.size() - ip.payload.size() != kV4Header) return std::nullopt;
        const auto field = base::load_be<uint16_t>(ip.packet.data() + 6);
        fragment.offset = size_t{static_cast<uint16_t>(field & IP_OFFMASK)} * 8;
        fragment.more = field & IP_MF;
        fragment.id = base::load_be<uint16_t>(ip.packet.data() + 4);
        fragment.protocol = ip.protocol;
        fragment.data = ip.payload;
    } else {
        if (ip.protocol != IPPROTO_FRAGMENT || ip.payload.size() < kFragmentHeader) return std::nullopt;
        const auto field = base::load_be<uint16_t>(ip.payload.data() + 2);
        fragment.offset = field & 0xfff8u;
        fragment.more = field & 1;
        fragment.id = base::load_be<uint32_t>(ip.payload.data() + 4);
        fragment.protocol = ip.payload[0];
        fragment.data = ip.payload.subspan(kFragmentHeader);
        if (fragment.protocol == IPPROTO_FRAGMENT) return std::nullopt;  // one in another
    }
    const size_t header = ip.source.is_v4() ? kV4Header : 0;  // counts in the length of a packet of IPv4
    if (fragment.data.empty() || (fragment.more && fragment.data.size() % 8 != 0) ||
        fragment.offset + fragment.data.size() > kMaxPayload - header)
        return std::nullopt;
    return fragment;
}

std::optional<base::Bytes> Reassembly::add(base::ByteView frame, const IpPacket& ip,
                                           base::Clock::time_point now) {
    while (!packets_.empty() && now - packets_.front().began > kTime) packets_.pop_front();
    const auto fragment = parse(ip);
    if (!fragment) return std::nullopt;
    auto packet = std::find_if(packets_.begin(), packets_.end(), [&](const Packet& one) {
        return one.id == fragment->id && one.source == ip.source && one.destination == ip.destination &&
               (one.protocol == fragment->protocol || !ip.source.is_v4());
    });
    if (packet == packets_.end()) {
        if (packets_.size() == kMaxPackets) packets_.pop_front();
        packet = packets_.insert(packets_.end(), Packet{});
        packet->source = ip.source;
        packet->destination = ip.destination;
        packet->protocol = fragment->protocol;
        packet->id = fragment->id;
        packet->began = now;
    }
    if (fragment->offset == 0) {
        const size_t header = kEthernetHeader + (ip.source.is_v4() ? kV4Header : kV6Header);
        packet->head.assign(frame.begin(), frame.begin() + static_cast<ptrdiff_t>(header));
        packet->protocol = fragment->protocol;
    }
    if (!put(*packet, *fragment)) {
        packets_.erase(packet);
        return std::nullopt;
    }
    if (!is_complete(*packet)) return std::nullopt;
    base::Bytes complete = whole(*packet);
    packets_.erase(packet);
    return complete;
}

// False when it contradicts the others. One that has come before is not looked at again.
bool Reassembly::put(Packet& packet, const Fragment& fragment) {
    const size_t begin = fragment.offset, end = begin + fragment.data.size();
    const std::pair part(begin, fragment.data.size());
    const auto behind = std::lower_bound(packet.parts.begin(), packet.parts.end(), part);
    if (behind != packet.parts.end() && *behind == part) return true;
    if (behind != packet.parts.end() && behind->first < end) return false;
    if (behind != packet.parts.begin() && std::prev(behind)->first + std::prev(behind)->second > begin)
        return false;
    if (packet.size != 0 && (end > packet.size || !fragment.more)) return false;
    if (packet.parts.size() == kMaxFragments) return false;
    packet.parts.insert(behind, part);
    if (packet.data.size() < end) packet.data.resize(end);
    std::copy(fragment.data.begin(), fragment.data.end(),
              packet.data.begin() + static_cast<ptrdiff_t>(begin));
    if (fragment.more) return true;
    packet.size = end;
    return packet.data.size() == end;
}

bool Reassembly::is_complete(const Packet& packet) {
    if (packet.size == 0 || packet.head.empty()) return false;
    size_t at = 0;
    for (const auto& [offset, size] : packet.parts) {
        if (offset != at) return false;
        at += size;
    }
    return at == packet.size;
}

base::Bytes Reassembly::whole(const Packet& packet) {
    base::Bytes frame = packet.head;
    uint8_t* ip = frame.data() + kEthernetHeader;
    if (packet.source.is_v4()) {
        base::store_be(ip + 2, static_cast<uint16_t>(kV4Header + packet.size));
        base::store_be<uint16_t>(ip + 6, 0);
        base::store_be<uint16_t>(ip + 10, 0);
        Checksum sum;
        sum.add({ip, kV4Header});
        base::store_be(ip + 10, sum.result());
    } else {
        base::store_be(ip + 4, static_cast<uint16_t>(packet.size));
        ip[6] = packet.protocol;
    }
    frame.insert(frame.end(), packet.data.begin(), packet.data.end());
    return frame;
}

}  // namespace boxlite::net
