#include "runtime/process_settings.h"

#include <signal.h>

#include <algorithm>
#include <charconv>

#include "base/capability_names.h"

namespace boxlite::runtime {

namespace {

std::string upper(std::string_view text) {
    std::string result(text);
    for (char& c : result)
        if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
    return result;
}

std::optional<int> number(std::string_view text) {
    int value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return value;
}

std::vector<std::string>::iterator find_variable(std::vector<std::string>& env, std::string_view name) {
    return std::find_if(env.begin(), env.end(), [name](const std::string& entry) {
        return entry.size() > name.size() && entry[name.size()] == '=' && entry.starts_with(name);
    });
}

std::vector<std::string> merge_argv(const image::ImageConfig& image, const BoxOptions& options) {
    std::vector<std::string> argv = options.entrypoint ? *options.entrypoint : image.entrypoint;
    const bool image_cmd = options.cmd.empty() && !options.entrypoint;
    const std::vector<std::string>& cmd = image_cmd ? image.cmd : options.cmd;
    argv.insert(argv.end(), cmd.begin(), cmd.end());
    return argv;
}

std::string merge_working_dir(const std::string& image, const std::string& option) {
    const std::string base = image.empty() ? "/" : image;
    if (option.empty()) return base;
    if (option.front() == '/') return option;
    return base + (base.back() == '/' ? "" : "/") + option;
}

}  // namespace

void set_variable(std::vector<std::string>& env, std::string_view name, std::string_view value) {
    std::string entry = fmt::format("{}={}", name, value);
    const auto found = find_variable(env, name);
    if (found == env.end())
        env.push_back(std::move(entry));
    else
        *found = std::move(entry);
}

bool has_variable(const std::vector<std::string>& env, std::string_view name) {
    return find_variable(const_cast<std::vector<std::string>&>(env), name) != env.end();
}

Result<void> check_environment(const Environment& env) {
    for (const auto& [name, value] : env) {
        if (name.empty() || name.find_first_of(std::string_view("=\0", 2)) != std::string::npos ||
            value.find('\0') != std::string::npos)
            return base::make_error(ErrorCode::kInvalidArgument,
                                    "invalid environment variable '{}': a name without '=' is needed", name);
    }
    return {};
}

Result<void> apply_image(const image::ImageConfig& image, const BoxOptions& options, BoxConfig& config) {
    TRY(check_environment(options.env));
    const bool job = options.job || options.entrypoint.has_value() || !options.cmd.empty();
    if (job) {
        config.argv = merge_argv(image, options);
        if (config.argv.empty() || config.argv.front().empty())
            return base::make_error(ErrorCode::kInvalidArgument,
                                    "no command: image '{}' names none, so give one after the image",
                                    options.image);
    }
    for (const std::string& entry : image.env) {
        const size_t equals = entry.find('=');
        if (equals != std::string::npos && equals > 0)
            set_variable(config.env, entry.substr(0, equals), entry.substr(equals + 1));
    }
    for (const auto& [name, value] : options.env) set_variable(config.env, name, value);
    if (!has_variable(config.env, "PATH"))
        config.env.insert(config.env.begin(), fmt::format("PATH={}", kDefaultPath));
    config.working_dir = merge_working_dir(image.working_dir, options.working_dir);
    config.user = options.user.empty() ? image.user : options.user;
    config.tty = options.tty;
    config.stdin_open = options.stdin_open;
    // A stop signal that this host does not know is the image's fault, and no reason to refuse the image.
    const auto signal = parse_signal(image.stop_signal.empty() ? "SIGTERM" : image.stop_signal);
    config.stop_signal = signal.ok() ? *signal : SIGTERM;
    return {};
}

Result<int> parse_signal(std::string_view text) {
    const auto unknown = [&] {
        return base::make_error(ErrorCode::kInvalidArgument, "unknown signal '{}'", text);
    };
    if (const auto plain = number(text)) {
        if (*plain < 1 || *plain > SIGRTMAX) return unknown();
        return *plain;
    }
    std::string name = upper(text);
    if (name.starts_with("SIG")) name.erase(0, 3);
    for (int candidate = 1; candidate < SIGRTMIN; ++candidate) {
        const char* abbreviation = ::sigabbrev_np(candidate);
        if (abbreviation && name == abbreviation) return candidate;
    }
    const bool from_min = name.starts_with("RTMIN");
    if (!from_min && !name.starts_with("RTMAX")) return unknown();
    const int base = from_min ? SIGRTMIN : SIGRTMAX;
    if (name.size() == 5) return base;
    const auto offset = number(std::string_view(name).substr(name[5] == '+' ? 6 : 5));
    if (!offset || (*offset < 0) == from_min || base + *offset < SIGRTMIN || base + *offset > SIGRTMAX)
        return unknown();
    return base + *offset;
}

Result<std::vector<std::string>> normalize_capabilities(const std::vector<std::string>& names) {
    std::vector<std::string> result;
    for (const std::string& given : names) {
        std::string name = upper(given);
        if (name.starts_with("CAP_")) name.erase(0, 4);
        if (name != "ALL" && std::find(base::kCapabilityNames.begin(), base::kCapabilityNames.end(), name) ==
                                 base::kCapabilityNames.end())
            return base::make_error(ErrorCode::kInvalidArgument, "unknown capability '{}'", given);
        result.push_back(std::move(name));
    }
    return result;
}

}  // namespace boxlite::runtime
