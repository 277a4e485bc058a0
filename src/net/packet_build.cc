#include "net/packet_build.h"

#include <netinet/ip.h>

#include <algorithm>

namespace boxlite::net {

void add_pseudo_header(Checksum& sum, const IpAddress& source, const IpAddress& destination, uint8_t protocol,
                       size_t length) {
    sum.add(source.bytes());
    sum.add(destination.bytes());
    sum.add(protocol);
    sum.add(length);
}

base::Bytes ip_frame(const IpAddress& source, const IpAddress& destination, uint8_t protocol, size_t length,
                     const MacAddress& to) {
    const bool v4 = source.is_v4();
    const size_t header = v4 ? kV4Header : kV6Header;
    base::Bytes frame(kEthernetHeader + header + length);
    std::copy(to.begin(), to.end(), frame.begin());
    std::copy(kGatewayMac.begin(), kGatewayMac.end(), frame.begin() + to.size());
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

}  // namespace boxlite::net
