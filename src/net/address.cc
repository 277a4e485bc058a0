#include "net/address.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace boxlite::net {

namespace {

struct SpecialBlock {
    const char* prefix;
    const char* use;
};

// The IANA special-purpose address registries, with the cloud metadata services that are elsewhere. The first
// match counts.
constexpr SpecialBlock kSpecialV4[] = {
    {"169.254.169.254/32", "metadata"},
    {"169.254.170.2/32", "metadata"},
    {"168.63.129.16/32", "metadata"},
    {"100.100.100.200/32", "metadata"},
    {"192.0.0.192/32", "metadata"},
    {"0.0.0.0/8", "unspecified"},
    {"10.0.0.0/8", "private"},
    {"100.64.0.0/10", "shared"},
    {"127.0.0.0/8", "loopback"},
    {"169.254.0.0/16", "link-local"},
    {"172.16.0.0/12", "private"},
    {"192.0.0.0/24", "reserved"},
    {"192.0.2.0/24", "documentation"},
    {"192.88.99.0/24", "reserved"},
    {"192.168.0.0/16", "private"},
    {"198.18.0.0/15", "benchmarking"},
    {"198.51.100.0/24", "documentation"},
    {"203.0.113.0/24", "documentation"},
    {"224.0.0.0/4", "multicast"},
    {"255.255.255.255/32", "broadcast"},
    {"240.0.0.0/4", "reserved"},
};
constexpr SpecialBlock kSpecialV6[] = {
    {"fd00:ec2::254/128", "metadata"}, {"fd20:ce::254/128", "metadata"}, {"::1/128", "loopback"},
    {"::/128", "unspecified"},         {"::ffff:0:0/96", "IPv4-mapped"}, {"::/96", "IPv4-compatible"},
    {"64:ff9b:1::/48", "private"},     {"2001::/23", "reserved"},        {"2001:db8::/32", "documentation"},
    {"3fff::/20", "documentation"},    {"fc00::/7", "private"},          {"fe80::/10", "link-local"},
    {"fec0::/10", "private"},          {"ff00::/8", "multicast"},
};
constexpr const char* kGlobalUnicast = "2000::/3";
constexpr const char* kNat64 = "64:ff9b::/96";
constexpr const char* kSixToFour = "2002::/16";

struct Block {
    Prefix prefix;
    const char* use;
};

const std::vector<Block>& special_blocks() {
    static const std::vector<Block> blocks = [] {
        std::vector<Block> all;
        for (const SpecialBlock& block : kSpecialV4) all.push_back({*Prefix::parse(block.prefix), block.use});
        for (const SpecialBlock& block : kSpecialV6) all.push_back({*Prefix::parse(block.prefix), block.use});
        return all;
    }();
    return blocks;
}

}  // namespace

IpAddress::IpAddress(base::ByteView bytes) : v4_(bytes.size() == 4) {
    std::copy_n(bytes.begin(), std::min(bytes.size(), bytes_.size()), bytes_.begin());
}

std::optional<IpAddress> IpAddress::parse(std::string_view text) {
    if (text.find('\0') != std::string_view::npos) return std::nullopt;
    const std::string copy(text);
    uint8_t bytes[16];
    if (::inet_pton(AF_INET, copy.c_str(), bytes) == 1) return IpAddress(base::ByteView(bytes, 4));
    if (::inet_pton(AF_INET6, copy.c_str(), bytes) == 1) return IpAddress(base::ByteView(bytes, 16));
    return std::nullopt;
}

std::optional<IpAddress> IpAddress::from(const sockaddr* address) {
    const auto endpoint = endpoint_of(address);
    return endpoint ? std::optional(endpoint->address) : std::nullopt;
}

std::string IpAddress::to_string() const {
    char text[INET6_ADDRSTRLEN];
    ::inet_ntop(v4_ ? AF_INET : AF_INET6, bytes_.data(), text, sizeof text);
    return text;
}

std::optional<IpAddress> IpAddress::embedded() const {
    static const Prefix nat64 = *Prefix::parse(kNat64), six_to_four = *Prefix::parse(kSixToFour);
    if (nat64.contains(*this)) return IpAddress(bytes().subspan(12, 4));
    if (six_to_four.contains(*this)) return IpAddress(bytes().subspan(2, 4));
    return std::nullopt;
}

std::string Endpoint::to_string() const {
    return address.is_v4() ? fmt::format("{}:{}", address.to_string(), port)
                           : fmt::format("[{}]:{}", address.to_string(), port);
}

SocketAddress::SocketAddress(const Endpoint& endpoint) {
    const base::ByteView bytes = endpoint.address.bytes();
    if (endpoint.address.is_v4()) {
        auto* v4 = reinterpret_cast<sockaddr_in*>(&storage);
        v4->sin_family = AF_INET;
        v4->sin_port = htons(endpoint.port);
        std::memcpy(&v4->sin_addr, bytes.data(), bytes.size());
        length = sizeof *v4;
    } else {
        auto* v6 = reinterpret_cast<sockaddr_in6*>(&storage);
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons(endpoint.port);
        std::memcpy(&v6->sin6_addr, bytes.data(), bytes.size());
        length = sizeof *v6;
    }
}

std::optional<Endpoint> endpoint_of(const sockaddr* address) {
    if (address->sa_family == AF_INET) {
        const auto* v4 = reinterpret_cast<const sockaddr_in*>(address);
        return Endpoint{IpAddress({reinterpret_cast<const uint8_t*>(&v4->sin_addr), 4}), ntohs(v4->sin_port)};
    }
    if (address->sa_family == AF_INET6) {
        const auto* v6 = reinterpret_cast<const sockaddr_in6*>(address);
        return Endpoint{IpAddress({v6->sin6_addr.s6_addr, 16}), ntohs(v6->sin6_port)};
    }
    return std::nullopt;
}

std::optional<Prefix> Prefix::parse(std::string_view text) {
    const size_t slash = text.find('/');
    const auto address = IpAddress::parse(text.substr(0, slash));
    if (!address) return std::nullopt;
    const unsigned bits = address->is_v4() ? 32 : 128;
    Prefix prefix{*address, bits};
    if (slash == std::string_view::npos) return prefix;
    const std::string_view number = text.substr(slash + 1);
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), prefix.length);
    if (error != std::errc() || end != number.data() + number.size() || prefix.length > bits)
        return std::nullopt;
    for (unsigned bit = prefix.length; bit < bits; ++bit)
        if (address->bytes()[bit / 8] & (0x80 >> bit % 8)) return std::nullopt;
    return prefix;
}

bool Prefix::contains(const IpAddress& other) const {
    if (address.is_v4() != other.is_v4()) return false;
    const unsigned whole = length / 8;
    const base::ByteView a = address.bytes(), b = other.bytes();
    if (!std::equal(a.begin(), a.begin() + whole, b.begin())) return false;
    const unsigned rest = length % 8;
    return rest == 0 || ((a[whole] ^ b[whole]) >> (8 - rest)) == 0;
}

const char* special_use(const IpAddress& address) {
    for (const Block& block : special_blocks())
        if (block.prefix.contains(address)) return block.use;
    if (address.is_v4()) return nullptr;
    if (const auto inside = address.embedded()) return special_use(*inside);
    static const Prefix global = *Prefix::parse(kGlobalUnicast);
    return global.contains(address) ? nullptr : "reserved";
}

bool is_special(const Prefix& prefix) {
    return std::any_of(special_blocks().begin(), special_blocks().end(),
                       [&](const Block& block) { return block.prefix.contains(prefix); });
}

}  // namespace boxlite::net
