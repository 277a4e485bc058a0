#include "runtime/network_rules.h"

#include "base/file.h"
#include "net/policy.h"
#include "runtime/specs.h"

namespace boxlite::runtime {

Result<void> set_network_rules(const BoxImpl& box, const NetworkRules& rules) {
    TRY(net::Policy::parse({rules.allow, rules.deny}));
    if (!base::path_exists(box.folder.path))
        return base::make_error(ErrorCode::kNotFound, "no such box: {}", box.config.name);
    const base::FileLock lock = TRY(base::FileLock::acquire(box.folder.change_lock()));
    const BoxRecord before = TRY(box.runtime->state->box_by_id(box.config.id));
    if (!before.config.network)
        return base::make_error(ErrorCode::kInvalidState, "box '{}' has no network", box.config.name);
    BoxConfig config = before.config;
    config.has_allow_net = rules.allow.has_value();
    config.allow_net = rules.allow.value_or(std::vector<std::string>{});
    config.deny_net = rules.deny;
    // First what the next start will read.
    TRY(box.runtime->state->set_config(config));
    auto client = connect_client(box.folder);
    if (!client.ok()) return {};  // not running
    auto told = client->call<v1::Empty>(kBoxService, "UpdateNetwork", network_policy(config));
    if (told.ok() || told.error().code == ErrorCode::kPortal) return {};
    (void)box.runtime->state->set_config(before.config);
    return std::move(told).error().with_context("the rules stay as they were");
}

}  // namespace boxlite::runtime
