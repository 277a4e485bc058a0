#include "net/peer_flows.h"

#include <cerrno>
#include <cstring>

namespace boxlite::net {

namespace {

using Kind = PeerPacket::Kind;
using std::chrono::seconds;

// As for other flows (see udp.cc), and for the last segments of a TCP connection that is over.
constexpr seconds kIdle{180}, kUnanswered{30};
constexpr const char* kRulesChanged = "the rules were changed";

}  // namespace

PeerFlows::PeerFlows(base::EventLoop& loop, const Policy& policy, FlowLog& log, const std::string& network,
                     Reset reset)
    : loop_(loop),
      policy_(policy),
      log_(log),
      rule_(fmt::format("--network {}", network)),
      reset_(std::move(reset)) {}

PeerFlows::~PeerFlows() {
    for (auto& [key, entry] : entries_)
        if (!entry.over) log_.close(entry.flow);
    if (timer_) loop_.cancel(timer_);
}

PeerFlows::Entry* PeerFlows::find(const Key& key) {
    const auto found = entries_.find(key);
    return found == entries_.end() ? nullptr : &found->second;
}

Verdict PeerFlows::decide(const Key& key, const std::vector<std::string>& names) const {
    Verdict verdict = policy_.connect_peer(key.protocol, key.peer, names);
    if (verdict.allowed) verdict.rule = rule_;
    if (!names.empty()) verdict.name = names.front();
    return verdict;
}

PeerFlows::Answer PeerFlows::outgoing(const PeerPacket& packet, const Member& to) {
    const Key key{packet.protocol, packet.source, packet.destination};
    Entry* entry = find(key);
    if (packet.kind != Kind::kData) return entry && !entry->refused ? Answer::kPass : Answer::kDrop;
    if (entry && packet.opens && (entry->over || entry->refused)) {
        erase(entries_.find(key));
        entry = nullptr;
    }
    if (!entry) {
        if (packet.resets) return Answer::kPass;
        const Verdict verdict = decide(key, to.host_names());
        if (!verdict.allowed) {
            log_.refuse(protocol_name(key.protocol), key.peer, verdict.name, verdict.rule);
            return Answer::kRefuse;
        }
        entry = &open(key, to, verdict);
    }
    if (entry->refused) return Answer::kRefuse;
    entry->sent = true;
    entry->box_ended |= packet.ends;
    if (packet.acknowledges) entry->expected = packet.acknowledged;
    if (!entry->over) entry->flow.sent_bytes += packet.data_bytes;
    follow(packet, *entry);
    return Answer::kPass;
}

PeerFlows::Answer PeerFlows::incoming(const PeerPacket& packet, const Member& from) {
    const Key key{packet.protocol, packet.destination, packet.source};
    Entry* entry = find(key);
    if (entry && entry->refused) return Answer::kDrop;
    if (packet.kind != Kind::kData && !entry) return Answer::kDrop;
    if (entry && packet.opens && entry->over) {
        erase(entries_.find(key));
        entry = nullptr;
    }
    if (!entry) {
        if (packet.resets) return Answer::kPass;
        const auto names = from.host_names();
        entry = &open(key, from, {true, rule_, names.empty() ? std::string() : names.front(), false});
        entry->flow.incoming = true;
    }
    if (packet.kind == Kind::kError) {
        if (!entry->over && !entry->received && !entry->flow.incoming)
            entry->flow.error = ::strerrordesc_np(EHOSTUNREACH);
        return Answer::kPass;
    }
    if (packet.resets && !entry->received && !entry->flow.incoming)
        entry->flow.error = ::strerrordesc_np(ECONNREFUSED);
    entry->received = true;
    entry->peer_ended |= packet.ends;
    if (!entry->over) entry->flow.received_bytes += packet.data_bytes;
    follow(packet, *entry);
    return Answer::kPass;
}

PeerFlows::Entry& PeerFlows::open(const Key& key, const Member& peer, const Verdict& verdict) {
    if (entries_.size() >= kMaxFlows) erase(entries_.find(order_.front()));
    Entry entry;
    entry.flow = log_.open(key.protocol, key.peer, verdict);
    // An echo's has no meaning to others.
    if (key.protocol == Protocol::kIcmp) entry.flow.peer.port = 0;
    entry.names = peer.host_names();
    entry.order = order_.insert(order_.end(), key);
    if (!timer_) timer_ = loop_.after(kUnanswered, [this] { expire(); });
    return entries_.emplace(key, std::move(entry)).first->second;
}

// The last acknowledgement of a connection that both sides have ended is still to come.
void PeerFlows::follow(const PeerPacket& packet, Entry& entry) {
    entry.active_at = base::Clock::now();
    order_.splice(order_.end(), order_, entry.order);
    if (entry.over || (!packet.resets && !(entry.box_ended && entry.peer_ended))) return;
    entry.over = true;
    log_.close(entry.flow);
}

// The box learns that a connection is over at once; who has only datagrams to send, with the next one.
void PeerFlows::end(const Key& key, Entry& entry, const char* error) {
    if (entry.over) return;
    if (key.protocol == Protocol::kTcp && entry.expected != 0) reset_(key.box, key.peer, entry.expected);
    entry.flow.error = error;
    entry.over = true;
    log_.close(entry.flow);
}

void PeerFlows::recheck() {
    for (auto& [key, entry] : entries_) {
        if (entry.flow.incoming || entry.refused) continue;
        const Verdict verdict = decide(key, entry.names);
        if (verdict.allowed) continue;
        if (!entry.over)
            log_.refuse(protocol_name(key.protocol), entry.flow.peer, entry.flow.name, verdict.rule);
        entry.flow.refused = true;
        end(key, entry, kRulesChanged);
        entry.refused = true;
    }
}

void PeerFlows::forget(const Member& member) {
    for (auto it = entries_.begin(); it != entries_.end();) {
        const auto entry = it++;
        const IpAddress& peer = entry->first.peer.address;
        if (peer != member.address(peer.is_v4())) continue;
        end(entry->first, entry->second, "the other box is gone");
        erase(entry);
    }
}

void PeerFlows::erase(Entries::iterator entry) {
    if (!entry->second.over) log_.close(entry->second.flow);
    order_.erase(entry->second.order);
    entries_.erase(entry);
}

void PeerFlows::expire() {
    timer_ = 0;
    const auto now = base::Clock::now();
    for (auto it = order_.begin(); it != order_.end();) {
        const auto found = entries_.find(*it++);
        const Entry& entry = found->second;
        const auto quiet = now - entry.active_at;
        if (quiet < kUnanswered) break;
        const bool answered = entry.sent && entry.received;
        // Of a connection that is open, nothing need come for long.
        if (answered && found->first.protocol == Protocol::kTcp && !entry.over) continue;
        if (quiet >= (entry.refused || (answered && !entry.over) ? kIdle : kUnanswered)) erase(found);
    }
    if (!entries_.empty()) timer_ = loop_.after(kUnanswered, [this] { expire(); });
}

}  // namespace boxlite::net
