#include "cli/describe.h"

#include <fmt/format.h>

#include "base/clock.h"
#include "cli/output.h"

namespace boxlite::cli {

std::string time_text(int64_t ns) {
    return ns == 0 ? std::string() : base::format_time(ns);
}

namespace {

Value describe_network(const BoxInfo& info) {
    Value ports = Value::array();
    const bool running = info.status == BoxStatus::kRunning;
    for (const PortMapping& port : running ? info.ports : info.network.ports)
        ports.push_back({{"HostIp", port.host_address},
                         {"HostPort", port.host_port},
                         {"BoxPort", port.box_port},
                         {"Protocol", port.udp ? "udp" : "tcp"}});
    Value secrets = Value::array();
    for (const Secret& secret : info.network.secrets)
        secrets.push_back({{"Name", secret.name},
                           {"Hosts", secret.hosts},
                           {"Placeholder", secret.placeholder},
                           {"Query", secret.in_query},
                           {"Env", secret.env},
                           {"File", secret.file}});
    const std::string& shared = info.network.private_network;
    return {{"Mode", !info.network.enabled ? "none"
                     : shared.empty()      ? "default"
                                           : shared},
            {"MacAddress", info.mac_address},
            {"Address", info.private_address},
            {"Address6", info.private_address6},
            {"AllowNet", info.network.allow ? Value(*info.network.allow) : Value(nullptr)},
            {"DenyNet", info.network.deny},
            {"Ports", std::move(ports)},
            {"Secrets", std::move(secrets)},
            {"TrustHostCa", info.network.trust_host_ca},
            {"SendKbps", info.network.send_kbps},
            {"ReceiveKbps", info.network.receive_kbps},
            {"SentBytes", info.traffic.sent_bytes},
            {"ReceivedBytes", info.traffic.received_bytes},
            {"OpenFlows", info.traffic.open_flows},
            {"TotalFlows", info.traffic.total_flows},
            {"Refused", info.traffic.refused}};
}

}  // namespace

Value describe_box(const BoxInfo& info) {
    const std::string status(box_status_name(info.status));
    Value env = Value::array();
    for (const auto& [name, value] : info.env) env.push_back(fmt::format("{}={}", name, value));
    Value box;
    box["Id"] = info.id;
    box["Name"] = info.name;
    box["Image"] = info.image;
    box["ImageId"] = info.image_digest;
    box["Created"] = time_text(info.created_at);
    box["Status"] = status;
    box["State"] = {{"Status", status},
                    {"Running", info.status == BoxStatus::kRunning},
                    {"Pid", info.pid},
                    {"ExitCode", info.exit_code ? Value(*info.exit_code) : Value(nullptr)},
                    {"Reason", info.reason},
                    {"StartedAt", time_text(info.started_at)},
                    {"FinishedAt", time_text(info.finished_at)}};
    box["Cpus"] = info.cpus;
    box["Memory"] = info.memory_bytes;
    box["DiskSize"] = info.disk_bytes;
    box["Isolation"] = info.isolation;
    box["Engine"] = info.engine;
    box["EngineReason"] = info.engine_reason;
    box["Kernel"] = info.kernel;
    box["BootMs"] = info.boot_ms;
    box["StartedFrom"] = info.started_from;
    box["Jail"] = info.jail;
    box["Command"] = info.command;
    box["Env"] = std::move(env);
    box["WorkingDir"] = info.working_dir;
    box["User"] = info.user;
    box["Hostname"] = info.hostname;
    box["Tty"] = info.tty;
    box["OpenStdin"] = info.stdin_open;
    box["AutoRemove"] = info.auto_remove;
    box["Privileged"] = info.privileged;
    box["HugePages"] = info.huge_pages;
    box["Folder"] = info.folder;
    box["Network"] = describe_network(info);
    return box;
}

Value describe_image(const ImageInfo& info) {
    Value image;
    image["Id"] = info.id;
    image["Repository"] = info.repository;
    image["Tag"] = info.tag;
    image["Reference"] = info.reference;
    image["Digest"] = info.manifest_digest;
    image["Created"] = time_text(info.created_at);
    image["Size"] = info.size_bytes;
    return image;
}

std::string status_line(const BoxInfo& info, int64_t now_ns) {
    switch (info.status) {
        case BoxStatus::kConfigured:
            return "Created";
        case BoxStatus::kRunning: {
            std::string age = human_age(info.started_at, now_ns);
            if (age.ends_with(" ago")) age.resize(age.size() - 4);
            return "Up " + (age == "just now" ? "less than a second" : age);
        }
        case BoxStatus::kPaused:
            return "Paused";
        case BoxStatus::kStopping:
            return "Stopping";
        case BoxStatus::kUnknown:
            return "Unknown";
        case BoxStatus::kFailed:
            return fmt::format("Failed {}", human_age(info.finished_at, now_ns));
        case BoxStatus::kStopped:
            break;
    }
    const std::string code = info.exit_code ? fmt::format(" ({})", *info.exit_code) : "";
    return fmt::format("Exited{} {}", code, human_age(info.finished_at, now_ns));
}

std::string command_line(const std::vector<std::string>& argv, size_t limit) {
    std::string line;
    for (const std::string& word : argv) line += (line.empty() ? "" : " ") + word;
    if (line.size() > limit) line = line.substr(0, limit - 3) + "...";
    return line;
}

}  // namespace boxlite::cli
