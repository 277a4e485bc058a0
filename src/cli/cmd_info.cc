#include "cli/command.h"
#include "cli/completion.h"
#include "cli/format.h"

namespace boxlite::cli {

namespace {

Result<int> info(Context& context, const Arguments& arguments) {
    const Runtime runtime = TRY(context.runtime());
    const RuntimeInfo info = TRY(runtime.info());
    Value value;
    value["version"] = info.version;
    value["homeDir"] = info.home;
    value["engine"] = info.engine;
    value["isolation"] = info.isolation;
    if (!info.engine_reason.empty()) value["engineReason"] = info.engine_reason;
    value["os"] = info.os;
    value["arch"] = info.arch;
    value["hostKernel"] = info.host_kernel;
    value["boxesTotal"] = info.boxes_total;
    value["boxesRunning"] = info.boxes_running;
    value["boxesStopped"] = info.boxes_stopped;
    value["boxesConfigured"] = info.boxes_configured;
    value["imagesCount"] = info.images;
    const std::string text = TRY(format_items(arguments.value("format", "yaml"), {value}, {}, true));
    return write_out(text) ? 0 : kExitBrokenPipe;
}

Result<int> show_version(Context&, const Arguments& arguments) {
    if (!arguments.has("format")) return write_out("boxlite " + version() + "\n") ? 0 : kExitBrokenPipe;
    Value value;
    value["version"] = version();
    const std::string text = TRY(format_items(arguments.value("format"), {value}, {}, true));
    return write_out(text) ? 0 : kExitBrokenPipe;
}

Result<int> completion(Context&, const Arguments& arguments) {
    const std::string script = TRY(completion_script(arguments.operands.front()));
    return write_out(script) ? 0 : kExitBrokenPipe;
}

}  // namespace

std::vector<Command> info_commands() {
    return {
        {.name = "info",
         .summary = "Show what this BoxLite and its home are",
         .flags = {{0, "format", "FORMAT", "yaml, json or a Go template (yaml)"}},
         .most = 0,
         .run = info},
        {.name = "version",
         .summary = "Show the version",
         .flags = {{0, "format", "FORMAT", "json, yaml or a Go template"}},
         .most = 0,
         .run = show_version},
        {.name = "completion",
         .operands = "bash|zsh|fish",
         .summary = "Print a completion script for a shell",
         .least = 1,
         .most = 1,
         .run = completion},
    };
}

}  // namespace boxlite::cli
