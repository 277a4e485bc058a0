// The box's UDP: each pair of a port of the box and a destination is a connected socket of the host, so that
// only the destination can answer. Published ports work the other way round: each peer is a flow.
// Thread safety: the loop's thread.
#pragma once

#include <functional>

#include "net/dialing.h"
#include "net/flow.h"
#include "net/packet.h"
#include "net/pins.h"
#include "net/quiet_table.h"

namespace boxlite::net {

class UdpFlows {
  public:
    static constexpr size_t kMaxFlows = 4096;  // then the one that was quiet longest goes

    UdpFlows(base::EventLoop& loop, const Dialing& dialing, FlowLog& log, const MacAddress& box,
             std::function<void(base::ByteView)> send);
    ~UdpFlows();
    UdpFlows(const UdpFlows&) = delete;
    UdpFlows& operator=(const UdpFlows&) = delete;

    // A datagram from the box, and the packet that it came in.
    void input(const Datagram& datagram, const IpPacket& ip);
    // Ends what the rules refuse by now.
    void recheck();
    // Datagrams to `socket`, bound and non-blocking, go to that port of the box.
    Result<void> publish(base::Fd socket, uint16_t box_port);

  private:
    struct Key {
        Endpoint box, peer;
        auto operator<=>(const Key&) const = default;
    };
    struct Entry {
        Flow flow;
        base::Fd socket;                     // of its own; none for a flow through a published port
        int published = -1;                  // the socket of that one
        Endpoint real_peer;                  // where its datagrams go to
        std::optional<base::Bytes> refusal;  // for the box, when nobody listens there
        bool answered = false;
    };

    Entry* open(const Key& key, const IpPacket& ip);
    void transmit(const Key& key, Entry& entry, const Datagram& datagram, const IpPacket& ip);
    void receive(const Key& key);
    void receive_published(int fd, uint16_t box_port);

    base::EventLoop& loop_;
    const Dialing& dialing_;
    FlowLog& log_;
    const MacAddress box_;
    std::function<void(base::ByteView)> send_;
    QuietTable<Key, Entry> entries_;
    std::vector<base::Fd> published_;
    base::Bytes buffer_;
};

}  // namespace boxlite::net
