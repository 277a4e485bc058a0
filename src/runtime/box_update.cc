#include "runtime/box_update.h"

#include "base/file.h"
#include "net/policy.h"
#include "runtime/create.h"
#include "runtime/specs.h"

namespace boxlite::runtime {

namespace {

// `change` gets the configuration as it is and may refuse; `tell` the supervisor of a box that runs.
Result<void> change_config(const BoxImpl& box, const std::function<Result<void>(BoxConfig&)>& change,
                           const std::function<Result<v1::Empty>(rpc::Client&, const BoxConfig&)>& tell) {
    if (!base::path_exists(box.folder.path))
        return base::make_error(ErrorCode::kNotFound, "no such box: {}", box.config.name);
    const base::FileLock lock = TRY(base::FileLock::acquire(box.folder.change_lock()));
    const BoxRecord before = TRY(box.runtime->state->box_by_id(box.config.id));
    BoxConfig config = before.config;
    TRY(change(config));
    // First what the next start will read.
    TRY(box.runtime->state->set_config(config));
    auto client = connect_client(box.folder);
    if (!client.ok()) return {};  // not running
    auto told = tell(*client, config);
    if (told.ok() || told.error().code == ErrorCode::kPortal) return {};
    (void)box.runtime->state->set_config(before.config);
    return std::move(told).error().with_context(fmt::format("box '{}' stays as it was", box.config.name));
}

}  // namespace

Result<void> set_network_rules(const BoxImpl& box, const NetworkRules& rules) {
    TRY(net::Policy::parse({rules.allow, rules.deny}));
    return change_config(
        box,
        [&](BoxConfig& config) -> Result<void> {
            if (!config.network)
                return base::make_error(ErrorCode::kInvalidState, "box '{}' has no network", config.name);
            config.has_allow_net = rules.allow.has_value();
            config.allow_net = rules.allow.value_or(std::vector<std::string>{});
            config.deny_net = rules.deny;
            return {};
        },
        [](rpc::Client& client, const BoxConfig& config) {
            return client.call<v1::Empty>(kBoxService, "UpdateNetwork", network_policy(config));
        });
}

Result<void> set_memory(const BoxImpl& box, uint32_t mib) {
    TRY(check_memory(mib));
    return change_config(
        box,
        [&](BoxConfig& config) -> Result<void> {
            config.memory_mib = mib;
            return {};
        },
        [](rpc::Client& client, const BoxConfig& config) {
            v1::MemoryTarget target;
            target.set_mib(config.memory_mib);
            return client.call<v1::Empty>(kBoxService, "SetMemory", target);
        });
}

}  // namespace boxlite::runtime
