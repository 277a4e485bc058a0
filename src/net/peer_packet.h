// What boxes of a private network say to each other: TCP, UDP, ICMP echoes and ICMP errors, in whole packets
// without IP options or extension headers. Nothing else passes between them.
#pragma once

#include "net/packet.h"
#include "net/policy.h"

namespace boxlite::net {

struct PeerPacket {
    enum class Kind {
        kData,    // of a flow
        kAnswer,  // an echo's, which opens no flow
        kError,   // about a packet of the flow that went the other way
    };
    Kind kind = Kind::kData;
    Protocol protocol = Protocol::kTcp;
    // Of the flow, in the direction of this packet. Of an echo, its identifier is the port of the one who
    // asks, and the other has none.
    Endpoint source, destination;
    size_t data_bytes = 0;
    // Of TCP.
    bool opens = false;   // SYN without ACK
    bool ends = false;    // FIN
    bool resets = false;  // RST
    uint32_t sequence = 0;
    uint32_t next_sequence = 0;  // behind this segment
    uint32_t acknowledged = 0;
    bool acknowledges = false;
};
// nullopt for everything else.
std::optional<PeerPacket> parse_peer_packet(const IpPacket& ip);

// A TCP segment from `from` that ends the other side's connection, in an ethernet frame to `to_mac`.
// `sequence`: the next that it expects. `acknowledged`: what it has sent, where it has sent nothing but its
// SYN.
base::Bytes reset_frame(const Endpoint& from, const Endpoint& to, uint32_t sequence,
                        std::optional<uint32_t> acknowledged, const MacAddress& to_mac);

}  // namespace boxlite::net
