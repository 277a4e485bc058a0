#include <unistd.h>

#include <iostream>

#include "cli/command.h"
#include "cli/secret_flags.h"
#include "cli/terminal.h"

namespace boxlite::cli {

namespace {

constexpr uint64_t kMaxGraceSeconds = 86'400;

Result<StopOptions> stop_options(const Arguments& arguments) {
    StopOptions options;
    const uint64_t fallback = static_cast<uint64_t>(kDefaultStopGrace.count()) / 1000;
    options.grace = std::chrono::seconds(TRY(arguments.number("time", fallback, 0, kMaxGraceSeconds)));
    return options;
}

Result<int> start(Context& context, const Arguments& arguments) {
    const Runtime runtime = TRY(context.runtime());
    StartOptions options;
    options.detach = true;
    options.secrets = TRY(secret_values(arguments));
    return for_each_name(arguments.operands, [&](const std::string& name) -> Result<std::string> {
        Box box = TRY(runtime.get(name));
        TRY(box.start(options));
        return name;
    });
}

Result<int> stop(Context& context, const Arguments& arguments) {
    const Runtime runtime = TRY(context.runtime());
    const StopOptions options = TRY(stop_options(arguments));
    return for_each_name(arguments.operands, [&](const std::string& name) -> Result<std::string> {
        Box box = TRY(runtime.get(name));
        TRY(box.stop(options));
        return name;
    });
}

Result<int> restart(Context& context, const Arguments& arguments) {
    const Runtime runtime = TRY(context.runtime());
    const StopOptions options = TRY(stop_options(arguments));
    StartOptions again;
    again.detach = true;
    again.secrets = TRY(secret_values(arguments));
    return for_each_name(arguments.operands, [&](const std::string& name) -> Result<std::string> {
        Box box = TRY(runtime.get(name));
        TRY(box.stop(options));
        TRY(box.start(again));
        return name;
    });
}

Result<int> wait(Context& context, const Arguments& arguments) {
    const Runtime runtime = TRY(context.runtime());
    return for_each_name(arguments.operands, [&](const std::string& name) -> Result<std::string> {
        Box box = TRY(runtime.get(name));
        const ExitStatus status = TRY(box.wait());
        return std::to_string(status.shell_code());
    });
}

Result<int> pause(Context& context, const Arguments& arguments) {
    const Runtime runtime = TRY(context.runtime());
    return for_each_name(arguments.operands, [&](const std::string& name) -> Result<std::string> {
        Box box = TRY(runtime.get(name));
        TRY(box.pause());
        return name;
    });
}

Result<int> unpause(Context& context, const Arguments& arguments) {
    const Runtime runtime = TRY(context.runtime());
    return for_each_name(arguments.operands, [&](const std::string& name) -> Result<std::string> {
        Box box = TRY(runtime.get(name));
        TRY(box.resume());
        return name;
    });
}

Result<int> fork(Context& context, const Arguments& arguments) {
    const Runtime runtime = TRY(context.runtime());
    Box box = TRY(runtime.get(arguments.operands.front()));
    ForkOptions options;
    options.count = static_cast<uint32_t>(TRY(arguments.number("count", 1, 1, kMaxForks)));
    options.name = arguments.value("name");
    options.detach = true;
    std::string ids;
    for (const Box& child : TRY(box.fork(options))) ids += child.id() + "\n";
    return write_out(ids) ? 0 : kExitBrokenPipe;
}

Result<bool> confirm(size_t count) {
    if (!is_terminal(STDIN_FILENO))
        return base::make_error(ErrorCode::kInvalidArgument,
                                "removing all boxes needs a yes; give --force to go without");
    print_note(fmt::format("Remove all {} boxes with their files? [y/N]", count));
    std::string answer;
    std::getline(std::cin, answer);
    return answer == "y" || answer == "Y" || answer == "yes";
}

Result<int> rm(Context& context, const Arguments& arguments) {
    Runtime runtime = TRY(context.runtime());
    const bool force = arguments.enabled("force");
    std::vector<std::string> names = arguments.operands;
    if (arguments.enabled("all")) {
        if (!names.empty())
            return base::make_error(ErrorCode::kInvalidArgument, "give either boxes or --all");
        for (const BoxInfo& info : TRY(runtime.list())) names.push_back(info.id);
        if (!force && !names.empty() && !TRY(confirm(names.size()))) return kExitFailure;
    } else if (names.empty()) {
        return base::make_error(ErrorCode::kInvalidArgument, "rm needs boxes, or --all");
    }
    return for_each_name(names, [&](const std::string& name) -> Result<std::string> {
        TRY(runtime.remove(name, force));
        return name;
    });
}

}  // namespace

std::vector<Command> lifecycle_commands() {
    const Flag grace{'t', "time", "SECONDS", "between the stop signal and SIGKILL (10)"};
    return {
        {.name = "start",
         .operands = "BOX...",
         .summary = "Start boxes",
         .flags = {secret_value_flag()},
         .least = 1,
         .run = start,
         .operand_kind = "box"},
        {.name = "stop",
         .operands = "BOX...",
         .summary = "Stop boxes; their files stay",
         .flags = {grace},
         .least = 1,
         .run = stop,
         .operand_kind = "box"},
        {.name = "restart",
         .operands = "BOX...",
         .summary = "Stop and start boxes",
         .flags = {grace, secret_value_flag()},
         .least = 1,
         .run = restart,
         .operand_kind = "box"},
        {.name = "pause",
         .operands = "BOX...",
         .summary = "Stop everything in boxes where it is",
         .least = 1,
         .run = pause,
         .operand_kind = "box"},
        {.name = "unpause",
         .aliases = {"resume"},
         .operands = "BOX...",
         .summary = "Let paused boxes go on",
         .least = 1,
         .run = unpause,
         .operand_kind = "box"},
        {.name = "fork",
         .operands = "BOX",
         .summary = "Make boxes that go on from where a running one is",
         .flags = {{'n', "count", "N", "how many (1)"},
                   {0, "name", "NAME", "name of the new box; of several, followed by -1, -2, ..."}},
         .least = 1,
         .most = 1,
         .run = fork,
         .operand_kind = "box"},
        {.name = "wait",
         .operands = "BOX...",
         .summary = "Wait until boxes have stopped and print their exit codes",
         .least = 1,
         .run = wait,
         .operand_kind = "box"},
        {.name = "rm",
         .operands = "BOX...",
         .summary = "Remove boxes with their files",
         .flags = {{'f', "force", "", "also running boxes"}, {'a', "all", "", "every box"}},
         .run = rm,
         .operand_kind = "box"},
    };
}

}  // namespace boxlite::cli
