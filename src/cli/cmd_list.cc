#include "base/clock.h"
#include "cli/command.h"
#include "cli/describe.h"
#include "cli/format.h"

namespace boxlite::cli {

namespace {

constexpr size_t kMaxCommand = 30;

Result<int> print(const Result<std::string>& text) {
    if (!text.ok()) return text.error();
    return write_out(*text) ? 0 : kExitBrokenPipe;
}

Result<int> list(Context& context, const Arguments& arguments) {
    const Runtime runtime = TRY(context.runtime());
    std::vector<BoxInfo> boxes = TRY(runtime.list());
    if (!arguments.enabled("all"))
        std::erase_if(boxes, [](const BoxInfo& info) {
            return info.status == BoxStatus::kConfigured || info.status == BoxStatus::kStopped ||
                   info.status == BoxStatus::kFailed;
        });
    if (arguments.enabled("quiet")) {
        std::string ids;
        for (const BoxInfo& info : boxes) ids += info.id + "\n";
        return print(ids);
    }
    const int64_t now = base::realtime_ns();
    std::vector<Value> items;
    for (const BoxInfo& info : boxes) {
        Value item = describe_box(info);
        item["StatusLine"] = status_line(info, now);
        item["Age"] = human_age(info.created_at, now);
        item["CommandLine"] = command_line(info.command, kMaxCommand);
        items.push_back(std::move(item));
    }
    const auto text_of = [](const char* field) {
        return [field](const Value& item) { return item.at(field).get<std::string>(); };
    };
    const std::vector<Column> columns = {{"ID", text_of("Id")},       {"NAME", text_of("Name")},
                                         {"IMAGE", text_of("Image")}, {"COMMAND", text_of("CommandLine")},
                                         {"CREATED", text_of("Age")}, {"STATUS", text_of("StatusLine")}};
    return print(format_items(arguments.value("format", "table"), items, columns));
}

Result<int> inspect(Context& context, const Arguments& arguments) {
    const Runtime runtime = TRY(context.runtime());
    std::vector<std::string> names = arguments.operands;
    if (arguments.enabled("latest")) {
        if (!names.empty())
            return base::make_error(ErrorCode::kInvalidArgument, "give either boxes or --latest");
        const std::vector<BoxInfo> boxes = TRY(runtime.list());
        if (boxes.empty()) return base::make_error(ErrorCode::kNotFound, "there is no box yet");
        names.push_back(boxes.front().id);
    }
    if (names.empty())
        return base::make_error(ErrorCode::kInvalidArgument, "inspect needs boxes, or --latest");
    std::vector<Value> items;
    int code = 0;
    for (const std::string& name : names) {
        const auto info = [&]() -> Result<BoxInfo> {
            const Box box = TRY(runtime.get(name));
            return box.info();
        }();
        if (info.ok()) {
            items.push_back(describe_box(*info));
        } else {
            print_error(info.error().message);
            code = kExitFailure;
        }
    }
    const int printed = TRY(print(format_items(arguments.value("format", "json"), items, {})));
    return printed != 0 ? printed : code;
}

}  // namespace

std::vector<Command> list_commands() {
    return {
        {.name = "list",
         .aliases = {"ls", "ps"},
         .summary = "List boxes",
         .flags = {{'a', "all", "", "also boxes that do not run"},
                   {'q', "quiet", "", "only ids"},
                   {0, "format", "FORMAT", "table, json, yaml or a Go template (table)"}},
         .most = 0,
         .run = list},
        {.name = "inspect",
         .operands = "BOX...",
         .summary = "Show everything about boxes",
         .flags = {{'l', "latest", "", "the newest box"},
                   {'f', "format", "FORMAT", "json, yaml or a Go template (json)"}},
         .run = inspect,
         .operand_kind = "box"},
    };
}

}  // namespace boxlite::cli
