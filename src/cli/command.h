// One command of the CLI, and what all of them share.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "boxlite/runtime.h"
#include "cli/args.h"
#include "cli/output.h"

namespace boxlite::cli {

// What the global flags said. Opens the runtime when a command first asks for it.
class Context {
  public:
    static Result<Context> make(const Arguments& arguments);

    Result<Runtime> runtime();

  private:
    RuntimeOptions options_;
    bool debug_ = false;
    std::optional<Runtime> runtime_;
};

struct Command {
    std::string_view name;
    std::vector<std::string_view> aliases;
    std::string_view operands;  // for the usage line, for instance "IMAGE [COMMAND] [ARG...]"
    std::string_view summary;
    std::vector<Flag> flags;
    Operands style = Operands::kAnywhere;
    size_t least = 0;  // operands
    size_t most = SIZE_MAX;
    int own_error = kExitFailure;  // exit code when boxlite itself fails
    Result<int> (*run)(Context&, const Arguments&) = nullptr;
    std::string_view operand_kind;  // what completion offers: "box", "image", "file" or nothing
};

// Every command, in the order of help.
std::span<const Command> commands();
// nullptr when there is none.
const Command* find_command(std::string_view name);

std::span<const Flag> global_flags();

// ---- groups of commands, one a file

std::vector<Command> run_commands();        // run, create
std::vector<Command> exec_commands();       // exec, attach
std::vector<Command> lifecycle_commands();  // start, stop, restart, wait, rm
std::vector<Command> snapshot_commands();   // snapshot
std::vector<Command> list_commands();       // list, inspect
std::vector<Command> log_commands();        // logs
std::vector<Command> stats_commands();      // stats
std::vector<Command> network_commands();    // port, network
std::vector<Command> update_commands();     // update
std::vector<Command> copy_commands();       // cp
std::vector<Command> image_commands();      // pull, images, rmi, import
std::vector<Command> info_commands();       // info, version, completion

// Calls `action` for each name and goes on after errors, which are printed; prints the names that went well.
Result<int> for_each_name(const std::vector<std::string>& names,
                          const std::function<Result<std::string>(const std::string&)>& action);

}  // namespace boxlite::cli
