// What a box may connect to, its memory and its secrets, on a running one too.
#include "cli/command.h"
#include "cli/output.h"
#include "cli/process_flags.h"
#include "cli/secret_flags.h"

namespace boxlite::cli {

namespace {

// Lists that are not given stay as they are.
Result<int> update(Context& context, const Arguments& arguments) {
    if (arguments.has("allow-net") && arguments.enabled("no-allow-net"))
        return base::make_error(ErrorCode::kInvalidArgument, "give either --allow-net or --no-allow-net");
    std::optional<uint32_t> memory;
    if (arguments.has("memory")) memory = TRY(memory_mib(arguments.value("memory")));
    const Runtime runtime = TRY(context.runtime());
    const std::vector<SecretValue> secrets = TRY(secret_values(arguments));
    const bool has_rules = arguments.has("allow-net") || arguments.has("deny-net") ||
                           arguments.enabled("no-allow-net") || arguments.enabled("no-deny-net");
    return for_each_name(arguments.operands, [&](const std::string& name) -> Result<std::string> {
        Box box = TRY(runtime.get(name));
        if (memory) TRY(box.set_memory(*memory));
        if (!secrets.empty()) TRY(box.set_secrets(secrets));
        if (!has_rules) return name;
        NetworkRules rules = TRY(box.info()).network;
        if (arguments.has("allow-net")) rules.allow = arguments.values("allow-net");
        if (arguments.enabled("no-allow-net")) rules.allow.reset();
        if (arguments.has("deny-net")) rules.deny = arguments.values("deny-net");
        if (arguments.enabled("no-deny-net")) rules.deny.clear();
        TRY(box.set_network_rules(rules));
        return name;
    });
}

}  // namespace

std::vector<Command> update_commands() {
    return {{.name = "update",
             .operands = "BOX...",
             .summary = "Change what boxes may connect to and how much memory they have, also while they run",
             .flags = {{'m', "memory", "SIZE",
                        "memory; a running box (kvm engine) grows to no more than it started with"},
                       {0, "allow-net", "RULE", "the new allow-list; empty: nothing", true},
                       {0, "no-allow-net", "", "no allow-list: the public internet"},
                       {0, "deny-net", "RULE", "the new deny-list", true},
                       {0, "no-deny-net", "", "no deny-list"},
                       secret_value_flag()},
             .least = 1,
             .run = update,
             .operand_kind = "box"}};
}

}  // namespace boxlite::cli
