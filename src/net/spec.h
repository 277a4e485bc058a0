// From messages to what the network's processes work with.
#pragma once

#include <vector>

#include "net/placeholders.h"
#include "net/policy.h"
#include "rpc/box.pb.h"

namespace boxlite::net {

inline Policy::Text policy_text(const v1::NetworkPolicy& policy) {
    Policy::Text text;
    if (policy.has_allow()) text.allow.emplace(policy.allow().begin(), policy.allow().end());
    text.deny.assign(policy.deny().begin(), policy.deny().end());
    return text;
}

// kInvalidArgument for a secret that is none; see check_secret_name().
template <typename Secrets>
Result<std::vector<SecretName>> secret_names(const Secrets& secrets) {
    std::vector<SecretName> names;
    for (const v1::SecretSpec& secret : secrets) {
        names.push_back({secret.name(),
                         secret.placeholder(),
                         {secret.hosts().begin(), secret.hosts().end()},
                         secret.in_query()});
        TRY(check_secret_name(names.back()));
    }
    return names;
}

}  // namespace boxlite::net
