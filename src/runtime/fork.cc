#include "runtime/fork.h"

#include <array>

#include "base/clock.h"
#include "base/file.h"
#include "base/id.h"
#include "base/log.h"
#include "runtime/capture.h"
#include "runtime/create.h"
#include "runtime/layers.h"
#include "runtime/ports.h"

namespace boxlite::runtime {

namespace {

Result<BoxConfig> child_config(const BoxConfig& parent) {
    BoxConfig config = parent;
    config.id = base::random_id();
    config.created_at = base::realtime_ns();
    // A name that the user chose means something to the programs inside.
    if (parent.hostname == parent.id) config.hostname = config.id;
    // Ports of the host that the parent has are taken: the child gets others.
    for (std::string& text : config.ports) {
        PortMapping port = TRY(parse_ports(text)).front();
        port.host_port = 0;
        text = to_text(port);
    }
    return config;
}

std::string child_name(const ForkOptions& options, uint32_t index) {
    if (options.name.empty() || options.count == 1) return options.name;
    return fmt::format("{}-{}", options.name, index + 1);
}

}  // namespace

std::string new_machine_id() {
    std::array<uint8_t, 16> bytes;
    base::random_bytes(bytes);
    std::string text;
    for (const uint8_t byte : bytes) text += fmt::format("{:02x}", byte);
    return text;
}

Result<std::shared_ptr<BoxImpl>> make_child(const BoxImpl& parent, const std::string& layer,
                                            const std::string& name) {
    RuntimeImpl& runtime = *parent.runtime;
    // The handle may be older than the last change of the network's rules.
    const BoxConfig now = TRY(runtime.state->box_by_id(parent.config.id)).config;
    const auto make_disk = [&](const std::string& path) { return make_disk_on(runtime.home, layer, path); };
    BoxConfig config = TRY(add_box(runtime, TRY(child_config(now)), name, make_disk));
    return std::make_shared<BoxImpl>(parent.runtime, std::move(config));
}

Result<std::vector<std::shared_ptr<BoxImpl>>> fork_box(const BoxImpl& parent, const ForkOptions& options) {
    if (options.count < 1 || options.count > kMaxForks)
        return base::make_error(ErrorCode::kInvalidArgument, "a fork makes 1 to {} boxes, not {}", kMaxForks,
                                options.count);
    RuntimeImpl& runtime = *parent.runtime;
    const base::FileLock bases = TRY(base::FileLock::acquire_shared(runtime.home.bases_lock()));
    const Capture capture = TRY([&]() -> Result<Capture> {
        const base::FileLock changes = TRY(base::FileLock::acquire(parent.folder.change_lock()));
        Connection connection = TRY(running(parent));
        return capture_box(parent, connection, true);
    }());
    base::log_info("box forked", {{"box", parent.config.id},
                                  {"children", std::to_string(options.count)},
                                  {"pause_us", std::to_string(capture.pause.count() / 1000)}});
    std::vector<std::shared_ptr<BoxImpl>> children;
    auto made = [&]() -> Result<void> {
        StartOptions start;
        start.detach = options.detach;
        for (uint32_t i = 0; i < options.count; ++i) {
            children.push_back(TRY(make_child(parent, capture.layer, child_name(options, i))));
            TRY(launch_box(*children.back(), start, {&capture.machine, new_machine_id()}));
        }
        for (const auto& child : children) TRY(await_box(*child));
        return {};
    }();
    shorten_chain(runtime.home, capture.layer);
    if (made.ok()) return children;
    for (const auto& child : children) (void)remove_box(runtime, child->config, true);
    return std::move(made).error().with_context(fmt::format("box '{}' was not forked", parent.config.name));
}

}  // namespace boxlite::runtime
