#include "cli/help.h"

#include <algorithm>

namespace boxlite::cli {

namespace {

std::string flag_list(std::span<const Flag> flags) {
    std::vector<std::pair<std::string, std::string>> lines;
    size_t widest = 0;
    for (const Flag& flag : flags) {
        std::string left = flag.letter ? fmt::format("  -{}, --{}", flag.letter, flag.name)
                                       : fmt::format("      --{}", flag.name);
        if (!flag.value.empty()) left += fmt::format(" {}", flag.value);
        widest = std::max(widest, left.size());
        lines.emplace_back(std::move(left), flag.repeats ? fmt::format("{}; may be repeated", flag.help)
                                                         : std::string(flag.help));
    }
    std::string out;
    for (const auto& [left, right] : lines) out += fmt::format("{:<{}}   {}\n", left, widest, right);
    return out;
}

}  // namespace

std::string general_help() {
    std::string out =
        "Usage: boxlite [FLAGS] COMMAND\n\n"
        "Run programs from OCI images in boxes: small machines with a Linux kernel of their own.\n\n"
        "Commands:\n";
    size_t widest = 0;
    for (const Command& command : commands()) widest = std::max(widest, command.name.size());
    for (const Command& command : commands()) {
        std::string aliases;
        for (const std::string_view alias : command.aliases)
            aliases += (aliases.empty() ? "" : ", ") + std::string(alias);
        out += fmt::format("  {:<{}}   {}{}\n", command.name, widest, command.summary,
                           aliases.empty() ? "" : fmt::format(" ({})", aliases));
    }
    out += "\nFlags:\n" + flag_list(global_flags());
    out += "\n'boxlite COMMAND --help' tells more about a command.\n";
    return out;
}

std::string command_help(const Command& command) {
    std::string out =
        fmt::format("Usage: boxlite {}{}{}{}\n\n{}.\n", command.name, command.flags.empty() ? "" : " [FLAGS]",
                    command.operands.empty() ? "" : " ", command.operands, command.summary);
    if (!command.aliases.empty()) {
        out += "\nAlso:";
        for (const std::string_view alias : command.aliases) out += fmt::format(" boxlite {}", alias);
        out += "\n";
    }
    if (!command.flags.empty()) out += "\nFlags:\n" + flag_list(command.flags);
    out += "\nGlobal flags:\n" + flag_list(global_flags());
    return out;
}

}  // namespace boxlite::cli
