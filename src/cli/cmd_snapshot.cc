#include "base/clock.h"
#include "cli/command.h"
#include "cli/describe.h"
#include "cli/format.h"

namespace boxlite::cli {

namespace {

Result<int> create(Box& box, const std::string& name, const Arguments& arguments) {
    SnapshotOptions options;
    options.memory = arguments.enabled("memory");
    TRY(box.create_snapshot(name, options));
    return write_out(name + "\n") ? 0 : kExitBrokenPipe;
}

Result<int> list(const Box& box, const Arguments& arguments) {
    const int64_t now = base::realtime_ns();
    std::vector<Value> items;
    for (const SnapshotInfo& info : TRY(box.snapshots())) {
        Value item;
        item["Name"] = info.name;
        item["Created"] = time_text(info.created_at);
        item["Age"] = human_age(info.created_at, now);
        item["Memory"] = info.memory;
        item["DiskBytes"] = info.disk_bytes;
        item["MemoryBytes"] = info.memory_bytes;
        item["Kind"] = info.memory ? "disk and memory" : "disk";
        item["Size"] = human_bytes(info.disk_bytes + info.memory_bytes);
        items.push_back(std::move(item));
    }
    const auto text_of = [](const char* field) {
        return [field](const Value& item) { return item.at(field).get<std::string>(); };
    };
    const std::vector<Column> columns = {{"NAME", text_of("Name")},
                                         {"CREATED", text_of("Age")},
                                         {"KEEPS", text_of("Kind")},
                                         {"SIZE", text_of("Size")}};
    const std::string text = TRY(format_items(arguments.value("format", "table"), items, columns));
    return write_out(text) ? 0 : kExitBrokenPipe;
}

Result<int> restore(Box& box, const std::string& name, const Arguments& arguments) {
    RestoreOptions options;
    options.memory = arguments.enabled("memory");
    options.force = arguments.enabled("force");
    options.detach = true;
    if (!arguments.has("name")) {
        TRY(box.restore_snapshot(name, options));
        return write_out(box.name() + "\n") ? 0 : kExitBrokenPipe;
    }
    const Box made = TRY(box.new_box_from_snapshot(name, arguments.value("name"), options));
    return write_out(made.id() + "\n") ? 0 : kExitBrokenPipe;
}

Result<int> snapshot(Context& context, const Arguments& arguments) {
    const std::vector<std::string>& words = arguments.operands;
    const std::string& action = words[0];
    if (action != "create" && action != "ls" && action != "rm" && action != "restore")
        return base::make_error(ErrorCode::kInvalidArgument,
                                "unknown action '{}'; there are create, ls, rm and restore", action);
    const size_t names = words.size() - 2;
    if (action == "ls" ? names != 0 : action == "rm" ? names == 0 : names != 1)
        return base::make_error(ErrorCode::kInvalidArgument, "snapshot {} needs {}", action,
                                action == "ls"   ? "a box and nothing else"
                                : action == "rm" ? "a box and the names of snapshots"
                                                 : "a box and the name of a snapshot");
    const Runtime runtime = TRY(context.runtime());
    Box box = TRY(runtime.get(words[1]));
    if (action == "create") return create(box, words[2], arguments);
    if (action == "ls") return list(box, arguments);
    if (action == "restore") return restore(box, words[2], arguments);
    return for_each_name({words.begin() + 2, words.end()},
                         [&](const std::string& name) -> Result<std::string> {
                             TRY(box.remove_snapshot(name));
                             return name;
                         });
}

}  // namespace

std::vector<Command> snapshot_commands() {
    return {
        {.name = "snapshot",
         .operands = "create|ls|rm|restore BOX [NAME...]",
         .summary = "Keep a box as it is now, and go back to that",
         .flags = {{0, "memory", "", "create, restore: with what is in memory (kvm engine)"},
                   {0, "name", "NAME", "restore: into a new box of that name"},
                   {'f', "force", "", "restore: stop the box first if it runs"},
                   {0, "format", "FORMAT", "ls: table, json, yaml or a Go template (table)"}},
         .least = 2,
         .run = snapshot},
    };
}

}  // namespace boxlite::cli
