// The boxlite command line: finds the command, reads its flags, runs it and turns errors into exit codes.
#include <signal.h>

#include "cli/command.h"
#include "cli/help.h"

namespace boxlite::cli {

namespace {

int usage_error(std::string_view message, std::string_view help) {
    print_error(message);
    print_note(fmt::format("See '{} --help'.", help));
    return kExitUsage;
}

std::vector<std::string_view> command_names() {
    std::vector<std::string_view> names;
    for (const Command& command : commands()) {
        names.push_back(command.name);
        names.insert(names.end(), command.aliases.begin(), command.aliases.end());
    }
    return names;
}

int unknown_command(const std::string& name) {
    const auto names = command_names();
    const std::string_view near = nearest(name, names);
    return usage_error(fmt::format("unknown command: {}{}", name,
                                   near.empty() ? "" : fmt::format(" (did you mean {}?)", near)),
                       "boxlite");
}

int run_command(const Command& command, const std::vector<std::string>& before,
                std::span<const std::string> after) {
    std::vector<Flag> flags = command.flags;
    flags.insert(flags.end(), global_flags().begin(), global_flags().end());
    // Global flags from before the command's name come first, so that those after it win.
    std::vector<std::string> words = before;
    words.insert(words.end(), after.begin(), after.end());
    const std::string self = fmt::format("boxlite {}", command.name);
    const auto arguments = parse_arguments(flags, command.style, words);
    if (!arguments.ok()) return usage_error(arguments.error().message, self);
    if (arguments->enabled("help")) return write_out(command_help(command)) ? 0 : kExitBrokenPipe;
    const size_t count = arguments->operands.size();
    if (count < command.least) return usage_error(fmt::format("{} needs {}", self, command.operands), self);
    if (count > command.most)
        return usage_error(fmt::format("{} takes no '{}'", self, arguments->operands[command.most]), self);
    auto context = Context::make(*arguments);
    const auto code =
        context.ok() ? command.run(*context, *arguments) : Result<int>(std::move(context).error());
    if (code.ok()) return *code;
    if (code.error().code == ErrorCode::kInvalidArgument) return usage_error(code.error().message, self);
    print_error(code.error().message);
    return command.own_error;
}

int run(std::span<const std::string> args) {
    // Global flags up to the command's name.
    std::vector<Flag> flags(global_flags().begin(), global_flags().end());
    flags.push_back({'v', "version", "", ""});
    const auto globals = parse_arguments(flags, Operands::kLast, args);
    if (!globals.ok()) return usage_error(globals.error().message, "boxlite");
    if (globals->enabled("version")) return write_out("boxlite " + version() + "\n") ? 0 : kExitBrokenPipe;
    if (globals->operands.empty()) {
        const bool asked = globals->enabled("help");
        if (asked) return write_out(general_help()) ? 0 : kExitBrokenPipe;
        print_note(general_help());
        return kExitUsage;
    }
    const size_t rest = globals->operands.size();
    const std::vector<std::string> before(args.begin(), args.end() - static_cast<ptrdiff_t>(rest));
    std::string name = globals->operands.front();
    std::span<const std::string> after = args.last(rest - 1);
    if (name == "help") {
        if (after.empty()) return write_out(general_help()) ? 0 : kExitBrokenPipe;
        const Command* about = find_command(after.front());
        return about ? (write_out(command_help(*about)) ? 0 : kExitBrokenPipe)
                     : unknown_command(after.front());
    }
    const Command* command = find_command(name);
    return command ? run_command(*command, before, after) : unknown_command(name);
}

}  // namespace

}  // namespace boxlite::cli

int main(int argc, char** argv) {
    // A closed pipe is an answer to a write, not the end of this process with a terminal left raw.
    ::signal(SIGPIPE, SIG_IGN);
    const std::vector<std::string> args(argv + std::min(argc, 1), argv + argc);
    return boxlite::cli::run(args);
}
