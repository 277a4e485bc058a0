#include "net/tls/guard.h"

namespace boxlite::net::tls {

std::string Guard::check(std::string_view authority, std::string_view method, std::string_view target) const {
    if (authority != host)
        return fmt::format("its TLS is for '{}' and its request for '{}'", host, authority);
    const Verdict verdict = policy.request({.tls = true,
                                            .host = host,
                                            .port = port,
                                            .method = method,
                                            .target = target,
                                            .by_request = by_request});
    return verdict.allowed ? std::string() : verdict.rule;
}

}  // namespace boxlite::net::tls
