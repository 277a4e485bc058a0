// How the host resolves names: resolv.conf(5).
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "net/address.h"

namespace boxlite::net {

struct ResolverConfig {
    std::vector<Endpoint> servers;
    std::vector<std::string> search;
    std::chrono::milliseconds timeout{5000};  // of one server
    unsigned attempts = 2;                    // rounds over all of them

    // Never without a server: the local host is the default.
    static ResolverConfig parse(const std::string& text);
    // This host's.
    static ResolverConfig load();
};

}  // namespace boxlite::net
