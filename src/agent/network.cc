#include "agent/network.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <linux/if_ether.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <vector>

#include "base/bytes.h"
#include "base/fd.h"

namespace boxlite::agent {

namespace {

constexpr const char* kInterface = "eth0";
constexpr const char* kAcceptRa = "/proc/sys/net/ipv6/conf/eth0/accept_ra";

struct Address {
    int family = AF_INET;
    uint8_t bytes[16] = {};
    uint8_t prefix = 0;
    size_t size() const { return family == AF_INET ? 4 : 16; }
    bool operator==(const Address&) const = default;
};

Result<Address> parse_address(const std::string& text) {
    Address address;
    const size_t slash = text.find('/');
    const std::string host = text.substr(0, slash);
    if (host.find(':') != std::string::npos) address.family = AF_INET6;
    bool good = ::inet_pton(address.family, host.c_str(), address.bytes) == 1;
    if (slash != std::string::npos) {
        const char* end = text.data() + text.size();
        good = good && std::from_chars(text.data() + slash + 1, end, address.prefix).ptr == end;
    }
    if (!good) return base::make_error(ErrorCode::kInvalidArgument, "'{}' is no address", text);
    return address;
}

// One request with its attributes.
class Request {
  public:
    template <typename Header>
    Request(uint16_t type, uint16_t flags, const Header& header) {
        nlmsghdr head{};
        head.nlmsg_type = type;
        head.nlmsg_flags = static_cast<uint16_t>(NLM_F_REQUEST | NLM_F_ACK | flags);
        append(&head, sizeof head);
        append(&header, sizeof header);
    }
    void attribute(uint16_t type, const void* data, size_t size) {
        const rtattr head{static_cast<uint16_t>(sizeof(rtattr) + size), type};
        append(&head, sizeof head);
        append(data, size);
    }
    void attribute(uint16_t type, uint32_t value) { attribute(type, &value, sizeof value); }
    base::ByteView finish() {
        base::store_le(bytes_.data(), static_cast<uint32_t>(bytes_.size()));
        return bytes_;
    }

