// The image configuration.
#include <algorithm>

#include "image/image.h"
#include "json/json.h"

namespace boxlite::image {

namespace {

using json::Reader;

// Strings that end up in argv, environ or a path cannot hold a NUL.
Result<void> refuse_nul(const Reader& at, const std::vector<std::string>& strings) {
    for (const std::string& s : strings)
        if (s.find('\0') != std::string::npos) return at.error("has a NUL character");
    return {};
}

Result<std::string> clean_string(const Reader& root, std::string_view name) {
    std::string text = TRY(root.string_or(name, ""));
    TRY(refuse_nul(root, {text}));
    return text;
}

// Docker once wrote a lone string where a list is meant.
Result<std::vector<std::string>> read_command(const Reader& root, std::string_view name) {
    const auto member = TRY(root.find(name));
    if (!member) return std::vector<std::string>();
    auto words = member->value().is_string() ? std::vector<std::string>{TRY(member->as_string())}
                                             : TRY(member->as_strings());
    TRY(refuse_nul(*member, words));
    return words;
}

// The names of a map whose values say nothing.
Result<std::vector<std::string>> read_set(const Reader& root, std::string_view name) {
    std::vector<std::string> names;
    const auto member = TRY(root.find(name));
    if (!member) return names;
    for (const auto& [key, ignored] : TRY(member->as_object())) names.push_back(key);
    TRY(refuse_nul(*member, names));
    std::sort(names.begin(), names.end());
    return names;
}

bool has_parent_component(std::string_view path) {
    return path == ".." || path.starts_with("../") || path.ends_with("/..") ||
           path.find("/../") != std::string_view::npos;
}

// CVE-2022-23648: a volume is never a way out of the root.
Result<std::vector<std::string>> read_volumes(const Reader& root) {
    auto volumes = TRY(read_set(root, "Volumes"));
    for (std::string& volume : volumes) {
        if (volume.empty() || has_parent_component(volume))
            return root.error(fmt::format("volume '{}' is not a path inside the image", volume));
        if (volume[0] != '/') volume.insert(0, 1, '/');
    }
    return volumes;
}

Result<void> read_process(const Reader& process, ImageConfig& config) {
    config.env = TRY(process.strings_or_empty("Env"));
    TRY(refuse_nul(process, config.env));
    config.entrypoint = TRY(read_command(process, "Entrypoint"));
    config.cmd = TRY(read_command(process, "Cmd"));
    config.user = TRY(clean_string(process, "User"));
    config.working_dir = TRY(clean_string(process, "WorkingDir"));
    if (!config.working_dir.empty() && config.working_dir[0] != '/') config.working_dir.insert(0, 1, '/');
    config.exposed_ports = TRY(read_set(process, "ExposedPorts"));
    for (std::string& port : config.exposed_ports)
        if (port.find('/') == std::string::npos) port += "/tcp";
    config.volumes = TRY(read_volumes(process));
    config.stop_signal = TRY(clean_string(process, "StopSignal"));
    config.labels = TRY(process.string_map_or_empty("Labels"));
    return {};
}

}  // namespace

Result<ImageConfig> parse_config(std::string_view document) {
    const json::Value value =
        TRY(json::parse(document, "the image configuration", ErrorCode::kImage, {.bytes = kMaxConfigBytes}));
    const Reader root(value, "config", ErrorCode::kImage);
    ImageConfig config;
    config.platform.os = TRY(root.string_or("os", ""));
    config.platform.architecture = TRY(root.string_or("architecture", ""));
    config.platform.variant = TRY(root.string_or("variant", ""));
    config.created = TRY(root.string_or("created", ""));
    config.author = TRY(root.string_or("author", ""));
    if (const auto process = TRY(root.find("config"))) TRY(read_process(*process, config));

    const Reader rootfs = TRY(root.at("rootfs"));
    if (TRY(rootfs.string_or("type", "layers")) != "layers")
        return rootfs.error("has a type other than 'layers'");
    const auto diff_ids = TRY(rootfs.find("diff_ids"));
    if (!diff_ids) return config;
    for (const Reader& id : TRY(diff_ids->as_array())) {
        auto digest = Digest::parse(TRY(id.as_string()));
        if (!digest.ok()) return id.error(digest.error().message);
        config.diff_ids.push_back(std::move(digest).value());
    }
    return config;
}

}  // namespace boxlite::image
