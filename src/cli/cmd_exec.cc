#include <unistd.h>

#include "cli/command.h"
#include "cli/process_flags.h"
#include "cli/session.h"
#include "cli/terminal.h"

namespace boxlite::cli {

namespace {

constexpr uint64_t kMaxTimeoutSeconds = 4'000'000;

Result<int> exit_code_of(const SessionEnd& end) {
    if (end.broken_pipe) return kExitBrokenPipe;
    if (end.detached) {
        print_note("detached; the program goes on");
        return 0;
    }
    if (end.status.timed_out) print_error("the program's time was up");
    return end.status.shell_code();
}

Result<boxlite::Command> program_of(const Arguments& arguments) {
    boxlite::Command program;
    program.argv = command_of(arguments);
    if (program.argv.empty())
        return base::make_error(ErrorCode::kInvalidArgument,
                                "exec needs a command: boxlite exec {} -- COMMAND",
                                arguments.operands.front());
    program.env = TRY(environment(arguments));
    program.working_dir = arguments.value("workdir");
    program.user = arguments.value("user");
    program.privileged = arguments.enabled("privileged");
    program.stdin_open = arguments.enabled("interactive");
    program.timeout = std::chrono::seconds(TRY(arguments.number("timeout", 0, 0, kMaxTimeoutSeconds)));
    if (arguments.enabled("tty")) program.tty = terminal_size(STDIN_FILENO).value_or(TerminalSize{});
    return program;
}

Result<int> exec(Context& context, const Arguments& arguments) {
    const bool detach = arguments.enabled("detach");
    if (!detach) TRY(check_terminal(arguments));
    const boxlite::Command program = TRY(program_of(arguments));
    Runtime runtime = TRY(context.runtime());
    Box box = TRY(runtime.get(arguments.operands.front()));
    auto execution = box.exec(program);
    if (!execution.ok()) {
        // From here on the box exists, so what is not found is the program.
        print_error(execution.error().message);
        if (execution.error().code == ErrorCode::kNotFound) return kExitNotFound;
        if (execution.error().code == ErrorCode::kExecution) return kExitNotExecutable;
        return kExitOwnError;
    }
    if (detach) {
        execution->disconnect();
        return 0;
    }
    SessionOptions options;
    options.forward_stdin = program.stdin_open;
    options.terminal = program.tty.has_value();
    options.may_detach = true;
    const SessionEnd end = TRY(run_session(std::move(execution).value(), options));
    return exit_code_of(end);
}

Result<int> attach(Context& context, const Arguments& arguments) {
    Runtime runtime = TRY(context.runtime());
    Box box = TRY(runtime.get(arguments.operands.front()));
    const BoxInfo info = TRY(box.info());
    SessionOptions options;
    options.forward_stdin = info.stdin_open && !arguments.enabled("no-stdin");
    options.terminal = info.tty && is_terminal(STDIN_FILENO);
    options.may_detach = true;
    Execution execution = TRY(box.attach(false));
    const SessionEnd end = TRY(run_session(std::move(execution), options));
    return exit_code_of(end);
}

std::vector<Flag> exec_flags() {
    std::vector<Flag> flags = process_flags();
    flags.push_back({'d', "detach", "", "start the program and leave it; its output is kept for nobody"});
    flags.push_back({0, "privileged", "", "all capabilities for the program"});
    flags.push_back({0, "timeout", "SECONDS", "end the program after this time"});
    return flags;
}

}  // namespace

std::vector<Command> exec_commands() {
    return {
        {.name = "exec",
         .operands = "BOX [--] COMMAND [ARG...]",
         .summary = "Run a program in a box; a stopped box that has no command of its own is started",
         .flags = exec_flags(),
         .style = Operands::kLast,
         .least = 1,
         .own_error = kExitOwnError,
         .run = exec,
         .operand_kind = "box"},
        {.name = "attach",
         .operands = "BOX",
         .summary = "Connect to the main program of a running box; ^P ^Q leaves it",
         .flags = {{0, "no-stdin", "", "do not pass on standard input"}},
         .least = 1,
         .most = 1,
         .own_error = kExitOwnError,
         .run = attach,
         .operand_kind = "box"},
    };
}

}  // namespace boxlite::cli
