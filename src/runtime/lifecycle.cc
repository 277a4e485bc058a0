// Start, stop and removal of a box. Each holds the box's change lock while the supervisor comes or goes, and
// none holds it while a guest boots.
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "base/file.h"
#include "base/log.h"
#include "runtime/box_impl.h"
#include "runtime/capture.h"
#include "runtime/engine_choice.h"
#include "runtime/proxy_settings.h"
#include "runtime/specs.h"
#include "runtime/templates.h"

namespace boxlite::runtime {

namespace {

using std::chrono::milliseconds;

// From a stop whose grace is over to a machine that is off: syncing a full page cache takes its time.
constexpr milliseconds kPowerOffBudget{30'000};
// For a supervisor that was told to stop at once, or was killed.
constexpr milliseconds kKillBudget{5'000};
// Of a supervisor whose start has failed, to end with the reason.
constexpr milliseconds kLastWordsBudget{2'000};

const std::vector<base::Fd> kNoFiles;

Error no_such_box(const BoxConfig& config) {
    return base::make_error(ErrorCode::kNotFound, "no such box: {}", config.name);
}

// A machine that has booted already, where there is one; else the next box finds one.
Result<Launched> launch_on_template(const RuntimeImpl& runtime, const std::string& program,
                                    const BoxFolder& folder, const v1::BoxSpec& spec,
                                    const Handover& handover) {
    if (const auto booted = find_template(runtime, spec)) {
        v1::BoxSpec onward = spec;
        *onward.mutable_machine() = booted->image;
        onward.set_fresh_machine(true);
        auto launched =
            launch_supervisor(program, folder, onward, {handover.changes, booted->memory, handover.proxies});
        if (launched.ok()) return launched;
        base::log_warn("a template was of no use; the box boots",
                       {{"box", spec.box_id()}, {"error", launched.error().message}});
    }
    auto launched = launch_supervisor(program, folder, spec, handover);
    if (launched.ok()) make_missing_template(runtime, spec);
    return launched;
}

// Why nobody took the secrets: the supervisor's own word, where it ends with one. Ends it.
Error why_not_taken(const BoxFolder& folder, base::Process& supervisor, Error error) {
    pollfd over{supervisor.pidfd(), POLLIN, 0};
    (void)::poll(&over, 1, static_cast<int>(kLastWordsBudget.count()));
    (void)supervisor.signal(SIGKILL);
    (void)supervisor.wait();
    const auto exit = read_exit_record(folder);
    if (exit && exit->failed) return base::make_error(ErrorCode::kEngine, "{}", exit->reason);
    return std::move(error).with_context("hand the secrets over");
}

// The launch itself. The caller holds the change lock and no supervisor exists.
Result<void> launch(const BoxImpl& box, const base::FileLock& changes, BoxRecord& record,
                    const StartOptions& options, const GoingOn& from) {
    v1::BoxSpec spec = box_spec(record.config, box.folder, options);
    spec.set_log_dir(box.runtime->home.logs());
    if (from.machine) {
        *spec.mutable_machine() = from.machine->image;
        spec.set_machine_id(from.machine_id);
        spec.set_memory_mib(from.machine->memory_mib());
        spec.set_memory_target_mib(std::min(record.config.memory_mib, spec.memory_mib()));
        spec.set_engine("kvm");
    } else if (!box.config.engine_fixed) {
        spec.set_engine(TRY(choose_engine(*box.runtime, Engine::kAuto, Isolation::kAuto)).engine);
    }
    spec.set_kernel_path(
        TRY(spec.engine() == "kvm" ? box.runtime->assets.kvm_kernel() : box.runtime->assets.uml_kernel()));
    spec.set_initramfs_path(TRY(box.runtime->assets.initramfs()));
    if (spec.has_network()) spec.set_netd_path(TRY(box.runtime->assets.network_process()));
    base::Fd proxies;
    if (spec.has_network()) {
        proxies = TRY(host_proxies(box.runtime->notice));
        spec.mutable_network()->set_has_proxy(proxies.valid());
        if (!record.config.private_network.empty())
            spec.mutable_network()->mutable_private_network()->set_folder(
                box.runtime->home.network(record.config.private_network));
    }
    const bool intercepts = needs_interception(record.config);
    if (intercepts) spec.set_tlsd_path(TRY(box.runtime->assets.interceptor()));
    SecretValues secrets;
    TRY(find_values(box, record.config, options, from.machine != nullptr, secrets));
    const std::string program = TRY(box.runtime->assets.supervisor());

    remove_leftovers(box.config.id, box.folder);
    ::unlink(box.folder.socket().c_str());
    ::unlink(box.folder.exit_file().c_str());
    record.state = {
        .status = BoxStatus::kRunning, .started_at = base::realtime_ns(), .boot_id = TRY(host_boot_id())};
    // Before the launch: whoever finds the box dead after a crash of ours then corrects the record.
    TRY(box.runtime->state->set_state(box.config.id, record.state));
    const Handover handover{changes, from.machine ? from.machine->memory : kNoFiles, proxies};
    auto launched = from.machine || spec.engine() != "kvm" || spec.huge_pages()
                        ? launch_supervisor(program, box.folder, spec, handover)
                        : launch_on_template(*box.runtime, program, box.folder, spec, handover);
    // The guest waits for them. Also none: then it waits for nothing more.
    if (launched.ok() && intercepts)
        if (auto sent = send_values(box.folder, secrets); !sent.ok())
            launched = why_not_taken(box.folder, launched->process, std::move(sent).error());
    if (!launched.ok()) {
        remove_leftovers(box.config.id, box.folder);
        record.state.status = BoxStatus::kFailed;
        record.state.reason = launched.error().message;
        record.state.finished_at = base::realtime_ns();
        (void)box.runtime->state->set_state(box.config.id, record.state);
        return std::move(launched).error().with_context(
            fmt::format("box '{}' did not start", box.config.name));
    }
    box.runtime->children.adopt(box.config.id, std::move(launched).value());
    return {};
}

// Writes down why a start failed, and returns it; success for a main process that was over before anybody
// could ask. The caller holds the change lock and the supervisor is gone.
Result<void> record_failed_start(const BoxImpl& box, Error error) {
    BoxRecord record = TRY(box.runtime->state->box_by_id(box.config.id));
    const auto exit = read_exit_record(box.folder);
    if (exit && error.code == ErrorCode::kPortal) {
        if (record.state.status == BoxStatus::kRunning) settle(*box.runtime, record);
        if (!exit->failed) return {};
        return base::make_error(ErrorCode::kEngine, "{}", exit->reason);
    }
    record.state.status = BoxStatus::kFailed;
    record.state.reason = error.message;
    record.state.finished_at = base::realtime_ns();
    remove_leftovers(box.config.id, box.folder);
    (void)box.runtime->state->set_state(box.config.id, record.state);  // `error` is what matters
    return error;
}

bool is_up(Connection& connection) {
    auto status = connection.client.call<v1::BoxStatus>(kBoxService, "Inspect", v1::Empty(), kKillBudget);
    return status.ok() &&
           (status->state() == "running" || status->state() == "paused" || status->state() == "starting");
}

void kill_supervisor(const Connection& connection) {
    ::syscall(SYS_pidfd_send_signal, connection.pidfd.get(), SIGKILL, nullptr, 0);
}

// The stop signal of an image that wants another than SIGTERM. Returns what is left of the grace.
milliseconds send_stop_signal(const BoxConfig& config, rpc::Client& client, milliseconds grace) {
    const auto start = base::Clock::now();
    v1::SignalRequest request;
    request.set_id(std::string(kMainExecution));
    request.set_signal(config.stop_signal);
    if (!client.call<v1::Empty>(kExecutionService, "Signal", request, kKillBudget).ok()) return grace;
    v1::ExecutionId id;
    id.set_id(std::string(kMainExecution));
    (void)client.call<v1::ExitStatus>(kExecutionService, "Wait", id, grace);
    const auto used = std::chrono::duration_cast<milliseconds>(base::Clock::now() - start);
    return std::max(milliseconds(0), grace - used);
}

// Ends a living supervisor, by force when words do not help.
Result<void> end_supervisor(const BoxConfig& config, Connection& connection, milliseconds grace) {
    if (grace.count() > 0 && config.is_job() && config.stop_signal != SIGTERM)
        grace = send_stop_signal(config, connection.client, grace);
    v1::StopRequest request;
    request.set_grace_ms(static_cast<uint32_t>(std::min<int64_t>(grace.count(), UINT32_MAX)));
    const milliseconds budget = grace + (grace.count() > 0 ? kPowerOffBudget : kKillBudget);
    const auto stopped = connection.client.call<v1::Empty>(kBoxService, "Stop", request, budget);
    // A supervisor that is ending anyway closes the connection instead of answering.
    if (!stopped.ok() && stopped.error().code != ErrorCode::kPortal)
        base::log_warn("supervisor refused to stop",
                       {{"box", config.id}, {"error", stopped.error().message}});
    if (TRY(wait_for_end(connection, kKillBudget))) return {};
    base::log_warn("supervisor killed", {{"box", config.id}});
    kill_supervisor(connection);
    if (TRY(wait_for_end(connection, kKillBudget))) return {};
    return base::make_error(ErrorCode::kEngine, "box '{}' does not end: process {} survives SIGKILL",
                            config.name, connection.pid);
}

}  // namespace

Result<base::FileLock> lock_changes(const BoxImpl& box) {
    if (!base::path_exists(box.folder.path)) return no_such_box(box.config);
    return base::FileLock::acquire(box.folder.change_lock());
}

Result<void> wait_for_supervisor_to_go(const BoxImpl& box) {
    return wait_until_gone(box.folder, kPowerOffBudget);
}

Result<Connection> running(const BoxImpl& box) {
    auto connection = connect_supervisor(box.folder);
    if (connection.ok()) return connection;
    // Tells a removed box from a stopped one, and corrects the record on the way.
    const auto now = TRY(observe(*box.runtime, TRY(box.runtime->state->box_by_id(box.config.id))));
    if (now.answered) return connect_supervisor(box.folder);  // it has just come up
    return base::make_error(ErrorCode::kStopped, "box '{}' is not running; start it with `boxlite start {}`",
                            box.config.name, box.config.name);
}

Result<Connection> running_or_started(const BoxImpl& box) {
    auto connection = connect_supervisor(box.folder);
    if (connection.ok()) return connection;
    if (box.config.is_job()) return running(box);
    TRY(start_box(box, {}));
    return connect_supervisor(box.folder);
}

Result<bool> launch_box(const BoxImpl& box, const StartOptions& options, const GoingOn& from) {
    const base::FileLock lock = TRY(lock_changes(box));
    BoxRecord record = TRY(box.runtime->state->box_by_id(box.config.id));
    auto connection = connect_supervisor(box.folder);
    if (connection.ok()) {
        if (is_up(*connection)) return false;
        // One that is off may wait for a reader of its output that has fallen asleep.
        if (!TRY(wait_for_end(*connection, kPowerOffBudget))) kill_supervisor(*connection);
    }
    TRY(wait_until_gone(box.folder, kPowerOffBudget));
    TRY(launch(box, lock, record, options, from));
    return true;
}

Result<void> await_box(const BoxImpl& box, const std::function<void()>& failed) {
    auto client = connect_client(box.folder);
    auto answer = client.ok() ? client->call<v1::BoxStatus>(kBoxService, "WaitReady", v1::Empty())
                              : Result<v1::BoxStatus>(std::move(client).error());
    if (answer.ok()) return {};
    if (failed) failed();
    auto outcome = [&]() -> Result<void> {
        const base::FileLock lock = TRY(lock_changes(box));
        TRY(wait_until_gone(box.folder, kKillBudget));
        return record_failed_start(box, std::move(answer).error());
    }();
    if (outcome.ok()) return outcome;
    return std::move(outcome).error().with_context(fmt::format("box '{}' did not start", box.config.name));
}

Result<bool> start_box(const BoxImpl& box, const StartOptions& options) {
    const bool started = TRY(launch_box(box, options));
    TRY(await_box(box));
    return started;
}

Result<void> wait_for_ending(const BoxImpl& box) {
    const base::FileLock lock = TRY(lock_changes(box));
    if (connect_supervisor(box.folder).ok()) return {};
    return wait_until_gone(box.folder, kPowerOffBudget);
}

Result<void> stop_box(const BoxImpl& box, const StopOptions& options) {
    const base::FileLock lock = TRY(lock_changes(box));
    BoxRecord record = TRY(box.runtime->state->box_by_id(box.config.id));
    if (auto connection = connect_supervisor(box.folder); connection.ok())
        TRY(end_supervisor(box.config, *connection, options.grace));
    TRY(wait_until_gone(box.folder, kPowerOffBudget));
    box.runtime->children.reap();
    if (record.state.status == BoxStatus::kRunning || record.state.status == BoxStatus::kStopping)
        settle(*box.runtime, record);
    return {};
}

Result<void> pause_box(const BoxImpl& box) {
    Connection connection = TRY(running(box));
    TRY(connection.client.call<v1::Empty>(kBoxService, "Pause", v1::Empty(), kKillBudget));
    return {};
}

Result<void> resume_box(const BoxImpl& box) {
    Connection connection = TRY(running(box));
    TRY(connection.client.call<v1::Empty>(kBoxService, "Resume", v1::Empty(), kKillBudget));
    return {};
}

Result<void> remove_box(RuntimeImpl& runtime, const BoxConfig& config, bool force) {
    const BoxFolder folder = runtime.home.box(config.id);
    if (force) {
        // Before the lock: a stop with a long grace may hold it, and is not worth waiting for now.
        if (auto connection = connect_supervisor(folder); connection.ok())
            TRY(end_supervisor(config, *connection, milliseconds(0)));
    }
    if (base::path_exists(folder.path)) {
        const base::FileLock lock = TRY(base::FileLock::acquire(folder.change_lock()));
        if (auto connection = connect_supervisor(folder); connection.ok()) {
            if (!force)
                return base::make_error(ErrorCode::kInvalidState,
                                        "box '{}' is running; stop it first or remove it with force",
                                        config.name);
            TRY(end_supervisor(config, *connection, milliseconds(0)));
        }
        TRY(wait_until_gone(folder, kPowerOffBudget));
        remove_leftovers(config.id, folder);
        auto removed = runtime.state->remove_box(config.id);
        if (!removed.ok() && removed.error().code == ErrorCode::kResourceExhausted) {
            // The disk is full, and what has to go first is what fills it.
            TRY(base::remove_tree(folder.disk()));
            TRY(base::remove_tree(folder.logs()));
            removed = runtime.state->remove_box(config.id);
        }
        if (!TRY(std::move(removed))) return no_such_box(config);
        TRY(base::remove_tree(folder.path));
    } else if (!TRY(runtime.state->remove_box(config.id))) {
        return no_such_box(config);
    }
    if (!config.private_network.empty()) {
        const std::string socket = runtime.home.network(config.private_network) + "/" + config.id;
        ::unlink(socket.c_str());
        ::unlink((socket + ".member").c_str());
    }
    runtime.children.reap();
    base::log_info("box removed", {{"box", config.id}, {"name", config.name}});
    collect_unused_bases(runtime);
    return {};
}

}  // namespace boxlite::runtime
