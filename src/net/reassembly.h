// Puts packets that the box has sent in fragments together again (RFC 791, 3.2 and RFC 8200, 4.5). Memory is
// bounded: of too many that are incomplete, the oldest is given up; so is one whose fragments overlap (RFC
// 5722), and one that is not complete after a while.
// Thread safety: one thread.
#pragma once

#include <list>

#include "base/clock.h"
#include "net/packet.h"

namespace boxlite::net {

class Reassembly {
  public:
    static constexpr size_t kMaxPackets = 16;     // under way, of up to 64 KiB each
    static constexpr size_t kMaxFragments = 128;  // of each
    static constexpr std::chrono::seconds kTime{30};

    // A frame with a fragment; `ip` is what is in it. The whole packet's frame, when it is complete.
    std::optional<base::Bytes> add(base::ByteView frame, const IpPacket& ip, base::Clock::time_point now);
    size_t under_way() const { return packets_.size(); }

  private:
    struct Fragment {
        size_t offset = 0;
        bool more = false;
        uint32_t id = 0;
        uint8_t protocol = 0;
        base::ByteView data;
    };
    struct Packet {
        IpAddress source, destination;
        uint8_t protocol = 0;
        uint32_t id = 0;
        base::Clock::time_point began;
        base::Bytes head;                              // ethernet and IP headers, of the first fragment
        std::vector<std::pair<size_t, size_t>> parts;  // offset and size, in order
        base::Bytes data;
        size_t size = 0;  // of all of it, once it is known
    };
    static std::optional<Fragment> parse(const IpPacket& ip);
    static bool put(Packet& packet, const Fragment& fragment);
    static bool is_complete(const Packet& packet);
    static base::Bytes whole(const Packet& packet);

    std::list<Packet> packets_;  // oldest first
};

}  // namespace boxlite::net
