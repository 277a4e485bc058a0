#include "net/private_network.h"

#include <algorithm>

#include "net/neighbour.h"

namespace boxlite::net {

Result<std::unique_ptr<PrivateNetwork>> PrivateNetwork::join(base::EventLoop& loop,
                                                             const v1::PrivateNetwork& spec,
                                                             const Policy& policy, FlowLog& log,
                                                             std::function<void(base::ByteView)> send) {
    std::unique_ptr<PrivateNetwork> self(new PrivateNetwork(spec.name(), std::move(send)));
    const Member member = TRY(member_from(spec.self()));
    self->log_ = &log;
    self->flows_ = std::make_unique<PeerFlows>(
        loop, policy, log, spec.name(),
        [raw = self.get(), mac = member.mac](const Endpoint& box, const Endpoint& peer, uint32_t sequence) {
            raw->send_(reset_frame(peer, box, sequence, std::nullopt, mac));
        });
    self->mesh_ = TRY(Mesh::join(
        loop, spec.folder(), member,
        {.frame = [raw = self.get()](const Member& from, base::ByteView frame) { raw->receive(from, frame); },
         .left = [raw = self.get()](const Member& gone) { raw->flows_->forget(gone); }}));
    return self;
}

bool PrivateNetwork::take(base::ByteView frame, const IpPacket* ip) {
    const Member& self = mesh_->self();
    if (frame.size() < kEthernetHeader || !std::equal(self.mac.begin(), self.mac.end(), frame.begin() + 6))
        return false;
    if (const auto question = parse_neighbour_question(frame, ip)) {
        if (!mesh_->subnets().contains(question->about)) return false;
        // Whether its own address is taken, nobody answers.
        if (question->about != self.address(question->about.is_v4())) send_(neighbour_answer(*question));
        return true;
    }
    if (!ip || !mesh_->subnets().contains(ip->destination)) return false;
    route(frame, *ip);
    return true;
}

void PrivateNetwork::route(base::ByteView frame, const IpPacket& ip) {
    const Member& self = mesh_->self();
    const auto packet = parse_peer_packet(ip);
    if (!packet) return;
    if (ip.source != self.address(ip.source.is_v4())) return refuse(ip, *packet);
    const Member* peer = mesh_->find(ip.destination);
    if (!peer) {
        if (packet->kind == PeerPacket::Kind::kData)
            log_->refuse(protocol_name(packet->protocol), packet->destination, "",
                         fmt::format("--network {}: no box that runs has this address", name_));
        if (const auto told = unreachable_frame(ip, Unreachable::kHost)) send_(*told);
        return;
    }
    switch (flows_->outgoing(*packet, *peer)) {
        case PeerFlows::Answer::kPass: {
            base::Bytes onward(frame.begin(),
                               frame.begin() + static_cast<ptrdiff_t>(kEthernetHeader + ip.packet.size()));
            std::copy(peer->mac.begin(), peer->mac.end(), onward.begin());
            return mesh_->send(*peer, onward);
        }
        case PeerFlows::Answer::kRefuse:
            return refuse(ip, *packet);
        case PeerFlows::Answer::kDrop:
            return;
    }
}

void PrivateNetwork::refuse(const IpPacket& ip, const PeerPacket& packet) {
    if (packet.protocol != Protocol::kTcp || packet.kind != PeerPacket::Kind::kData) {
        if (const auto told = unreachable_frame(ip, Unreachable::kProhibited)) send_(*told);
        return;
    }
    if (packet.resets) return;
    // RFC 9293, 3.10.7.1.
    const auto acknowledged =
        packet.acknowledges ? std::nullopt : std::optional<uint32_t>(packet.next_sequence);
    send_(reset_frame(packet.destination, packet.source, packet.acknowledges ? packet.acknowledged : 0,
                      acknowledged, ip.sender));
}

// From another box's netd, which is not trusted: only what that box may say, from its own address to this
// one's.
void PrivateNetwork::receive(const Member& from, base::ByteView frame) {
    const Member& self = mesh_->self();
    const auto ip = parse_ip(frame);
    if (!ip || ip->sender != from.mac || !std::equal(self.mac.begin(), self.mac.end(), frame.begin())) return;
    const bool v4 = ip->source.is_v4();
    if (ip->source != from.address(v4) || ip->destination != self.address(v4)) return;
    const auto packet = parse_peer_packet(*ip);
    if (!packet || flows_->incoming(*packet, from) != PeerFlows::Answer::kPass) return;
    send_(frame.first(kEthernetHeader + ip->packet.size()));
}

std::vector<IpAddress> PrivateNetwork::addresses(const std::string& host) const {
    std::vector<const Member*> all = mesh_->members();
    all.push_back(&mesh_->self());
    for (const Member* member : all) {
        const auto names = member->host_names();
        if (std::find(names.begin(), names.end(), host) != names.end()) return {member->v4, member->v6};
    }
    return {};
}

std::string PrivateNetwork::name_of(const IpAddress& address) const {
    const Member& self = mesh_->self();
    const Member* member = address == self.address(address.is_v4()) ? &self : mesh_->find(address);
    const auto names = member ? member->host_names() : std::vector<std::string>();
    return names.empty() ? std::string() : names.front();
}

}  // namespace boxlite::net
