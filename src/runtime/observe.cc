// The truth about a box: its supervisor's lock and socket first, the database second.
#include <poll.h>
#include <signal.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "net/mac.h"
#include "runtime/box_impl.h"
#include "runtime/specs.h"

namespace boxlite::runtime {

namespace {

// A supervisor answers Inspect at once in any state; one that does not is stuck.
constexpr std::chrono::milliseconds kInspectBudget{5'000};

// A start or a stop is seldom between two supervisors' answers for longer than this.
constexpr std::chrono::milliseconds kChangeBudget{1'000};

BoxStatus status_from_name(const std::string& name) {
    if (name == "stopping") return BoxStatus::kStopping;
    if (name == "stopped") return BoxStatus::kStopped;
    if (name == "failed") return BoxStatus::kFailed;
    if (name == "paused") return BoxStatus::kPaused;
    return BoxStatus::kRunning;
}

bool claims_to_run(const BoxState& state) {
    return state.status == BoxStatus::kRunning || state.status == BoxStatus::kStopping ||
           state.status == BoxStatus::kPaused;
}

std::string reason_without_record(const BoxState& state) {
    const auto boot = host_boot_id();
    if (boot.ok() && !state.boot_id.empty() && state.boot_id != *boot) return "the host was restarted";
    return "its supervisor was killed";
}

BoxState state_after_end(const BoxFolder& folder, const BoxState& before) {
    BoxState after = before;
    after.status = BoxStatus::kStopped;
    if (const auto record = read_exit_record(folder)) {
        if (record->failed) after.status = BoxStatus::kFailed;
        if (!record->failed) after.exit_code = record->shell_code();
        after.reason = record->reason;
        after.finished_at = record->finished_at > 0 ? record->finished_at : base::realtime_ns();
    } else {
        after.exit_code = 128 + SIGKILL;
        after.reason = reason_without_record(before);
        after.finished_at = base::realtime_ns();
    }
    return after;
}

}  // namespace

void settle(RuntimeImpl& runtime, BoxRecord& record) {
    const BoxFolder folder = runtime.home.box(record.config.id);
    remove_leftovers(record.config.id, folder);
    record.state = state_after_end(folder, record.state);
    base::log_info("box ended", {{"box", record.config.id}, {"reason", record.state.reason}});
    // What is true does not depend on whether it could be written down, for instance on a full disk: whoever
    // looks next corrects the record then.
    if (const auto set = runtime.state->set_state(record.config.id, record.state); !set.ok())
        base::log_warn("a box's end was not recorded",
                       {{"box", record.config.id}, {"error", set.error().message}});
}

namespace {

// Whether the box's supervisor answers, and then with its own word on the state.
bool ask_supervisor(const RuntimeImpl& runtime, Observation& observation) {
    auto client = connect_client(runtime.home.box(observation.record.config.id));
    if (!client.ok()) return false;
    auto answer = client->call<v1::BoxStatus>(kBoxService, "Inspect", v1::Empty(), kInspectBudget);
    if (!answer.ok()) return false;
    observation.record.state.status = status_from_name(answer->state());
    observation.answered = std::move(answer).value();
    return true;
}

// The right to change the record, or nothing when its supervisor answers after all. An error of the code
// kInvalidState: somebody is starting or stopping the box and does not get on with it.
Result<std::optional<base::FileLock>> lock_or_answer(const RuntimeImpl& runtime, Observation& observation) {
    const std::string path = runtime.home.box(observation.record.config.id).change_lock();
    const base::Deadline deadline(kChangeBudget);
    for (int pause_ms = 1;; pause_ms = std::min(2 * pause_ms, 20)) {
        auto lock = base::FileLock::try_acquire(path);
        if (lock.ok()) return std::optional(std::move(lock).value());
        if (lock.error().code != ErrorCode::kInvalidState || deadline.passed())
            return std::move(lock).error();
        if (ask_supervisor(runtime, observation)) return std::optional<base::FileLock>();
        ::poll(nullptr, 0, pause_ms);  // flock() has no timed wait
    }
}

// For a box that nobody answers for but whose record says that it runs.
Result<void> correct(RuntimeImpl& runtime, Observation& observation) {
    BoxRecord& record = observation.record;
    const BoxFolder folder = runtime.home.box(record.config.id);
    bool remove = false;
    {
        const auto lock = lock_or_answer(runtime, observation);
        if (observation.answered) return {};
        record = TRY(runtime.state->box_by_id(record.config.id));
        if (!claims_to_run(record.state)) return {};
        if (!lock.ok() && lock.error().code == ErrorCode::kInvalidState) {
            record.state.status = BoxStatus::kUnknown;
            return {};
        }
        if (!lock.ok()) return lock.error();
        if (TRY(supervisor_exists(folder))) {
            record.state.status = BoxStatus::kStopping;
            return {};
        }
        settle(runtime, record);
        remove = record.config.auto_remove;
    }
    if (!remove) return {};
    TRY(remove_box(runtime, record.config, true));
    return base::make_error(ErrorCode::kNotFound, "no such box: {} (it was to be removed when it stops)",
                            record.config.name);
}

}  // namespace

Result<Observation> observe(RuntimeImpl& runtime, BoxRecord record) {
    runtime.children.reap();
    Observation observation{std::move(record), std::nullopt};
    if (ask_supervisor(runtime, observation)) return observation;
    if (claims_to_run(observation.record.state)) TRY(correct(runtime, observation));
    return observation;
}

BoxInfo describe(const RuntimeImpl& runtime, const Observation& observation) {
    const BoxConfig& config = observation.record.config;
    const BoxState& state = observation.record.state;
    BoxInfo info;
    info.id = config.id;
    info.name = config.name;
    info.image = config.image;
    info.image_digest = config.image_id;
    info.status = state.status;
    info.created_at = config.created_at;
    info.started_at = state.started_at;
    info.finished_at = state.finished_at;
    info.exit_code = state.exit_code;
    info.reason = state.reason;
    info.cpus = config.cpus;
    info.memory_bytes = uint64_t{config.memory_mib} << 20;
    info.disk_bytes = config.disk_bytes;
    info.engine = config.engine;
    info.isolation = config.isolation;
    info.engine_reason = config.engine_reason;
    info.command = config.argv;
    for (const std::string& entry : config.env) {
        const size_t equals = entry.find('=');
        info.env.emplace_back(entry.substr(0, equals),
                              equals == std::string::npos ? "" : entry.substr(equals + 1));
    }
    info.working_dir = config.working_dir;
    info.user = config.user;
    info.hostname = config.hostname;
    info.tty = config.tty;
    info.stdin_open = config.stdin_open;
    info.auto_remove = config.auto_remove;
    info.detach = config.detach;
    info.privileged = config.privileged;
    info.huge_pages = config.huge_pages;
    info.folder = runtime.home.box(config.id).path;
    info.network.enabled = config.network;
    info.network.private_network = config.private_network;
    if (config.network) info.mac_address = net::to_string(net::box_mac(config.id));
    info.private_address = config.private_address;
    info.private_address6 = config.private_address6;
    if (config.has_allow_net) info.network.allow = config.allow_net;
    info.network.deny = config.deny_net;
    info.network.ports = ports_of(config);
    info.network.send_kbps = config.send_kbps;
    info.network.receive_kbps = config.receive_kbps;
    info.network.secrets = describe_secrets(config.secrets);
    info.network.trust_host_ca = config.trust_host_ca;
    if (!observation.answered) return info;
    const v1::BoxStatus& live = *observation.answered;
    for (const v1::PortMapping& port : live.ports())
        info.ports.push_back({port.host_address(), static_cast<uint16_t>(port.host_port()),
                              static_cast<uint16_t>(port.box_port()), port.udp()});
    const v1::NetworkCounters& traffic = live.network();
    info.traffic = {traffic.sent_bytes(), traffic.received_bytes(), traffic.open_flows(),
                    traffic.total_flows(), traffic.refused()};
    info.pid = live.shim_pid();
    info.kernel = live.kernel();
    info.boot_ms = live.boot_ms();
    info.started_from = live.started_from();
    info.jail.assign(live.jail().begin(), live.jail().end());
    if (!live.engine().empty()) info.engine = live.engine();
    if (!live.isolation().empty()) info.isolation = live.isolation();
    if (live.started_at_ns() > 0) info.started_at = live.started_at_ns();
    if (!live.failure().empty()) info.reason = live.failure();
    if (live.has_main_exit())
        info.exit_code =
            live.main_exit().signal() ? 128 + live.main_exit().signal() : live.main_exit().code();
    return info;
}

}  // namespace boxlite::runtime