  private:
    // Everything is aligned to 4 bytes.
    void append(const void* data, size_t size) {
        const auto* from = static_cast<const uint8_t*>(data);
        bytes_.insert(bytes_.end(), from, from + size);
        bytes_.resize((bytes_.size() + 3) / 4 * 4);
    }
    base::Bytes bytes_;
};

Result<void> perform(const base::Fd& socket, Request request, const char* what) {
    TRY(base::write_all(socket.get(), request.finish()));
    struct {
        nlmsghdr head;
        nlmsgerr error;
        uint8_t rest[1024];
    } answer;
    const ssize_t n = ::recv(socket.get(), &answer, sizeof answer, 0);
    if (n < static_cast<ssize_t>(sizeof answer.head + sizeof answer.error.error) ||
        answer.head.nlmsg_type != NLMSG_ERROR)
        return base::make_error(ErrorCode::kInternal, "cannot {}: rtnetlink gives no answer", what);
    if (answer.error.error != 0) return Error::from_errno(ErrorCode::kInternal, what, -answer.error.error);
    return {};
}

ifinfomsg link_message(unsigned index, unsigned flags) {
    ifinfomsg link{};
    link.ifi_family = AF_UNSPEC;
    link.ifi_index = static_cast<int>(index);
    link.ifi_flags = flags;
    link.ifi_change = IFF_UP;
    return link;
}

Request up_request(unsigned index, uint32_t mtu) {
    Request request(RTM_NEWLINK, 0, link_message(index, IFF_UP));
    request.attribute(IFLA_MTU, mtu);
    return request;
}

Request mac_request(unsigned index, const std::string& mac) {
    Request request(RTM_NEWLINK, 0, link_message(index, 0));
    request.attribute(IFLA_ADDRESS, mac.data(), mac.size());
    return request;
}

Request address_request(unsigned index, const Address& address) {
    ifaddrmsg message{};
    message.ifa_family = static_cast<uint8_t>(address.family);
    message.ifa_prefixlen = address.prefix;
    message.ifa_flags = IFA_F_NODAD;  // nobody else is there
    message.ifa_scope = RT_SCOPE_UNIVERSE;
    message.ifa_index = index;
    Request request(RTM_NEWADDR, NLM_F_CREATE | NLM_F_REPLACE, message);
    request.attribute(IFA_LOCAL, address.bytes, address.size());
    request.attribute(IFA_ADDRESS, address.bytes, address.size());
    return request;
}

Request removal_request(unsigned index, const Address& address) {
    ifaddrmsg message{};
    message.ifa_family = static_cast<uint8_t>(address.family);
    message.ifa_prefixlen = address.prefix;
    message.ifa_index = index;
    Request request(RTM_DELADDR, 0, message);
    request.attribute(IFA_LOCAL, address.bytes, address.size());
    return request;
}

// `source`: the address that connections come from which have not chosen one.
Request route_request(unsigned index, const Address& gateway, const Address& source) {
    rtmsg route{};
    route.rtm_family = static_cast<uint8_t>(gateway.family);
    route.rtm_table = RT_TABLE_MAIN;
    route.rtm_protocol = RTPROT_STATIC;
    route.rtm_scope = RT_SCOPE_UNIVERSE;
    route.rtm_type = RTN_UNICAST;
    Request request(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE, route);
    request.attribute(RTA_GATEWAY, gateway.bytes, gateway.size());
    request.attribute(RTA_PREFSRC, source.bytes, source.size());
    request.attribute(RTA_OIF, index);
    return request;
}

bool has_mac(const std::string& wanted) {
    ifreq request{};
    std::memcpy(request.ifr_name, kInterface, std::strlen(kInterface) + 1);
    const base::Fd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    return ::ioctl(socket.get(), SIOCGIFHWADDR, &request) == 0 &&
           std::memcmp(request.ifr_hwaddr.sa_data, wanted.data(), wanted.size()) == 0;
}

// In a machine that goes on from another one's memory, the interface is up and has that one's addresses.
// Those of IPv6 and the routes go when it is taken down, and its link-local address is made anew.
Result<void> change_mac(const base::Fd& socket, unsigned index, const std::string& mac) {
    if (mac.size() != ETH_ALEN)
        return base::make_error(ErrorCode::kInvalidArgument, "the network interface is to have no address");
    if (has_mac(mac)) return {};
    return perform(socket, mac_request(index, mac), "give the network interface its address");
}

std::vector<Address> addresses_of_interface() {
    std::vector<Address> found;
    ifaddrs* all = nullptr;
    if (::getifaddrs(&all) < 0) return found;
    for (const ifaddrs* entry = all; entry; entry = entry->ifa_next) {
        if (!entry->ifa_addr || entry->ifa_addr->sa_family != AF_INET || !entry->ifa_netmask ||
            std::strcmp(entry->ifa_name, kInterface) != 0)
            continue;
        const auto bits_of = [](const sockaddr* address) {
            return reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr;
        };
        const uint32_t bits = bits_of(entry->ifa_addr);
        Address address;
        std::memcpy(address.bytes, &bits, sizeof bits);
        address.prefix = static_cast<uint8_t>(std::popcount(bits_of(entry->ifa_netmask)));
        found.push_back(address);
    }
    ::freeifaddrs(all);
    return found;
}

}  // namespace

Result<void> set_up_network(const v1::GuestNetwork& network) {
    const unsigned index = ::if_nametoindex(kInterface);
    if (index == 0) return base::errno_error(ErrorCode::kNotFound, "find the interface {}", kInterface);
    const base::Fd accept_ra(::open(kAcceptRa, O_WRONLY | O_CLOEXEC));
    if (accept_ra.valid()) (void)!::write(accept_ra.get(), "0", 1);
    const base::Fd socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
    if (!socket.valid()) return base::errno_error(ErrorCode::kInternal, "make an rtnetlink socket");
    std::vector<Address> wanted;
    for (const std::string& text : network.addresses()) wanted.push_back(TRY(parse_address(text)));
    TRY(change_mac(socket, index, network.mac()));
    for (const Address& old : addresses_of_interface())
        if (std::find(wanted.begin(), wanted.end(), old) == wanted.end())
            TRY(perform(socket, removal_request(index, old), "remove an address"));
    TRY(perform(socket, up_request(index, network.mtu()), "bring up the network interface"));
    for (const Address& address : wanted)
        TRY(perform(socket, address_request(index, address), "set an address"));
    for (const std::string& text : network.gateways()) {
        const Address gateway = TRY(parse_address(text));
        const auto source = std::find_if(wanted.begin(), wanted.end(), [&](const Address& address) {
            return address.family == gateway.family;
        });
        if (source == wanted.end())
            return base::make_error(ErrorCode::kInvalidArgument, "no address goes with the gateway {}", text);
        TRY(perform(socket, route_request(index, gateway, *source), "set a default route"));
    }
    return {};
}

}  // namespace boxlite::agent
