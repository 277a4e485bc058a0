#include <unistd.h>

#include <cstring>

#include "cli/command.h"
#include "cli/process_flags.h"
#include "cli/progress.h"
#include "cli/session.h"
#include "cli/terminal.h"

namespace boxlite::cli {

namespace {

Result<Box> create_box(Runtime& runtime, const BoxOptions& options, bool quiet) {
    ProgressDisplay progress(quiet);
    return runtime.create(options, progress.sink());
}

// The main process did not come up: say it as a shell would.
int exit_code_of_failed_start(const Error& error) {
    if (error.code == ErrorCode::kNotFound) return kExitNotFound;
    if (error.code == ErrorCode::kExecution) return kExitNotExecutable;
    return kExitOwnError;
}

Result<int> attached(Runtime& runtime, Box& box, const BoxOptions& options) {
    StartOptions start;
    if (options.tty) start.terminal = terminal_size(STDIN_FILENO);
    auto execution = box.run(start);
    if (!execution.ok()) {
        if (options.auto_remove) (void)runtime.remove(box.id(), true);
        print_error(execution.error().message);
        return exit_code_of_failed_start(execution.error());
    }
    SessionOptions session;
    session.forward_stdin = options.stdin_open;
    session.terminal = options.tty;
    auto end = run_session(std::move(execution).value(), session);
    if (options.auto_remove) {
        const auto removed = runtime.remove(box.id(), true);
        if (!removed.ok() && removed.error().code != ErrorCode::kNotFound)
            print_error(removed.error().message);
    } else if (end.ok() && !end->broken_pipe) {
        // The files are on the disk when this returns.
        TRY(box.wait());
    }
    const SessionEnd result = TRY(std::move(end));
    return result.broken_pipe ? kExitBrokenPipe : result.status.shell_code();
}

// The values are where they are needed, or will be when the box is started.
void forget_secrets(BoxOptions& options) {
    for (Secret& secret : options.network.secrets) {
        ::explicit_bzero(secret.value.data(), secret.value.size());
        secret.value.clear();
    }
}

Result<int> run(Context& context, const Arguments& arguments) {
    BoxOptions options = TRY(box_options(arguments));
    options.job = true;
    options.detach = arguments.enabled("detach");
    if (!options.detach) TRY(check_terminal(arguments));
    Runtime runtime = TRY(context.runtime());
    Box box = TRY(create_box(runtime, options, arguments.enabled("quiet")));
    forget_secrets(options);
    if (!options.detach) return attached(runtime, box, options);
    const auto started = box.start();
    if (!started.ok()) {
        if (options.auto_remove) (void)runtime.remove(box.id(), true);
        print_error(started.error().message);
        return exit_code_of_failed_start(started.error());
    }
    return write_out(box.id() + "\n") ? 0 : kExitBrokenPipe;
}

Result<int> create(Context& context, const Arguments& arguments) {
    BoxOptions options = TRY(box_options(arguments));
    // Whoever starts it later is another process than this one.
    options.detach = true;
    Runtime runtime = TRY(context.runtime());
    const Box box = TRY(create_box(runtime, options, arguments.enabled("quiet")));
    for (const Secret& secret : options.network.secrets)
        if (!secret.value.empty())
            print_note(
                fmt::format("The value of secret {} is not kept: `boxlite start` needs it.", secret.name));
    forget_secrets(options);
    return write_out(box.id() + "\n") ? 0 : kExitBrokenPipe;
}

std::vector<Flag> flags(bool with_detach) {
    std::vector<Flag> all = process_flags();
    for (const Flag& flag : box_flags())
        if (with_detach || flag.name != "detach") all.push_back(flag);
    return all;
}

}  // namespace

std::vector<Command> run_commands() {
    return {
        {.name = "run",
         .operands = "IMAGE [COMMAND] [ARG...]",
         .summary = "Run a program in a new box",
         .flags = flags(true),
         .style = Operands::kLast,
         .least = 1,
         .own_error = kExitOwnError,
         .run = run,
         .operand_kind = "image"},
        {.name = "create",
         .operands = "IMAGE [COMMAND] [ARG...]",
         .summary = "Make a box without starting it; without a command it waits for exec",
         .flags = flags(false),
         .style = Operands::kLast,
         .least = 1,
         .run = create,
         .operand_kind = "image"},
    };
}

}  // namespace boxlite::cli
