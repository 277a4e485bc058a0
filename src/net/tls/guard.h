// What the requests on one intercepted connection are held against.
// Thread safety: the loop's thread.
#pragma once

#include <functional>
#include <string>

#include "net/policy.h"
#include "net/tls/secret_book.h"

namespace boxlite::net::tls {

struct Guard {
    std::string host;  // that the server has proved to be
    uint16_t port = 0;
    bool by_request = false;  // each request needs a rule that allows it
    const Policy& policy;
    SecretBook& secrets;
    // Called for each request that is refused.
    std::function<void(const std::string& rule)> refused;

    // Whether secrets may go there, and so have to be looked for in what comes back.
    bool has_secrets() const { return secrets.names().any_for(host); }
    // "" or why a request may not go out. `authority` as the request has it, without a port.
    std::string check(std::string_view authority, std::string_view method, std::string_view target) const;
};

}  // namespace boxlite::net::tls
