#include "agent/network.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/socket.h>
#include <unistd.h>

#include <charconv>
#include <cstring>

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

Request link_request(unsigned index, uint32_t mtu) {
    ifinfomsg link{};
    link.ifi_family = AF_UNSPEC;
    link.ifi_index = static_cast<int>(index);
    link.ifi_flags = link.ifi_change = IFF_UP;
    Request request(RTM_NEWLINK, 0, link);
    request.attribute(IFLA_MTU, mtu);
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

Request route_request(unsigned index, const Address& gateway) {
    rtmsg route{};
    route.rtm_family = static_cast<uint8_t>(gateway.family);
    route.rtm_table = RT_TABLE_MAIN;
    route.rtm_protocol = RTPROT_STATIC;
    route.rtm_scope = RT_SCOPE_UNIVERSE;
    route.rtm_type = RTN_UNICAST;
    Request request(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE, route);
    request.attribute(RTA_GATEWAY, gateway.bytes, gateway.size());
    request.attribute(RTA_OIF, index);
    return request;
}

}  // namespace

Result<void> set_up_network(const v1::GuestNetwork& network) {
    const unsigned index = ::if_nametoindex(kInterface);
    if (index == 0) return base::errno_error(ErrorCode::kNotFound, "find the interface {}", kInterface);
    const base::Fd accept_ra(::open(kAcceptRa, O_WRONLY | O_CLOEXEC));
    if (accept_ra.valid()) (void)!::write(accept_ra.get(), "0", 1);
    const base::Fd socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
    if (!socket.valid()) return base::errno_error(ErrorCode::kInternal, "make an rtnetlink socket");
    TRY(perform(socket, link_request(index, network.mtu()), "bring up the network interface"));
    for (const std::string& text : network.addresses())
        TRY(perform(socket, address_request(index, TRY(parse_address(text))), "set an address"));
    for (const std::string& text : network.gateways())
        TRY(perform(socket, route_request(index, TRY(parse_address(text))), "set a default route"));
    return {};
}

}  // namespace boxlite::agent
