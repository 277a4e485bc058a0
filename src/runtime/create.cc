#include "runtime/create.h"

#include "base/clock.h"
#include "base/id.h"
#include "base/log.h"
#include "disk/qcow2.h"
#include "net/policy.h"
#include "runtime/bases.h"
#include "runtime/engine_choice.h"
#include "runtime/names.h"
#include "runtime/networks.h"
#include "runtime/ports.h"
#include "runtime/process_settings.h"
#include "runtime/secrets.h"

namespace boxlite::runtime {

namespace {

constexpr uint32_t kMaxCpus = 255;
constexpr uint32_t kLeastMemoryMib = 64;
constexpr uint64_t kMaxDiskGb = uint64_t{16} << 10;
constexpr int kNameAttempts = 20;

Result<void> check_options(const BoxOptions& options) {
    if (!options.name.empty()) TRY(check_name(options.name));
    if (options.cpus < 1 || options.cpus > kMaxCpus)
        return base::make_error(ErrorCode::kInvalidArgument, "a box has 1 to {} CPUs, not {}", kMaxCpus,
                                options.cpus);
    TRY(check_memory(options.memory_mib));
    if (options.disk_size_gb < 1 || options.disk_size_gb > kMaxDiskGb)
        return base::make_error(ErrorCode::kInvalidArgument, "a box's disk has 1 to {} GB, not {}",
                                kMaxDiskGb, options.disk_size_gb);
    return {};
}

Result<void> set_network(const NetworkOptions& network, BoxConfig& config) {
    config.network = network.enabled;
    if (!network.enabled) {
        if (!network.private_network.empty())
            return base::make_error(ErrorCode::kInvalidArgument,
                                    "a box without a network cannot be on network '{}'",
                                    network.private_network);
        if (network.allow || !network.deny.empty() || !network.ports.empty() || !network.secrets.empty())
            return base::make_error(ErrorCode::kInvalidArgument,
                                    "rules, secrets and published ports are for a box that has a network");
        return {};
    }
    if (!network.private_network.empty()) TRY(check_network_name(network.private_network));
    config.private_network = network.private_network;
    TRY(net::Policy::parse({network.allow, network.deny}));
    config.has_allow_net = network.allow.has_value();
    config.allow_net = network.allow.value_or(std::vector<std::string>{});
    config.deny_net = network.deny;
    config.secrets = TRY(secret_records(network.secrets));
    config.trust_host_ca = network.trust_host_ca;
    config.send_kbps = network.send_kbps;
    config.receive_kbps = network.receive_kbps;
    for (const PortMapping& port : network.ports) {
        const std::string text = to_text(port);
        TRY(parse_ports(text));
        config.ports.push_back(text);
    }
    return {};
}

Result<BoxConfig> make_config(const BoxOptions& options, const EngineChoice& engine,
                              const PreparedImage& image) {
    BoxConfig config;
    config.id = base::random_id();
    config.created_at = base::realtime_ns();
    config.image = options.image;
    config.image_id = image.stored.image.config_descriptor.digest.to_string();
    config.base = image.base;
    config.cpus = options.cpus;
    config.memory_mib = options.memory_mib;
    config.disk_bytes = options.disk_size_gb << 30;
    config.engine = engine.engine;
    config.isolation = engine.isolation;
    config.engine_reason = engine.reason;
    config.engine_fixed =
        options.engine != Engine::kAuto || options.isolation != Isolation::kAuto || options.huge_pages;
    config.huge_pages = options.huge_pages;
    config.strict = options.security == Security::kStrict;
    config.hostname = options.hostname.empty() ? config.id : options.hostname;
    config.cap_add = TRY(normalize_capabilities(options.cap_add));
    config.cap_drop = TRY(normalize_capabilities(options.cap_drop));
    config.privileged = options.privileged;
    config.detach = options.detach;
    config.auto_remove = options.auto_remove;
    TRY(set_network(options.network, config));
    TRY(apply_image(image.stored.image.config, options, config));
    return config;
}

Result<void> make_disk(const Home& home, const BoxConfig& config, const std::string& path) {
    const std::string base = base_path(home, config.base);
    disk::Qcow2CreateOptions options;
    options.virtual_size = config.disk_bytes;
    // Relative, so that a home directory can be moved.
    options.backing =
        disk::Backing{"../../bases" + base.substr(home.bases().size()), disk::ImageFormat::kRaw};
    options.durable = !config.auto_remove;
    return disk::Qcow2::create(path, options);
}

// The record is what makes the box exist.
Result<BoxConfig> record_box(StateStore& state, BoxConfig config, const std::string& wanted_name) {
    for (int attempt = 0;; ++attempt) {
        config.name = wanted_name.empty() ? make_name(attempt) : wanted_name;
        auto added = state.add_box({config, {}}, !config.auto_remove);
        if (added.ok()) return added;
        const bool again = wanted_name.empty() && added.error().code == ErrorCode::kAlreadyExists;
        if (!again || attempt == kNameAttempts) return added.error();
    }
}

}  // namespace

Result<void> check_memory(uint32_t mib) {
    if (mib < kLeastMemoryMib)
        return base::make_error(ErrorCode::kInvalidArgument,
                                "{} MiB of memory are too few: a box needs {} MiB", mib, kLeastMemoryMib);
    return {};
}

Result<BoxConfig> create_box(RuntimeImpl& runtime, const BoxOptions& options, const ProgressSink& progress) {
    TRY(check_options(options));
    // Before the image is fetched: a name that is taken should not cost a download.
    if (!options.name.empty() && TRY(runtime.state->has_name(options.name)))
        return base::make_error(ErrorCode::kAlreadyExists,
                                "a box named '{}' exists; remove it first or choose another name",
                                options.name);
    const EngineChoice engine = TRY(choose_engine(runtime, options.engine, options.isolation));
    if (options.huge_pages && engine.engine != "kvm")
        return base::make_error(
            ErrorCode::kUnsupported,
            "huge pages are for boxes of the kvm engine, and this one is to run on uml{}{}",
            engine.reason.empty() ? "" : ": ", engine.reason);
    const PreparedImage image =
        TRY(prepare_image(runtime, options.image, options.pull, options.disk_size_gb, progress));
    const BoxConfig config = TRY(make_config(options, engine, image));
    return add_box(runtime, config, options.name,
                   [&](const std::string& path) { return make_disk(runtime.home, config, path); });
}

Result<BoxConfig> add_box(RuntimeImpl& runtime, BoxConfig config, const std::string& name,
                          const std::function<Result<void>(const std::string&)>& make_disk) {
    collect_stale_folders(runtime);
    const base::FileLock creating = TRY(base::FileLock::acquire_shared(runtime.home.boxes_lock()));
    const BoxFolder folder = runtime.home.box(config.id);
    auto recorded = [&]() -> Result<BoxConfig> {
        TRY(base::make_directories(folder.logs(), 0700));
        TRY_CONTEXT(make_disk(folder.disk()), "make the disk of a new box");
        if (!config.auto_remove) TRY(base::sync_directory(runtime.home.boxes()));
        return record_box(*runtime.state, std::move(config), name);
    }();
    if (!recorded.ok()) {
        (void)base::remove_tree(folder.path);
        return recorded;
    }
    base::log_info("box created",
                   {{"box", recorded->id}, {"name", recorded->name}, {"image", recorded->image}});
    return recorded;
}

}  // namespace boxlite::runtime
