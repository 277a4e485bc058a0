#include "cli/process_flags.h"

#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdlib>

#include "base/file.h"
#include "cli/secret_flags.h"
#include "cli/terminal.h"
#include "runtime/networks.h"
#include "runtime/ports.h"

namespace boxlite::cli {

namespace {

void add_variable(Environment& env, const std::string& text) {
    const size_t equals = text.find('=');
    if (equals != std::string::npos) {
        env.emplace_back(text.substr(0, equals), text.substr(equals + 1));
    } else if (const char* value = std::getenv(text.c_str())) {
        env.emplace_back(text, value);
    }
}

// Docker's format: one NAME=value or NAME a line, comments start with '#', nothing is unquoted.
Result<void> read_env_file(const std::string& path, Environment& env) {
    const std::string text = TRY_CONTEXT(base::read_file(path, size_t{4} << 20), "--env-file");
    size_t number = 0;
    for (size_t start = 0; start < text.size();) {
        const size_t end = std::min(text.find('\n', start), text.size());
        std::string line = text.substr(start, end - start);
        start = end + 1;
        ++number;
        if (line.ends_with('\r')) line.pop_back();
        line.erase(0, line.find_first_not_of(" \t"));
        if (line.empty() || line.front() == '#') continue;
        const std::string name = line.substr(0, line.find('='));
        if (name.empty() || name.find_first_of(" \t") != std::string::npos)
            return base::make_error(ErrorCode::kInvalidArgument,
                                    "--env-file {}, line {}: '{}' is no variable name", path, number, name);
        add_variable(env, line);
    }
    return {};
}

template <typename T, size_t N>
Result<T> one_of(const Arguments& arguments, std::string_view flag, T fallback,
                 const std::array<std::pair<std::string_view, T>, N>& choices) {
    if (!arguments.has(flag)) return fallback;
    const std::string value = arguments.value(flag);
    std::string names;
    for (const auto& [name, choice] : choices) {
        if (name == value) return choice;
        names += (names.empty() ? "" : ", ") + std::string(name);
    }
    return base::make_error(ErrorCode::kInvalidArgument, "invalid value '{}' for --{}: one of {} is needed",
                            value, flag, names);
}

Result<NetworkOptions> network_options(const Arguments& arguments) {
    NetworkOptions network;
    const std::string mode = arguments.value("network", "default");
    network.enabled = mode != "none" && mode != "disabled";
    if (network.enabled && mode != "default" && mode != "enabled") {
        TRY(runtime::check_network_name(mode));
        network.private_network = mode;
    }
    if (arguments.has("allow-net")) network.allow = arguments.values("allow-net");
    network.deny = arguments.values("deny-net");
    network.secrets = TRY(new_secrets(arguments));
    network.trust_host_ca = arguments.enabled("trust-host-ca");
    network.send_kbps = static_cast<uint32_t>(TRY(arguments.number("net-tx-kbps", 0, 1, UINT32_MAX)));
    network.receive_kbps = static_cast<uint32_t>(TRY(arguments.number("net-rx-kbps", 0, 1, UINT32_MAX)));
    for (const std::string& text : arguments.values("publish")) {
        const auto ports = TRY(runtime::parse_ports(text));
        network.ports.insert(network.ports.end(), ports.begin(), ports.end());
    }
    return network;
}

}  // namespace

Result<uint32_t> memory_mib(const std::string& text) {
    uint64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    std::string unit(end, text.data() + text.size());
    for (char& c : unit)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (unit.size() > 1 && unit.ends_with('b')) unit.pop_back();
    if (unit.size() > 1 && unit.ends_with('i')) unit.pop_back();
    uint64_t bytes_per_unit = 0;
    if (unit.empty() || unit == "m") bytes_per_unit = uint64_t{1} << 20;
    if (unit == "b") bytes_per_unit = 1;
    if (unit == "k") bytes_per_unit = uint64_t{1} << 10;
    if (unit == "g") bytes_per_unit = uint64_t{1} << 30;
    uint64_t bytes = 0;
    if (error != std::errc() || bytes_per_unit == 0 ||
        __builtin_mul_overflow(number, bytes_per_unit, &bytes) || bytes >> 20 > UINT32_MAX ||
        bytes >> 20 == 0)
        return base::make_error(
            ErrorCode::kInvalidArgument,
            "invalid value '{}' for --memory: MiB, or a number with k, m or g, are needed", text);
    return static_cast<uint32_t>(bytes >> 20);
}

std::vector<Flag> process_flags() {
    return {
        {'i', "interactive", "", "keep standard input open"},
        {'t', "tty", "", "give the program a terminal"},
        {'e', "env", "NAME[=VALUE]", "set an environment variable; without a value, take this process's",
         true},
        {0, "env-file", "FILE", "read environment variables from a file", true},
        {'w', "workdir", "PATH", "working directory inside the box"},
        {'u', "user", "NAME|UID[:GROUP|GID]", "user inside the box"},
    };
}

std::vector<Flag> box_flags() {
    return {
        {0, "name", "NAME", "name of the box"},
        {'d', "detach", "", "run in the background and print the box's id"},
        {0, "rm", "", "remove the box when it stops"},
        {0, "entrypoint", "PROGRAM", "replace the image's entrypoint"},
        {0, "hostname", "NAME", "host name inside the box"},
        {0, "cpus", "N", "number of CPUs (1)"},
        {'m', "memory", "MIB", "memory in MiB, or with a unit: 512m, 2g (1024)"},
        {0, "disk-size", "GB", "size of the disk (10)"},
        {0, "isolation", "KIND", "software, hardware or auto (auto)"},
        {0, "engine", "ENGINE", "kvm, uml or auto (auto)"},
        {0, "security", "PRESET",
         "standard, or strict: a wall that the host cannot give is an error (standard)"},
        {0, "pull", "WHEN", "missing, always or never (missing)"},
        {0, "network", "NAME",
         "also on the private network of that name, with the boxes that are; none: no network interface "
         "(default)"},
        {0, "allow-net", "RULE",
         "connect only there: HOST, *.DOMAIN, ADDRESS or BLOCK, with :PORT[-PORT] and /udp behind; or only "
         "such "
         "requests: \"METHOD[,METHOD...] URL\", with * for any; empty: nowhere",
         true},
        {0, "deny-net", "RULE", "never connect there; goes before --allow-net", true},
        new_secret_flag(),
        {0, "trust-host-ca", "", "the box trusts the certificate authorities that were added to this host"},
        {0, "net-tx-kbps", "N", "the box sends no more than that, in 1000 bits a second"},
        {0, "net-rx-kbps", "N", "the box receives no more than that, in 1000 bits a second"},
        {'p', "publish", "[ADDRESS:][PORT]:PORT[/udp]",
         "reach a port of the box through one of the host, by default of 127.0.0.1 and a free one", true},
        {0, "cap-add", "CAPABILITY", "add a Linux capability", true},
        {0, "cap-drop", "CAPABILITY", "drop a Linux capability", true},
        {0, "privileged", "", "all capabilities and devices inside the box"},
        {0, "huge-pages", "", "memory in huge pages of the host (kvm engine)"},
        {'q', "quiet", "", "show no progress"},
    };
}

Result<Environment> environment(const Arguments& arguments) {
    Environment env;
    for (const std::string& path : arguments.values("env-file")) TRY(read_env_file(path, env));
    for (const std::string& text : arguments.values("env")) {
        if (text.empty() || text.front() == '=')
            return base::make_error(ErrorCode::kInvalidArgument,
                                    "invalid value '{}' for --env: a name is needed", text);
        add_variable(env, text);
    }
    return env;
}

Result<BoxOptions> box_options(const Arguments& arguments) {
    BoxOptions options;
    options.name = arguments.value("name");
    options.image = arguments.operands.front();
    options.cpus = static_cast<uint32_t>(TRY(arguments.number("cpus", 1, 1, 255)));
    if (arguments.has("memory")) options.memory_mib = TRY(memory_mib(arguments.value("memory")));
    options.disk_size_gb = TRY(arguments.number("disk-size", options.disk_size_gb, 1, 16384));
    options.isolation = TRY(one_of<Isolation>(
        arguments, "isolation", Isolation::kAuto,
        std::array<std::pair<std::string_view, Isolation>, 3>{{{"software", Isolation::kSoftware},
                                                               {"hardware", Isolation::kHardware},
                                                               {"auto", Isolation::kAuto}}}));
    options.engine =
        TRY(one_of<Engine>(arguments, "engine", Engine::kAuto,
                           std::array<std::pair<std::string_view, Engine>, 3>{
                               {{"kvm", Engine::kKvm}, {"uml", Engine::kUml}, {"auto", Engine::kAuto}}}));
    options.security =
        TRY(one_of<Security>(arguments, "security", Security::kStandard,
                             std::array<std::pair<std::string_view, Security>, 2>{
                                 {{"standard", Security::kStandard}, {"strict", Security::kStrict}}}));
    options.pull = TRY(one_of<PullPolicy>(
        arguments, "pull", PullPolicy::kMissing,
        std::array<std::pair<std::string_view, PullPolicy>, 3>{{{"missing", PullPolicy::kMissing},
                                                                {"always", PullPolicy::kAlways},
                                                                {"never", PullPolicy::kNever}}}));
    options.network = TRY(network_options(arguments));
    options.env = TRY(environment(arguments));
    options.working_dir = arguments.value("workdir");
    options.user = arguments.value("user");
    options.hostname = arguments.value("hostname");
    options.cap_add = arguments.values("cap-add");
    options.cap_drop = arguments.values("cap-drop");
    options.privileged = arguments.enabled("privileged");
    options.huge_pages = arguments.enabled("huge-pages");
    if (arguments.has("entrypoint")) {
        const std::string entrypoint = arguments.value("entrypoint");
        options.entrypoint.emplace();
        if (!entrypoint.empty()) options.entrypoint->push_back(entrypoint);
    }
    options.cmd = command_of(arguments);
    options.tty = arguments.enabled("tty");
    options.stdin_open = arguments.enabled("interactive");
    options.auto_remove = arguments.enabled("rm");
    return options;
}

Result<void> check_terminal(const Arguments& arguments) {
    if (arguments.enabled("tty") && !is_terminal(STDIN_FILENO))
        return base::make_error(ErrorCode::kInvalidState, "the input device is not a TTY.");
    return {};
}

std::vector<std::string> command_of(const Arguments& arguments) {
    std::vector<std::string> command(arguments.operands.begin() + 1, arguments.operands.end());
    if (!command.empty() && command.front() == "--") command.erase(command.begin());
    return command;
}

}  // namespace boxlite::cli
