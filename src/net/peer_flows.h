// The flows between the box and others of its private network: which may be, and what the log tells of them.
// Being of one network lets them, and only rules that deny go before that; those are about what the box opens
// itself. Memory is bounded: of too many flows the one that was quiet longest is forgotten.
// Thread safety: the loop's thread.
#pragma once

#include <functional>
#include <list>
#include <map>

#include "base/event_loop.h"
#include "net/flow.h"
#include "net/member.h"
#include "net/peer_packet.h"

namespace boxlite::net {

class PeerFlows {
  public:
    static constexpr size_t kMaxFlows = 4096;

    enum class Answer {
        kPass,
        kRefuse,  // the sender is told at once
        kDrop,
    };
    // A connection of the box that has to be reset: `box` expects this sequence number next.
    using Reset = std::function<void(const Endpoint& box, const Endpoint& peer, uint32_t sequence)>;

    // `policy` and `log` outlive it; `policy` is read at each decision.
    PeerFlows(base::EventLoop& loop, const Policy& policy, FlowLog& log, const std::string& network,
              Reset reset);
    ~PeerFlows();
    PeerFlows(const PeerFlows&) = delete;
    PeerFlows& operator=(const PeerFlows&) = delete;

    // Packets of the box and for it, whose addresses have been checked.
    Answer outgoing(const PeerPacket& packet, const Member& to);
    Answer incoming(const PeerPacket& packet, const Member& from);

    // Ends what the rules refuse by now.
    void recheck();
    // Ends the flows of one that is gone.
    void forget(const Member& member);

  private:
    struct Key {
        Protocol protocol;
        Endpoint box, peer;
        auto operator<=>(const Key&) const = default;
    };
    struct Entry {
        Flow flow;
        std::vector<std::string> names;  // of the peer
        bool over = false;               // and in the log
        bool refused = false;            // by rules that came later
        bool box_ended = false, peer_ended = false;
        bool sent = false, received = false;
        uint32_t expected = 0;  // by the box
        base::Clock::time_point active_at;
        std::list<Key>::iterator order;
    };
    using Entries = std::map<Key, Entry>;

    Entry* find(const Key& key);
    Entry& open(const Key& key, const Member& peer, const Verdict& verdict);
    Verdict decide(const Key& key, const std::vector<std::string>& names) const;
    void follow(const PeerPacket& packet, Entry& entry);
    void end(const Key& key, Entry& entry, const char* error);
    void erase(Entries::iterator entry);
    void expire();

    base::EventLoop& loop_;
    const Policy& policy_;
    FlowLog& log_;
    const std::string rule_;
    const Reset reset_;
    Entries entries_;
    std::list<Key> order_;  // the one that was quiet longest first
    base::EventLoop::TimerId timer_ = 0;
};

}  // namespace boxlite::net
