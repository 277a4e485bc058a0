// The box's ICMP echoes to the outside: each identifier and destination is a connected ICMP socket of the
// host ("ping socket"), which only sends echoes and gets only their answers. Where the host lets nobody have
// one (net.ipv4.ping_group_range), the destination is unreachable.
// Thread safety: the loop's thread.
#pragma once

#include <functional>

#include "net/dialing.h"
#include "net/flow.h"
#include "net/packet.h"
#include "net/quiet_table.h"

namespace boxlite::net {

class Echoes {
  public:
    static constexpr size_t kMaxFlows = 256;  // then the one that was quiet longest goes

    Echoes(base::EventLoop& loop, const Dialing& dialing, FlowLog& log,
           std::function<void(base::ByteView)> send);

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
    };
    Entry* open(const Key& key, const IpPacket& ip);
    void receive(const Key& key);

    base::EventLoop& loop_;
    const Dialing& dialing_;
    FlowLog& log_;
    std::function<void(base::ByteView)> send_;
    QuietTable<Key, Entry> entries_;
    base::Bytes buffer_;
};

}  // namespace boxlite::net
