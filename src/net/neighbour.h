// Who has which address: ARP (RFC 826) and neighbour discovery (RFC 4861).
#pragma once

#include "net/packet.h"

namespace boxlite::net {

// What the box could say to make its addresses known. The stack is told at once: it does not do well with
// packets for neighbours that it does not know.
std::vector<base::Bytes> announcements(const BoxInterface& box);

struct NeighbourQuestion {
    MacAddress sender;  // of the frame
    IpAddress asker, about;
};
// `ip` is what is in the frame, if anything. nullopt for everything else, also for one who asks whether an
// address is free.
std::optional<NeighbourQuestion> parse_neighbour_question(base::ByteView frame, const IpPacket* ip);

// That the gateway's station has the address.
base::Bytes neighbour_answer(const NeighbourQuestion& question);

}  // namespace boxlite::net
