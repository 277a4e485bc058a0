// IP addresses, blocks of them, and what they are for.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.h"

namespace boxlite::net {

// Of either family. Comparable; an IPv4 address never equals its IPv4-mapped form.
class IpAddress {
  public:
    IpAddress() = default;  // 0.0.0.0
    // 4 or 16 bytes, in network order.
    explicit IpAddress(base::ByteView bytes);
    // Dotted decimal with four parts, or RFC 4291's text without a scope. Nothing else: no octal or
    // hexadecimal parts, no missing ones.
    static std::optional<IpAddress> parse(std::string_view text);
    static std::optional<IpAddress> from(const sockaddr* address);

    bool is_v4() const { return v4_; }
    base::ByteView bytes() const { return {bytes_.data(), v4_ ? size_t{4} : size_t{16}}; }
    std::string to_string() const;

    // The IPv4 address inside of a NAT64 (64:ff9b::/96) or 6to4 (2002::/16) address.
    std::optional<IpAddress> embedded() const;

    auto operator<=>(const IpAddress&) const = default;

  private:
    bool v4_ = true;
    std::array<uint8_t, 16> bytes_{};
};

struct Endpoint {
    IpAddress address;
    uint16_t port = 0;
    auto operator<=>(const Endpoint&) const = default;
    // "192.0.2.1:80", "[2001:db8::1]:80"
    std::string to_string() const;
};

// An endpoint for system calls.
struct SocketAddress {
    sockaddr_storage storage{};
    socklen_t length = 0;
    explicit SocketAddress(const Endpoint& endpoint);
    const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
    int family() const { return storage.ss_family; }
};
std::optional<Endpoint> endpoint_of(const sockaddr* address);

struct Prefix {
    IpAddress address;
    unsigned length = 0;
    // "10.0.0.0/8", or an address alone. nullopt when it is neither, or has bits set behind its length.
    static std::optional<Prefix> parse(std::string_view text);
    bool contains(const IpAddress& other) const;
    // Whether all of `other` is inside.
    bool contains(const Prefix& other) const { return other.length >= length && contains(other.address); }
};

// What an address that is not of the public internet is for, for instance "private", "loopback",
// "link-local", "metadata", "multicast"; nullptr for a public one. IPv6 forms that carry an IPv4 address are
// what that one is, except for the mapped and compatible ones, which have no business on a wire.
const char* special_use(const IpAddress& address);
// Whether all of it has the same special use.
bool is_special(const Prefix& prefix);

}  // namespace boxlite::net
