#include <unistd.h>

#include <cstdlib>

#include "base/file.h"
#include "base/log.h"
#include "cli/command.h"
#include "json/json.h"

namespace boxlite::cli {

namespace {

Result<void> read_auth(const json::Reader& auth, Registry& registry) {
    if (auth.value() == "anonymous") return {};
    if (const auto basic = TRY(auth.find("basic"))) {
        const auto name = TRY(basic->at("username"));
        const auto password = TRY(basic->at("password"));
        registry.username = TRY(name.as_string());
        registry.password = TRY(password.as_string());
        return {};
    }
    if (const auto bearer = TRY(auth.find("bearer"))) {
        const auto token = TRY(bearer->at("token"));
        registry.bearer_token = TRY(token.as_string());
        return {};
    }
    return auth.error("\"anonymous\", {\"basic\": …} or {\"bearer\": …} is needed");
}

Result<Registry> read_registry(const json::Reader& entry) {
    TRY(entry.allow_only({"host", "transport", "skip_verify", "search", "mirrors", "auth"}));
    Registry registry;
    const auto host = TRY(entry.at("host"));
    registry.host = TRY(host.as_string());
    const std::string transport = TRY(entry.string_or("transport", "https"));
    if (transport != "https" && transport != "http") return entry.error("transport is \"https\" or \"http\"");
    registry.http = transport == "http";
    registry.skip_verify = TRY(entry.bool_or("skip_verify", false));
    registry.search = TRY(entry.bool_or("search", false));
    registry.mirrors = TRY(entry.strings_or_empty("mirrors"));
    if (const auto auth = TRY(entry.find("auth"))) {
        if (auth->value().is_string() && auth->value() != "anonymous") return auth->error("unknown kind");
        TRY(read_auth(*auth, registry));
    }
    return registry;
}

Result<void> read_config(const std::string& path, RuntimeOptions& options) {
    const std::string text = TRY_CONTEXT(base::read_file(path, size_t{1} << 20), "--config");
    const json::Value document = TRY(json::parse(text, path, ErrorCode::kConfig));
    const json::Reader reader(document, path, ErrorCode::kConfig);
    TRY(reader.allow_only({"home_dir", "image_registries"}));
    options.home = TRY(reader.string_or("home_dir", options.home));
    if (const auto registries = TRY(reader.find("image_registries"))) {
        for (const json::Reader& entry : TRY(registries->as_array())) {
            Registry registry = TRY(read_registry(entry));
            options.registries.push_back(std::move(registry));
        }
    }
    return {};
}

}  // namespace

std::span<const Flag> global_flags() {
    static const std::vector<Flag> flags = {
        {0, "home", "PATH", "folder of all state ($BOXLITE_HOME, else ~/.boxlite)"},
        {0, "config", "FILE", "JSON file with home_dir and image_registries"},
        {0, "registry", "HOST", "registry to search first for image names without one", true},
        {0, "debug", "", "say more on standard error"},
        {'h', "help", "", "show this help"},
    };
    return flags;
}

Result<Context> Context::make(const Arguments& arguments) {
    Context context;
    context.options_.notice = [](const std::string& sentence) { print_error(sentence); };
    context.debug_ = arguments.enabled("debug");
    if (arguments.has("config")) TRY(read_config(arguments.value("config"), context.options_));
    if (arguments.has("home")) context.options_.home = arguments.value("home");
    std::vector<Registry> first;
    for (const std::string& host : arguments.values("registry")) {
        Registry registry;
        registry.host = host;
        registry.search = true;
        first.push_back(std::move(registry));
    }
    context.options_.registries.insert(context.options_.registries.begin(), first.begin(), first.end());
    return context;
}

Result<Runtime> Context::runtime() {
    if (!runtime_) {
        runtime_ = TRY(Runtime::open(options_));
        // What was logged so far went to standard error, warnings and worse only.
        TRY(base::log_to(runtime_->home() + "/logs", "boxlite",
                         debug_ ? base::LogLevel::kDebug : base::LogLevel::kInfo,
                         debug_ ? base::LogLevel::kDebug : base::LogLevel::kError));
    }
    return *runtime_;
}

Result<int> for_each_name(const std::vector<std::string>& names,
                          const std::function<Result<std::string>(const std::string&)>& action) {
    int code = 0;
    for (const std::string& name : names) {
        const auto done = action(name);
        if (!done.ok()) {
            print_error(done.error().message);
            code = kExitFailure;
        } else if (!done->empty() && !write_out(*done + "\n")) {
            return kExitBrokenPipe;
        }
    }
    return code;
}

}  // namespace boxlite::cli
