// A box of a private network, as the others know it.
#pragma once

#include <string>

#include "base/result.h"
#include "net/mac.h"
#include "rpc/box.pb.h"

namespace boxlite::net {

// What the boxes of one private network have their addresses from.
struct Subnets {
    Prefix v4, v6;
    // Those that an address of each belongs to.
    static Subnets of(const IpAddress& v4, const IpAddress& v6);
    bool contains(const IpAddress& address) const { return v4.contains(address) || v6.contains(address); }
};

struct Member {
    std::string box_id;
    std::string name;  // of the box
    MacAddress mac{};
    IpAddress v4, v6;

    const IpAddress& address(bool is_v4) const { return is_v4 ? v4 : v6; }
    // The names that it is reached by: in its network's zone, and alone where that is one label.
    std::vector<std::string> host_names() const;
};

// kInvalidArgument for one whose parts are none, or not of their kind.
Result<Member> member_from(const v1::NetworkMember& message);
v1::NetworkMember to_message(const Member& member);

}  // namespace boxlite::net
