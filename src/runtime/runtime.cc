#include "boxlite/runtime.h"

#include <sys/utsname.h>

#include "base/log.h"
#include "runtime/box_impl.h"
#include "runtime/create.h"
#include "runtime/engine_choice.h"
#include "runtime/runtime_impl.h"

namespace boxlite {

namespace {

image::RegistryConfig registry_config(const Registry& registry) {
    image::RegistryConfig config;
    config.host = registry.host;
    if (registry.http) config.transport = image::Transport::kHttp;
    config.skip_verify = registry.skip_verify;
    config.search = registry.search;
    config.mirrors = registry.mirrors;
    if (!registry.bearer_token.empty())
        config.auth = image::AuthBearer{registry.bearer_token};
    else if (!registry.username.empty())
        config.auth = image::AuthBasic{registry.username, registry.password};
    return config;
}

Box make_box(const std::shared_ptr<RuntimeImpl>& runtime, runtime::BoxConfig config) {
    return Box(std::make_shared<BoxImpl>(runtime, std::move(config)));
}

}  // namespace

std::string version() {
    return BOXLITE_VERSION;
}

Result<std::shared_ptr<RuntimeImpl>> RuntimeImpl::open(const RuntimeOptions& options) {
    runtime::Home home = TRY(runtime::Home::open(options.home));
    auto state = TRY(runtime::StateStore::open(home));
    image::Store images = TRY(image::Store::open(home.images()));
    image::RegistryOptions registries;
    for (const Registry& registry : options.registries) {
        if (registry.host.empty()) return base::make_error(ErrorCode::kConfig, "a registry without a host");
        registries.registries.push_back(registry_config(registry));
    }
    return std::shared_ptr<RuntimeImpl>(new RuntimeImpl(std::move(home), std::move(state), std::move(images),
                                                        std::move(registries), options.notice));
}

Result<Runtime> Runtime::open(const RuntimeOptions& options) {
    return Runtime(TRY(RuntimeImpl::open(options)));
}

Result<Box> Runtime::create(const BoxOptions& options, const ProgressSink& progress) {
    auto box = std::make_shared<BoxImpl>(impl_, TRY(runtime::create_box(*impl_, options, progress)));
    box->given_secrets.give(options.network.secrets);
    return Box(std::move(box));
}

Result<Box> Runtime::get(const std::string& id_or_name) const {
    return make_box(impl_, TRY(impl_->state->find_box(id_or_name)).config);
}

Result<std::pair<Box, bool>> Runtime::get_or_create(const BoxOptions& options, const ProgressSink& progress) {
    if (options.name.empty())
        return base::make_error(ErrorCode::kInvalidArgument, "get_or_create needs the name of a box");
    const auto existing = [&]() -> Result<std::pair<Box, bool>> {
        const runtime::BoxRecord record = TRY(impl_->state->find_box(options.name));
        if (record.config.name != options.name) return base::make_error(ErrorCode::kNotFound, "no such box");
        return std::pair(make_box(impl_, record.config), false);
    };
    if (auto found = existing(); found.ok()) return found;
    auto created = create(options, progress);
    if (created.ok()) return std::pair(std::move(created).value(), true);
    // Another process may have been faster.
    if (created.error().code == ErrorCode::kAlreadyExists)
        if (auto found = existing(); found.ok()) return found;
    return std::move(created).error();
}

Result<std::vector<BoxInfo>> Runtime::list() const {
    std::vector<BoxInfo> boxes;
    for (runtime::BoxRecord& record : TRY(impl_->state->boxes())) {
        auto observation = runtime::observe(*impl_, std::move(record));
        if (observation.ok())
            boxes.push_back(runtime::describe(*impl_, *observation));
        else if (observation.error().code != ErrorCode::kNotFound)
            return std::move(observation).error();
    }
    return boxes;
}

Result<void> Runtime::remove(const std::string& id_or_name, bool force) {
    const runtime::BoxRecord record = TRY(impl_->state->find_box(id_or_name));
    return runtime::remove_box(*impl_, record.config, force);
}

Images Runtime::images() const {
    return Images(impl_);
}

const std::string& Runtime::home() const {
    return impl_->home.path();
}

Result<RuntimeInfo> Runtime::info() const {
    RuntimeInfo info;
    info.version = version();
    info.home = impl_->home.path();
    utsname host{};
    if (::uname(&host) == 0) {
        info.os = "linux";
        info.arch = host.machine;
        info.host_kernel = host.release;
    }
    const runtime::EngineChoice choice = TRY(runtime::choose_engine(*impl_, Engine::kAuto, Isolation::kAuto));
    info.engine = choice.engine;
    info.isolation = choice.isolation;
    info.engine_reason = choice.reason;
    for (const BoxInfo& box : TRY(list())) {
        ++info.boxes_total;
        info.boxes_running += box.status == BoxStatus::kRunning;
        info.boxes_stopped += box.status == BoxStatus::kStopped || box.status == BoxStatus::kFailed;
        info.boxes_configured += box.status == BoxStatus::kConfigured;
    }
    info.images = TRY(images().list()).size();
    return info;
}

}  // namespace boxlite
