// The HTTP proxies that this process's environment names, for a box that it starts.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "rpc/box.pb.h"

namespace boxlite::runtime {

// "http://user:password@proxy.example.com:3128", of which only the host is needed.
struct ProxyUrl {
    std::string host;
    uint16_t port = 80;
    std::string authorization;  // value of Proxy-Authorization; "" without a user
};
// kUnsupported for a proxy of another kind, kInvalidArgument for what is no URL. No message has the password.
Result<ProxyUrl> parse_proxy_url(std::string_view text);

// http_proxy, https_proxy, all_proxy and no_proxy, of which the lower-case ones go before; `variable` gives
// one's value, or "". One that cannot be used is left out, and `notice` is told why. nullopt: there is none.
std::optional<v1::ProxyConfig> proxies_of(const std::function<std::string(const std::string&)>& variable,
                                          const std::function<void(const std::string&)>& notice);

// That of this process's environment, in a file in memory; an invalid descriptor: there is none.
Result<base::Fd> host_proxies(const std::function<void(const std::string&)>& notice);

}  // namespace boxlite::runtime
