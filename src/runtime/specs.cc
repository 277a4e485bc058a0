#include "runtime/specs.h"

#include <algorithm>

#include "net/mac.h"
#include "runtime/ports.h"
#include "runtime/process_settings.h"
#include "runtime/secrets.h"

namespace boxlite::runtime {

namespace {

v1::ProcessSpec process_of(const BoxConfig& config) {
    v1::ProcessSpec process;
    process.set_cwd(config.working_dir);
    process.set_user(config.user);
    for (const std::string& capability : config.cap_add) process.add_cap_add(capability);
    for (const std::string& capability : config.cap_drop) process.add_cap_drop(capability);
    if (config.privileged) process.add_cap_add("ALL");
    return process;
}

void set_environment(v1::ProcessSpec& process, std::vector<std::string> env, const BoxConfig& config) {
    if (!has_variable(env, "HOSTNAME")) set_variable(env, "HOSTNAME", config.hostname);
    if (process.has_tty() && !has_variable(env, "TERM")) set_variable(env, "TERM", "xterm");
    add_secret_variables(config, env);
    for (const std::string& entry : env) process.add_env(entry);
}

void set_network(v1::NetworkSpec& network, const BoxConfig& config) {
    network.set_box_id(config.id);
    const net::MacAddress mac = net::box_mac(config.id);
    network.set_mac(mac.data(), mac.size());
    network.set_hostname(config.hostname);
    network.set_strict_jail(config.strict);
    constexpr uint64_t kBytesPerKbit = 125;
    network.set_sent_bytes_per_second(config.send_kbps * kBytesPerKbit);
    network.set_received_bytes_per_second(config.receive_kbps * kBytesPerKbit);
    *network.mutable_policy() = network_policy(config);
    if (!config.private_network.empty()) {
        network.mutable_private_network()->set_name(config.private_network);
        v1::NetworkMember& self = *network.mutable_private_network()->mutable_self();
        self.set_box_id(config.id);
        self.set_name(config.name);
        self.set_mac(network.mac());
        self.set_address(config.private_address);
        self.set_address6(config.private_address6);
    }
    for (const SecretRecord& secret : config.secrets) {
        v1::SecretSpec& spec = *network.add_secrets();
        spec.set_name(secret.name);
        spec.set_placeholder(secret.placeholder);
        for (const std::string& host : secret.hosts) spec.add_hosts(host);
        spec.set_in_query(secret.in_query);
    }
    for (const PortMapping& port : ports_of(config)) {
        v1::PortMapping& mapping = *network.add_ports();
        mapping.set_host_address(port.host_address);
        mapping.set_host_port(port.host_port);
        mapping.set_box_port(port.box_port);
        mapping.set_udp(port.udp);
    }
}

}  // namespace

v1::NetworkPolicy network_policy(const BoxConfig& config) {
    v1::NetworkPolicy policy;
    policy.set_has_allow(config.has_allow_net);
    for (const std::string& rule : config.allow_net) policy.add_allow(rule);
    for (const std::string& rule : config.deny_net) policy.add_deny(rule);
    return policy;
}

std::vector<PortMapping> ports_of(const BoxConfig& config) {
    std::vector<PortMapping> ports;
    for (const std::string& text : config.ports)
        if (const auto parsed = parse_ports(text); parsed.ok())
            ports.insert(ports.end(), parsed->begin(), parsed->end());
    return ports;
}

v1::BoxSpec box_spec(const BoxConfig& config, const BoxFolder& folder, const StartOptions& options) {
    v1::BoxSpec spec;
    spec.set_box_id(config.id);
    spec.set_name(config.name);
    spec.set_box_dir(folder.path);
    spec.set_engine(config.engine);
    spec.set_cpus(config.cpus);
    spec.set_memory_mib(config.memory_mib);
    spec.set_disk_bytes(config.disk_bytes);
    spec.set_huge_pages(config.huge_pages);
    spec.mutable_container()->set_hostname(config.hostname);
    spec.mutable_container()->set_privileged(config.privileged);
    if (config.is_job()) *spec.mutable_main() = main_process(config, options);
    spec.set_detach(options.detach.value_or(config.detach));
    spec.set_auto_remove(config.auto_remove);
    spec.set_user_mode(config.strict ? "ptrace" : "seccomp");
    spec.set_strict_jail(config.strict);
    if (config.network) set_network(*spec.mutable_network(), config);
    if (config.trust_host_ca)
        if (const std::string added = added_authorities(); !added.empty())
            spec.mutable_container()->mutable_trust()->add_authorities()->set_certificates(added);
    return spec;
}

v1::ProcessSpec main_process(const BoxConfig& config, const StartOptions& options) {
    v1::ProcessSpec process = process_of(config);
    for (const std::string& argument : config.argv) process.add_argv(argument);
    process.set_stdin_open(config.stdin_open);
    if (config.tty) {
        const TerminalSize size = options.terminal.value_or(TerminalSize{});
        process.mutable_tty()->set_rows(size.rows);
        process.mutable_tty()->set_cols(size.cols);
    }
    set_environment(process, config.env, config);
    return process;
}

v1::ProcessSpec exec_process(const BoxConfig& config, const Command& command) {
    v1::ProcessSpec process = process_of(config);
    for (const std::string& argument : command.argv) process.add_argv(argument);
    if (!command.working_dir.empty())
        process.set_cwd(command.working_dir.front() == '/'
                            ? command.working_dir
                            : config.working_dir + (config.working_dir.back() == '/' ? "" : "/") +
                                  command.working_dir);
    if (!command.user.empty()) process.set_user(command.user);
    if (command.privileged) process.add_cap_add("ALL");
    process.set_stdin_open(command.stdin_open);
    process.set_timeout_ms(
        static_cast<uint32_t>(std::clamp<int64_t>(command.timeout.count(), 0, UINT32_MAX)));
    if (command.tty) {
        process.mutable_tty()->set_rows(command.tty->rows);
        process.mutable_tty()->set_cols(command.tty->cols);
    }
    std::vector<std::string> env = config.env;
    for (const auto& [name, value] : command.env) set_variable(env, name, value);
    set_environment(process, std::move(env), config);
    return process;
}

}  // namespace boxlite::runtime
