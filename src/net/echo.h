// The box's ICMP echoes to the outside: each identifier and destination is a connected ICMP socket of the
// host ("ping socket"), which only sends echoes and gets only their answers. Where the host lets nobody have
// one (net.ipv4.ping_group_range), the destination is unreachable.
// Thread safety: the loop's thread.
#pragma once

#include <functional>
#include <list>
#include <map>

#include "net/dialing.h"
#include "net/flow.h"
#include "net/packet.h"

namespace boxlite::net {

class Echoes {
  public:
    static constexpr size_t kMaxFlows = 256;  // then the one that was quiet longest goes

    Echoes(base::EventLoop& loop, const Dialing& dialing, FlowLog& log,
           std::function<void(base::ByteView)> send);
    ~Echoes();
    Echoes(const Echoes&) = delete;
    Echoes& operator=(const Echoes&) = delete;

    // An echo request from the box, of either family.
    void input(const IpPacket& ip);
    // Ends what the rules refuse by now.
    void recheck();

  private:
    struct Key {
        IpAddress box, peer;
        uint16_t id;
        auto operator<=>(const Key&) const = default;
    };
    struct Entry {
        Flow flow;
        base::Fd socket;
        MacAddress box{};
        base::Clock::time_point active_at;
        std::list<Key>::iterator order;
    };
    Entry* open(const Key& key, const IpPacket& ip);
    void receive(const Key& key);
    void close(const Key& key);
    void expire();

    base::EventLoop& loop_;
    const Dialing& dialing_;
    FlowLog& log_;
    std::function<void(base::ByteView)> send_;
    std::map<Key, Entry> entries_;
    std::list<Key> order_;  // the one that was quiet longest first
    base::EventLoop::TimerId timer_ = 0;
    base::Bytes buffer_;
};

}  // namespace boxlite::net
