#include <charconv>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/network_tunnel.h"
#include "cli/output.h"

namespace boxlite::cli {

namespace {

std::string outside(const PortMapping& port) {
    const bool v6 = port.host_address.find(':') != std::string::npos;
    return fmt::format("{}{}{}:{}", v6 ? "[" : "", port.host_address, v6 ? "]" : "", port.host_port);
}

// As Docker's: all of them, or where one of the box's ports is reached.
Result<int> port(Context& context, const Arguments& arguments) {
    const Runtime runtime = TRY(context.runtime());
    const BoxInfo info = TRY(TRY(runtime.get(arguments.operands.front())).info());
    if (info.status != BoxStatus::kRunning)
        return base::make_error(ErrorCode::kStopped, "box '{}' is not running: its ports are not bound",
                                info.name);
    std::string out;
    if (arguments.operands.size() == 1) {
        for (const PortMapping& port : info.ports)
            out += fmt::format("{}/{} -> {}\n", port.box_port, port.udp ? "udp" : "tcp", outside(port));
        return write_out(out) ? 0 : kExitBrokenPipe;
    }
    std::string wanted = arguments.operands[1];
    if (wanted.find('/') == std::string::npos) wanted += "/tcp";
    for (const PortMapping& port : info.ports)
        if (fmt::format("{}/{}", port.box_port, port.udp ? "udp" : "tcp") == wanted)
            out += outside(port) + "\n";
    if (out.empty())
        return base::make_error(ErrorCode::kNotFound, "port {} of box '{}' is not published", wanted,
                                info.name);
    return write_out(out) ? 0 : kExitBrokenPipe;
}

std::string text_line(const FlowRecord& flow) {
    std::string line = fmt::format("{} {} {} {}", flow.time, flow.allowed ? "allowed" : "refused",
                                   flow.direction, flow.protocol);
    const bool v6 = flow.address.find(':') != std::string::npos;
    if (!flow.name.empty()) line += " " + flow.name;
    if (!flow.address.empty()) line += fmt::format(" {}{}{}", v6 ? "[" : "", flow.address, v6 ? "]" : "");
    if (flow.port != 0) line += fmt::format("{}{}", flow.address.empty() ? " port " : ":", flow.port);
    if (flow.allowed)
        line +=
            fmt::format(" sent={} received={} ms={}", flow.sent_bytes, flow.received_bytes, flow.duration_ms);
    if (!flow.error.empty()) line += fmt::format(" error=\"{}\"", flow.error);
    return line + fmt::format(" ({})\n", flow.rule);
}

std::string json_line(const FlowRecord& flow) {
    const nlohmann::ordered_json line = {
        {"time", flow.time},
        {"verdict", flow.allowed ? "allowed" : "refused"},
        {"direction", flow.direction},
        {"protocol", flow.protocol},
        {"name", flow.name},
        {"address", flow.address},
        {"port", flow.port},
        {"rule", flow.rule},
        {"sent_bytes", flow.sent_bytes},
        {"received_bytes", flow.received_bytes},
        {"duration_ms", flow.duration_ms},
        {"error", flow.error},
    };
    return line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

Result<int> log(Box& box, const Arguments& arguments) {
    const std::string format = arguments.value("format", "text");
    if (format != "text" && format != "json")
        return base::make_error(ErrorCode::kInvalidArgument,
                                "invalid value '{}' for --format: one of text, json is needed", format);
    LogOptions options;
    options.follow = arguments.enabled("follow");
    if (arguments.has("tail")) options.tail = TRY(arguments.number("tail", 0, 0, UINT64_MAX));
    bool broken = false;
    TRY(box.network_log(options, [&](const FlowRecord& flow) {
        broken = !write_out(format == "json" ? json_line(flow) : text_line(flow));
        return !broken;
    }));
    return broken ? kExitBrokenPipe : 0;
}

Result<int> tunnel(Box& box, const std::string& text, const Arguments& arguments) {
    uint16_t port = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
    if (error != std::errc() || end != text.data() + text.size() || port == 0)
        return base::make_error(ErrorCode::kInvalidArgument, "'{}' is no port: 1 to 65535 are", text);
    if (arguments.has("listen")) return tunnel_listener(box, port, arguments.value("listen"));
    return tunnel_standard_streams(box, port);
}

Result<int> network(Context& context, const Arguments& arguments) {
    const std::vector<std::string>& words = arguments.operands;
    const std::string& action = words[0];
    if (action != "log" && action != "tunnel")
        return base::make_error(ErrorCode::kInvalidArgument, "unknown action '{}'; there are log and tunnel",
                                action);
    if (words.size() != (action == "log" ? 2 : 3))
        return base::make_error(ErrorCode::kInvalidArgument, "network {} needs {}", action,
                                action == "log" ? "a box and nothing else" : "a box and a port inside it");
    const Runtime runtime = TRY(context.runtime());
    Box box = TRY(runtime.get(words[1]));
    return action == "log" ? log(box, arguments) : tunnel(box, words[2], arguments);
}

}  // namespace

std::vector<Command> network_commands() {
    return {{.name = "port",
             .operands = "BOX [PORT[/udp]]",
             .summary = "Show where the published ports of a box are reached",
             .least = 1,
             .most = 2,
             .run = port,
             .operand_kind = "box"},
            {.name = "network",
             .operands = "log|tunnel BOX [PORT]",
             .summary = "Show the connections of a box that have ended and what was refused, or connect to "
                        "a port inside it",
             .flags = {{'f', "follow", "", "log: go on until the box stops"},
                       {'n', "tail", "N", "log: only the last lines"},
                       {0, "format", "FORMAT", "log: text or json (text)"},
                       {0, "listen", "ADDRESS",
                        "tunnel: for each connection to PORT, ADDR:PORT or unix:/PATH of the host, instead "
                        "of once on standard input and output"}},
             .least = 2,
             .most = 3,
             .run = network,
             .operand_kind = "box"}};
}

}  // namespace boxlite::cli
