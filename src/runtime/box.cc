#include "boxlite/box.h"

#include "base/result.h"
#include "runtime/box_impl.h"
#include "runtime/box_update.h"
#include "runtime/copy.h"
#include "runtime/execution_impl.h"
#include "runtime/logs.h"
#include "runtime/network_log.h"
#include "runtime/snapshots.h"

namespace boxlite {

const std::string& Box::id() const {
    return impl_->config.id;
}
const std::string& Box::name() const {
    return impl_->config.name;
}

Result<BoxInfo> Box::info() const {
    RuntimeImpl& runtime = *impl_->runtime;
    const auto observation = TRY(runtime::observe(runtime, TRY(runtime.state->box_by_id(impl_->config.id))));
    return runtime::describe(runtime, observation);
}

Result<void> Box::start(const StartOptions& options) {
    const bool started = TRY(runtime::start_box(*impl_, options));
    if (!started && !options.secrets.empty()) return runtime::set_secrets(*impl_, options.secrets);
    return {};
}

Result<void> Box::stop(const StopOptions& options) {
    TRY(runtime::stop_box(*impl_, options));
    if (!impl_->config.auto_remove) return {};
    auto removed = runtime::remove_box(*impl_->runtime, impl_->config, true);
    if (!removed.ok() && removed.error().code == ErrorCode::kNotFound) return {};
    return removed;
}

Result<void> Box::restart(const StopOptions& options) {
    TRY(stop(options));
    return start();
}

Result<void> Box::pause() {
    return runtime::pause_box(*impl_);
}

Result<void> Box::resume() {
    return runtime::resume_box(*impl_);
}

Result<std::vector<Box>> Box::fork(const ForkOptions& options) {
    std::vector<Box> boxes;
    for (auto& child : TRY(runtime::fork_box(*impl_, options))) boxes.emplace_back(std::move(child));
    return boxes;
}

Result<SnapshotInfo> Box::create_snapshot(const std::string& name, const SnapshotOptions& options) {
    return runtime::create_snapshot(*impl_, name, options);
}

Result<std::vector<SnapshotInfo>> Box::snapshots() const {
    TRY(impl_->runtime->state->box_by_id(impl_->config.id));
    return runtime::snapshots_of(*impl_);
}

Result<void> Box::remove_snapshot(const std::string& name) {
    return runtime::remove_snapshot(*impl_, name);
}

Result<void> Box::restore_snapshot(const std::string& name, const RestoreOptions& options) {
    return runtime::restore_snapshot(*impl_, name, options);
}

Result<Box> Box::new_box_from_snapshot(const std::string& name, const std::string& new_name,
                                       const RestoreOptions& options) {
    return Box(TRY(runtime::box_from_snapshot(*impl_, name, new_name, options)));
}

Result<Execution> Box::exec(const Command& command) {
    return runtime::start_execution(impl_, command);
}

Result<Execution> Box::run(const StartOptions& options) {
    return runtime::run_main(impl_, options);
}

Result<Execution> Box::attach(bool from_beginning) {
    return runtime::attach_main(impl_, from_beginning);
}

Result<ExitStatus> Box::wait() {
    std::optional<ExitStatus> main_exit;
    if (auto connection = runtime::connect_supervisor(impl_->folder); connection.ok()) {
        if (impl_->config.is_job()) {
            // Asked for now, because a box that removes itself leaves no record to read.
            v1::ExecutionId id;
            id.set_id(std::string(runtime::kMainExecution));
            auto status = connection->client.call<v1::ExitStatus>(runtime::kExecutionService, "Wait", id);
            if (status.ok()) main_exit = runtime::from_wire(*status);
        }
        TRY(runtime::wait_for_end(*connection));
    }
    if (main_exit) return *main_exit;
    BoxInfo now = TRY(info());
    if (now.status == BoxStatus::kStopping || now.status == BoxStatus::kUnknown) {
        TRY(runtime::wait_for_ending(*impl_));
        now = TRY(info());
    }
    if (now.status == BoxStatus::kRunning || now.status == BoxStatus::kPaused) {
        TRY(runtime::connect_supervisor(impl_->folder));  // or it would be asked for ever
        return wait();                                    // it has just come up
    }
    if (now.status == BoxStatus::kFailed)
        return base::make_error(ErrorCode::kEngine, "box '{}' did not start: {}", now.name, now.reason);
    return ExitStatus{.code = now.exit_code.value_or(0)};
}

Result<void> Box::set_network_rules(const NetworkRules& rules) {
    return runtime::set_network_rules(*impl_, rules);
}

Result<void> Box::set_memory(uint32_t mib) {
    return runtime::set_memory(*impl_, mib);
}

Result<void> Box::set_secrets(const std::vector<SecretValue>& values) {
    return runtime::set_secrets(*impl_, values);
}

Result<void> Box::network_log(const LogOptions& options, const std::function<bool(const FlowRecord&)>& sink) {
    return runtime::read_network_log(*impl_, options, sink);
}

Result<void> Box::logs(const LogOptions& options, const std::function<bool(const LogEntry&)>& sink) {
    return runtime::read_logs(*impl_, options, sink);
}

Result<CopyStats> Box::copy_into(const std::string& host_path, const std::string& box_path,
                                 const CopyOptions& options) {
    return runtime::copy_into(*impl_, host_path, box_path, options);
}

Result<CopyStats> Box::copy_out(const std::string& box_path, const std::string& host_path,
                                const CopyOptions& options) {
    return runtime::copy_out(*impl_, box_path, host_path, options);
}

}  // namespace boxlite
