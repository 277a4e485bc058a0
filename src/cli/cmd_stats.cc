#include <unistd.h>

#include <map>
#include <thread>

#include "cli/command.h"
#include "cli/format.h"
#include "cli/terminal.h"

namespace boxlite::cli {

namespace {

using std::chrono::milliseconds;

// What the processor's use is measured over.
constexpr milliseconds kOnce{200};
constexpr milliseconds kStream{1000};

Value describe(const Box& box, const BoxStats& stats) {
    const auto of_network = [&](uint64_t number) {
        return stats.has_network ? Value(number) : Value(nullptr);
    };
    Value item;
    item["id"] = box.id();
    item["name"] = box.name();
    item["cpu_percent"] = stats.cpu_percent;
    item["cpu_ns"] = stats.cpu_ns;
    item["memory_bytes"] = stats.memory_bytes;
    item["memory_limit_bytes"] = stats.memory_limit_bytes;
    item["processes"] = stats.processes;
    item["commands_executed_total"] = stats.commands_executed;
    item["exec_errors_total"] = stats.exec_errors;
    item["boot_timing"] = {{"guest_boot", stats.boot_ms}};
    item["disk_used_bytes"] = stats.disk_used_bytes;
    item["disk_total_bytes"] = stats.disk_total_bytes;
    item["disk_read_bytes"] = stats.disk_read_bytes;
    item["disk_written_bytes"] = stats.disk_written_bytes;
    item["network_bytes_sent"] = of_network(stats.network_sent_bytes);
    item["network_bytes_received"] = of_network(stats.network_received_bytes);
    item["network_tcp_connections"] = of_network(stats.tcp_connections);
    item["network_tcp_errors"] = of_network(stats.tcp_errors);
    return item;
}

std::string number_or_none(const Value& value, bool bytes) {
    if (value.is_null()) return "--";
    return bytes ? human_bytes(value.get<uint64_t>()) : value.dump();
}

std::vector<Column> columns() {
    const auto number = [](const char* field, bool bytes) {
        return [field, bytes](const Value& item) { return number_or_none(item.at(field), bytes); };
    };
    return {{"NAME", [](const Value& item) { return item.at("name").get<std::string>(); }},
            {"CPU",
             [](const Value& item) { return fmt::format("{:.1f}%", item.at("cpu_percent").get<double>()); }},
            {"MEMORY", number("memory_bytes", true)},
            {"COMMANDS", number("commands_executed_total", false)},
            {"ERRORS", number("exec_errors_total", false)},
            {"BOOT TIME",
             [](const Value& item) {
                 return fmt::format("{} ms", item.at("boot_timing").at("guest_boot").dump());
             }},
            {"NET SENT", number("network_bytes_sent", true)},
            {"NET RECV", number("network_bytes_received", true)},
            {"TCP CONNECTIONS", number("network_tcp_connections", false)},
            {"TCP ERRORS", number("network_tcp_errors", false)},
            {"DISK READ", number("disk_read_bytes", true)},
            {"DISK WRITTEN", number("disk_written_bytes", true)}};
}

// The boxes that were named, or those that run now.
Result<std::vector<Box>> boxes_of(const Runtime& runtime, const std::vector<std::string>& names) {
    std::vector<Box> boxes;
    boxes.reserve(names.size());
    for (const std::string& name : names) boxes.push_back(TRY(runtime.get(name)));
    if (!names.empty()) return boxes;
    for (const BoxInfo& info : TRY(runtime.list())) {
        if (info.status != BoxStatus::kRunning) continue;
        if (auto box = runtime.get(info.id); box.ok()) boxes.push_back(std::move(box).value());
    }
    return boxes;
}

class Readings {
  public:
    // Of each box that can be asked. The others' errors are told once.
    std::vector<Value> take(const std::vector<Box>& boxes, bool tell) {
        std::vector<Value> items;
        for (const Box& box : boxes) {
            auto now = box.stats(milliseconds(0));
            if (!now.ok()) {
                if (tell) print_error(now.error().message);
                failed_ |= tell;
                last_.erase(box.id());
                continue;
            }
            // A box that has just come has no reading to compare with.
            if (const auto before = last_.find(box.id()); before != last_.end())
                now->cpu_percent = cpu_percent(before->second, *now);
            last_[box.id()] = *now;
            items.push_back(describe(box, *now));
        }
        return items;
    }
    bool failed() const { return failed_; }

  private:
    std::map<std::string, BoxStats> last_;
    bool failed_ = false;
};

// Output for people takes the place of the one before; else a line is a box.
Result<bool> print(const std::string& format, const std::vector<Value>& items, bool stream) {
    if (stream && format == "json") {
        std::string lines;
        for (const Value& item : items) lines += item.dump() + "\n";
        return write_out(lines);
    }
    const std::string text = TRY(format_items(format, items, columns()));
    constexpr const char* kClear = "\033[H\033[J";
    return write_out((stream && is_terminal(STDOUT_FILENO) ? kClear : "") + text);
}

Result<int> stats(Context& context, const Arguments& arguments) {
    const Runtime runtime = TRY(context.runtime());
    const bool stream = arguments.enabled("stream");
    const bool named = !arguments.operands.empty();
    const std::string format = arguments.value("format", "table");
    Readings readings;
    std::vector<Box> boxes = TRY(boxes_of(runtime, arguments.operands));
    (void)readings.take(boxes, false);
    for (bool first = true;; first = false) {
        std::this_thread::sleep_for(first || !stream ? kOnce : kStream);
        if (!named && !first) boxes = TRY(boxes_of(runtime, {}));
        const std::vector<Value> items = readings.take(boxes, named && first);
        if (!first && named && items.empty()) return 0;  // all of them have ended
        if (!TRY(print(format, items, stream))) return kExitBrokenPipe;
        if (!stream || (named && items.empty())) return readings.failed() ? kExitFailure : 0;
    }
}

}  // namespace

std::vector<Command> stats_commands() {
    return {{.name = "stats",
             .operands = "[BOX...]",
             .summary = "Show what running boxes use: processor, memory, network, disk",
             .flags = {{'s', "stream", "", "every second, until the boxes have ended"},
                       {0, "format", "FORMAT", "table, json, yaml or a Go template (table)"}},
             .run = stats,
             .operand_kind = "box"}};
}

}  // namespace boxlite::cli
