// What netd reads of the box's packets itself, and the few that it writes: UDP, and ICMP errors. Everything
// else of a packet is the stack's business.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "net/address.h"
#include "net/mac.h"
#include "net/packet_build.h"

namespace boxlite::net {

// An IP packet in an ethernet frame. The views are into the frame.
struct IpPacket {
    MacAddress sender{};  // of the frame
    IpAddress source, destination;
    uint8_t protocol = 0;  // of the first header behind that of IP
    bool fragment = false;
    base::ByteView packet;   // with the IP header
    base::ByteView payload;  // behind it
};
// nullopt for a frame that holds none, or less than its header says.
std::optional<IpPacket> parse_ip(base::ByteView frame);

// The box's one network interface.
struct BoxInterface {
    explicit BoxInterface(const MacAddress& address) : mac(address), link_local(net::link_local(address)) {}
    MacAddress mac;
    IpAddress link_local;
};

// Whether the stack gets a frame at all: what an honest box sends, from its own addresses, and not what only
// leads into a stack's darker corners. That is ARP, neighbour discovery, echo requests, DHCP, and TCP; no
// fragments, no IP options or extension headers, no lengths that contradict each other. `ip` is what is in
// the frame, null for ARP.
bool is_for_stack(base::ByteView frame, const IpPacket* ip, const BoxInterface& box);

// Whether the header of a TCP segment is all there.
bool is_sound_tcp(base::ByteView segment);

// Whether it is an ICMP echo request, of either family.
bool is_echo_request(const IpPacket& ip);

struct Datagram {
    Endpoint source, destination;
    base::ByteView payload;
};
// nullopt when the packet is no whole datagram with a correct checksum.
std::optional<Datagram> parse_udp(const IpPacket& ip);

// A frame from the gateway to the box. Both endpoints are of one family; the payload is at most 65,507 bytes
// less the difference of the headers.
base::Bytes udp_frame(const Datagram& datagram, const MacAddress& box);

// A frame from the gateway to the box with the answer to an echo of it: `message` is as a host got it, from
// its ICMP header on, and the identifier is the box's own.
base::Bytes echo_answer(const IpAddress& from, const IpAddress& to, uint16_t id, base::ByteView message,
                        const MacAddress& box);

enum class Unreachable { kProhibited, kPort, kHost };
// Tells the sender of `ip` that its packet was not delivered. nullopt when the sender must not be told: about
// ICMP errors, fragments behind the first, and packets to groups (RFC 1122, 3.2.2 and RFC 4443, 2.4).
std::optional<base::Bytes> unreachable_frame(const IpPacket& ip, Unreachable why);

}  // namespace boxlite::net
