#include "net/proxy.h"

#include <algorithm>
#include <charconv>

namespace boxlite::net {

namespace {

constexpr uint16_t kHttpPort = 80;

// Takes ":PORT" off the end of "NAME:PORT" and "[ADDRESS]:PORT"; 0 without one.
uint16_t take_port(std::string_view& entry) {
    const size_t colon = entry.rfind(':');
    const bool bracket = entry.starts_with('[');
    if (colon == std::string_view::npos || (!bracket && colon != entry.find(':'))) return 0;
    if (bracket && entry[colon - 1] != ']') return 0;
    uint16_t port = 0;
    const char* end = entry.data() + entry.size();
    const auto [last, error] = std::from_chars(entry.data() + colon + 1, end, port);
    if (error != std::errc() || last != end) return 0;
    entry = entry.substr(0, colon);
    return port;
}

bool matches(std::string_view entry, std::string_view host, const std::optional<IpAddress>& address,
             uint16_t port) {
    const uint16_t only = take_port(entry);
    if (only != 0 && only != port) return false;
    if (entry == "*") return true;
    if (entry.starts_with('[') && entry.ends_with(']')) entry = entry.substr(1, entry.size() - 2);
    if (const auto block = Prefix::parse(entry)) return address && block->contains(*address);
    if (entry.starts_with('.')) entry.remove_prefix(1);
    if (entry.empty() || address || !host.ends_with(entry)) return false;
    return host.size() == entry.size() || host[host.size() - entry.size() - 1] == '.';
}

bool is_loopback(std::string_view host, const std::optional<IpAddress>& address) {
    if (!address) return host == "localhost" || host.ends_with(".localhost");
    static const Prefix loopback = *Prefix::parse("127.0.0.0/8"), loopback6 = *Prefix::parse("::1/128");
    return loopback.contains(*address) || loopback6.contains(*address);
}

}  // namespace

bool Proxies::is_direct(std::string_view host, uint16_t port) const {
    const auto address = IpAddress::parse(host);
    return is_loopback(host, address) ||
           std::any_of(direct_.begin(), direct_.end(),
                       [&](const std::string& entry) { return matches(entry, host, address, port); });
}

const ProxyServer* Proxies::find(std::string_view host, uint16_t port) const {
    const auto& server = port == kHttpPort ? plain_ : others_;
    return server && !is_direct(host, port) ? &*server : nullptr;
}

bool Proxies::listens_at(const Endpoint& endpoint) const {
    const auto is_one_of = [&](const std::optional<ProxyServer>& server) {
        return server && std::find(server->addresses.begin(), server->addresses.end(), endpoint) !=
                             server->addresses.end();
    };
    return is_one_of(plain_) || is_one_of(others_);
}

}  // namespace boxlite::net
