#include "cli/command.h"

namespace boxlite::cli {

namespace {

std::vector<Command> all_commands() {
    std::vector<Command> all;
    for (auto group :
         {run_commands, exec_commands, lifecycle_commands, snapshot_commands, list_commands, log_commands,
          stats_commands, network_commands, update_commands, copy_commands, image_commands, info_commands})
        for (Command& command : group()) all.push_back(std::move(command));
    return all;
}

}  // namespace

std::span<const Command> commands() {
    static const std::vector<Command> all = all_commands();
    return all;
}

const Command* find_command(std::string_view name) {
    for (const Command& command : commands()) {
        if (command.name == name) return &command;
        for (const std::string_view alias : command.aliases)
            if (alias == name) return &command;
    }
    return nullptr;
}

}  // namespace boxlite::cli
