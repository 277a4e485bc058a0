#include "image/credentials.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "base/base64.h"
#include "base/file.h"
#include "base/process.h"
#include "json/json.h"

namespace boxlite::image {

namespace {

constexpr std::string_view kHubServer = "https://index.docker.io/v1/";
constexpr auto kHelperBudget = std::chrono::seconds(30);

// The host of a key in "auths": older clients wrote URLs.
std::string host_of_key(std::string_view key) {
    if (const size_t scheme = key.find("://"); scheme != std::string_view::npos)
        key.remove_prefix(scheme + 3);
    std::string host(key.substr(0, key.find('/')));
    return host == "index.docker.io" || host == "registry-1.docker.io" ? "docker.io" : host;
}

// The member of `map` for `registry`; an exact key wins over one that needs normalising.
Result<std::optional<json::Reader>> member_for(const std::optional<json::Reader>& map,
                                               const std::string& registry) {
    std::optional<json::Reader> found;
    if (!map) return found;
    for (const auto& [key, member] : TRY(map->as_object()))
        if (key == registry || (!found && host_of_key(key) == registry)) found = member;
    return found;
}

Result<std::optional<Credentials>> from_helper(const std::string& name, const std::string& registry) {
    const bool sane = !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) {
        return std::isalnum(c) || c == '-' || c == '_' || c == '.';
    });
    if (!sane) return base::make_error(ErrorCode::kConfig, "'{}' is no name of a credential helper", name);
    const std::string program = "docker-credential-" + name;
    const std::string_view server = registry == "docker.io" ? kHubServer : std::string_view(registry);
    auto run = base::run_command({program, "get"}, server, size_t{1} << 20, kHelperBudget);
    if (!run.ok())
        return base::make_error(ErrorCode::kConfig, "credential helper '{}' for {} does not work: {}",
                                program, registry, run.error().message);
    if (run->status.shell_code() != 0) {
        if (run->out.find("credentials not found") != std::string::npos) return std::optional<Credentials>();
        return base::make_error(ErrorCode::kConfig, "credential helper '{}' for {} failed: {}", program,
                                registry, run->out.empty() ? run->err : run->out);
    }
    const auto answer = TRY(json::parse(run->out, "the answer of " + program, ErrorCode::kConfig));
    const json::Reader root(answer, program, ErrorCode::kConfig);
    Credentials credentials;
    credentials.username = TRY(root.string_or("Username", ""));
    credentials.password = TRY(root.string_or("Secret", ""));
    if (credentials.username == "<token>") {
        credentials.identity_token = std::move(credentials.password);
        credentials.username.clear();
        credentials.password.clear();
    }
    return std::optional(std::move(credentials));
}

Result<std::optional<Credentials>> from_entry(const json::Reader& entry) {
    Credentials credentials;
    credentials.username = TRY(entry.string_or("username", ""));
    credentials.password = TRY(entry.string_or("password", ""));
    credentials.identity_token = TRY(entry.string_or("identitytoken", ""));
    credentials.registry_token = TRY(entry.string_or("registrytoken", ""));
    const std::string encoded = TRY(entry.string_or("auth", ""));
    if (!encoded.empty()) {
        const auto decoded = base::base64_decode(encoded);
        const size_t colon = decoded ? decoded->find(':') : std::string::npos;
        if (colon == std::string::npos) return entry.error("'auth' is not base64 of user:password");
        credentials.username = decoded->substr(0, colon);
        credentials.password = decoded->substr(colon + 1);
        // Some tools padded the password with NULs.
        credentials.password.erase(credentials.password.find_last_not_of('\0') + 1);
    }
    if (credentials.username.empty() && credentials.identity_token.empty() &&
        credentials.registry_token.empty())
        return std::optional<Credentials>();
    return std::optional(std::move(credentials));
}

}  // namespace

std::string default_docker_config_folder() {
    const char* folder = std::getenv("DOCKER_CONFIG");
    if (folder && *folder) return folder;
    const char* home = std::getenv("HOME");
    return home && *home ? std::string(home) + "/.docker" : "";
}

Result<std::optional<Credentials>> find_docker_credentials(const std::string& folder,
                                                           const std::string& registry) {
    if (folder.empty()) return std::optional<Credentials>();
    const std::string path = folder + "/config.json";
    const auto text = base::read_file(path, size_t{4} << 20);
    if (!text.ok() && text.error().code == ErrorCode::kNotFound) return std::optional<Credentials>();
    if (!text.ok()) return text.error();
    const auto value = TRY(json::parse(*text, path, ErrorCode::kConfig));
    const json::Reader root(value, path, ErrorCode::kConfig);

    if (const auto helper = TRY(member_for(TRY(root.find("credHelpers")), registry)))
        return from_helper(TRY(helper->as_string()), registry);
    if (const std::string store = TRY(root.string_or("credsStore", "")); !store.empty()) {
        auto credentials = TRY(from_helper(store, registry));
        if (credentials) return credentials;
    }
    const auto entry = TRY(member_for(TRY(root.find("auths")), registry));
    if (!entry) return std::optional<Credentials>();
    return from_entry(*entry);
}

}  // namespace boxlite::image
