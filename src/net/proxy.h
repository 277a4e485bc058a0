// The host's HTTP proxies, as whoever started the box named them in the environment: what goes through which.
// Thread safety: immutable.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "net/address.h"

namespace boxlite::net {

struct ProxyServer {
    std::vector<Endpoint> addresses;  // tried in this order; never empty
    std::string authorization;        // value of Proxy-Authorization, or ""
};

class Proxies {
  public:
    // `plain`: for port 80; `others`: for all other ports. `direct`: the parts of a NO_PROXY list, by curl's
    // rules: "*", names (which stand for what is below them too, with or without a dot in front), addresses
    // and blocks, each with ":PORT" where it is about one. Loopback is always reached directly.
    Proxies() = default;
    Proxies(std::optional<ProxyServer> plain, std::optional<ProxyServer> others,
            std::vector<std::string> direct)
        : plain_(std::move(plain)), others_(std::move(others)), direct_(std::move(direct)) {}

    // For a connection to `host`, a normalized name or the text of an address; nullptr: directly.
    const ProxyServer* find(std::string_view host, uint16_t port) const;
    // Whether connections to any port of `host` go through a proxy.
    bool carries(std::string_view host) const { return find(host, 80) || find(host, 443); }
    // Whether a proxy listens there.
    bool listens_at(const Endpoint& endpoint) const;

  private:
    bool is_direct(std::string_view host, uint16_t port) const;

    std::optional<ProxyServer> plain_;
    std::optional<ProxyServer> others_;
    std::vector<std::string> direct_;
};

}  // namespace boxlite::net
