// From a specification to a running guest.
#include <sys/epoll.h>

#include "base/id.h"
#include "base/log.h"
#include "disk/qcow2.h"
#include "jail/confine.h"
#include "shim/guest_constants.h"
#include "shim/supervisor.h"

namespace boxlite::shim {

namespace {

using std::chrono::milliseconds;

constexpr size_t kEntropyBytes = 64;
// A kernel that neither ends nor lets its agent speak will not after so long, or after so much of a
// processor. On a host that is so busy that it gets hardly any, it gets more time. One that ends is known at
// once.
constexpr milliseconds kAgentBudget{20'000}, kAgentProcessorBudget{15'000}, kBusyHostBudget{120'000};
constexpr milliseconds kBootCheckInterval{1'000};
// Of a processor, in one interval: a guest that waits for something needs less.
constexpr milliseconds kLittleProgress{20};
// The guest may have to replay a journal or grow a file system.
constexpr milliseconds kSetupBudget{60'000};
// For all of it: nothing waits for a start without end, whatever it is that hangs.
constexpr milliseconds kStartBudget{180'000};

Result<std::shared_ptr<engine::MachineSnapshot>> take_machine(v1::BoxSpec& spec,
                                                              std::vector<base::Fd> files) {
    v1::MachineImage& image = *spec.mutable_machine();
    if (static_cast<size_t>(image.layers_size()) != files.size())
        return base::make_error(ErrorCode::kInvalidArgument, "{} files came for {} layers of memory",
                                files.size(), image.layers_size());
    auto snapshot = std::make_shared<engine::MachineSnapshot>();
    snapshot->state = std::move(*image.mutable_state());
    for (int i = 0; i < image.layers_size(); ++i) {
        engine::MemoryLayer layer{std::move(files[static_cast<size_t>(i)]), {}, image.layers(i).id()};
        for (const auto& run : image.layers(i).runs()) layer.runs.push_back({run.offset(), run.size()});
        snapshot->memory.push_back(std::move(layer));
    }
    return snapshot;
}

}  // namespace

Result<std::unique_ptr<Supervisor>> Supervisor::start(base::EventLoop& loop, v1::BoxSpec spec,
                                                      base::Fd lifeline, std::vector<base::Fd> memory) {
    std::unique_ptr<Supervisor> self(new Supervisor(loop, std::move(spec), std::move(lifeline)));
    TRY(self->boot(std::move(memory)));
    return self;
}

Supervisor::~Supervisor() = default;

Result<void> Supervisor::boot(std::vector<base::Fd> memory) {
    if (spec_.network().has_proxy()) {
        if (memory.empty())
            return base::make_error(ErrorCode::kInvalidArgument,
                                    "the file of the host's proxies did not come");
        proxies_ = std::move(memory.back());
        memory.pop_back();
    }
    boot_began_ = base::Clock::now();
    started_at_ns_ = base::realtime_ns();
    const std::string& dir = spec_.box_dir();
    lock_.emplace(TRY(base::FileLock::try_acquire(dir + "/lock")));
    TRY(reserve_exit_record());
    console_.emplace(TRY(ConsoleLog::create(dir + "/logs/console.log")));
    output_ = std::make_unique<MainOutput>(TRY(OutputLog::create(dir + "/logs/output.log")));
    TRY(open_disk(dir + "/disk.qcow2"));
    TRY(start_machine(std::move(memory)));
    TRY(listen());
    if (!spec_.detach()) {
        TRY(loop_.watch(lifeline_.get(), EPOLLIN | EPOLLRDHUP, [this](uint32_t) {
            loop_.unwatch(lifeline_.get());
            stop(2000, "the process that started the box has ended");
        }));
    }
    boot_timer_ = loop_.after(kBootCheckInterval, [this] { check_boot(); });
    return {};
}

void Supervisor::check_boot() {
    const auto waited = base::Clock::now() - boot_began_;
    if (agent_ && waited < kStartBudget) {
        boot_timer_ = loop_.after(kBootCheckInterval, [this] { check_boot(); });
        return;
    }
    if (agent_)
        return fail_boot(base::make_error(ErrorCode::kEngine,
                                          "the box did not start in {} s: {} did not become ready",
                                          kStartBudget.count() / 1000,
                                          interceptor_pending_ ? "its TLS process"
                                          : guest_up_          ? "its network"
                                                               : "the guest"));
    const auto used = machine_->processor_time(), before = std::exchange(boot_processor_time_, used);
    const bool starved = used - before >= kLittleProgress && waited < kBusyHostBudget;
    if (used < kAgentProcessorBudget && (waited < kAgentBudget || starved)) {
        boot_timer_ = loop_.after(kBootCheckInterval, [this] { check_boot(); });
        return;
    }
    fail_boot(base::make_error(
        ErrorCode::kEngine, "the guest kernel did not reach its agent in {} s; its last words: {}",
        std::chrono::duration_cast<std::chrono::seconds>(waited).count(), console_->last_lines()));
}

Result<void> Supervisor::open_disk(const std::string& path) {
    auto disk = TRY(disk::Qcow2::open(path, {.backing_dirs = {spec_.box_dir() + "/../../bases"}}));
    if (spec_.disk_bytes() > disk->size()) TRY(disk->grow(spec_.disk_bytes()));
    if (disk_)
        disk_->replace_disk(std::move(disk));
    else
        disk_ = std::make_unique<virtio::Block>(std::move(disk), kDiskSerial);
    return {};
}

Result<void> Supervisor::start_machine(std::vector<base::Fd> memory) {
    vsock_.listen(kAgentPort, [this](base::Fd stream) {
        // On the device's thread: the supervisor's own takes over.
        loop_.post([this, stream = std::make_shared<base::Fd>(std::move(stream))] {
            agent_connected(std::move(*stream));
        });
    });
    engine::MachineConfig config;
    config.box_id = spec_.box_id();
    config.kernel_path = spec_.kernel_path();
    config.initramfs_path = spec_.initramfs_path();
    config.cgroup_note = spec_.box_dir() + "/cgroups";
    config.cpus = spec_.cpus();
    config.memory_mib = spec_.memory_mib();
    config.huge_pages = spec_.huge_pages();
    config.devices = {&vsock_, disk_.get(), &rng_};
    const bool kvm = spec_.engine() == "kvm";
    if (kvm) config.devices.push_back(&balloon_);
    if (spec_.has_network()) {
        network_ = TRY(Network::make(loop_, spec_.network(), spec_.box_dir() + "/logs/network.log"));
        config.devices.push_back(&network_->device());
    }
    config.user_mode = spec_.user_mode();
    config.strict_jail = spec_.strict_jail();
    config.confine = [this](const engine::MachineProcesses& machine) -> Result<void> {
        if (network_) TRY(start_network());
        return confine(machine);
    };
    if (spec_.has_machine()) config.snapshot = TRY(take_machine(spec_, std::move(memory)));
    config.console = [this](base::ByteView text) { console_->append(text); };
    machine_ = TRY((kvm ? engine::start_kvm : engine::start_uml)(
        config, loop_, [this](engine::MachineExit exit) { machine_ended(exit); }));
    if (spec_.memory_target_mib() > 0) TRY(set_memory(spec_.memory_target_mib()));
    return {};
}

// Beside the guest's boot, which takes longer.
Result<void> Supervisor::start_network() {
    base::Fd channel;
    if (!spec_.tlsd_path().empty()) {
        interceptor_pending_ = true;
        interceptor_ = TRY(
            Interceptor::launch(loop_, spec_.tlsd_path(), spec_.network(), spec_.box_dir() + "/secrets.sock",
                                [this](const Result<void>& outcome) { interceptor_ready(outcome); }));
        channel = interceptor_->take_channel();
    }
    network_pending_ = true;
    return network_->launch(spec_.netd_path(), std::move(channel), std::move(proxies_),
                            [this](const Result<void>& outcome) { network_ready(outcome); });
}

void Supervisor::interceptor_ready(const Result<void>& outcome) {
    interceptor_pending_ = false;
    if (state_ != State::kStarting) return;
    if (!outcome.ok()) return fail_boot(outcome.error());
    if (agent_) set_up_guest();
}

v1::Trust Supervisor::trust() const {
    v1::Trust trust = spec_.container().trust();
    if (interceptor_) *trust.add_authorities() = interceptor_->status().authority();
    return trust;
}

void Supervisor::network_ready(const Result<void>& outcome) {
    network_pending_ = false;
    if (state_ != State::kStarting) return;
    if (!outcome.ok()) return fail_boot(outcome.error());
    if (guest_up_) become_running();
}

// From here on the supervisor reaches its box's folder, the disks below it and its log, and nothing else.
Result<void> Supervisor::confine(const engine::MachineProcesses& machine) {
    jail::ShimConfinement confinement;
    confinement.read_write = {spec_.box_dir()};
    if (!spec_.log_dir().empty()) confinement.read_write.push_back(spec_.log_dir());
    confinement.read_only = {spec_.box_dir() + "/../../bases"};
    confinement.cgroups = machine.cgroups;
    confinement.stoppable_group = machine.group;
    confinement.strict = spec_.strict_jail();
    own_jail_ = TRY(jail::confine_shim(confinement));
    return {};
}

void Supervisor::agent_connected(base::Fd stream) {
    if (agent_ || state_ != State::kStarting) return;  // a second caller is not the agent
    auto channel = rpc::Channel::make(loop_, std::move(stream), nullptr, [this](const Error& reason) {
        if (state_ == State::kStarting) fail_boot(reason);
        if (state_ == State::kRunning || state_ == State::kPaused) {
            base::log_error("the connection to the agent was lost", {{"error", reason.message}});
            end_reason_ = "the guest agent was lost: " + reason.message;
            power_off();
        }
    });
    if (!channel.ok()) return fail_boot(channel.error());
    agent_ = std::move(channel).value();
    // The guest gets the certificate authority; nothing runs in it before the secrets have their values.
    if (!interceptor_pending_) set_up_guest();
}

void Supervisor::set_up_guest() {
    if (resumes()) return resume_guest();
    v1::SetupRequest request;
    request.set_disk_serial(kDiskSerial);
    request.set_disk_bytes(spec_.disk_bytes());
    *request.mutable_container() = spec_.container();
    if (network_) {
        network_->complete(*request.mutable_container());
        *request.mutable_container()->mutable_trust() = trust();
        *request.mutable_network() = network_->guest();
    }
    request.set_realtime_ns(base::realtime_ns());
    uint8_t entropy[kEntropyBytes];
    base::random_bytes(entropy);
    request.set_entropy(entropy, sizeof entropy);
    request.set_idle_init(!spec_.has_main());
    agent_->call("boxlite.v1.Guest", "Setup", request, kSetupBudget,
                 [this](Result<std::string_view> answer) { guest_ready(std::move(answer)); });
}

// The guest is there already, as it was when its machine was captured, and has to become this box.
void Supervisor::resume_guest() {
    v1::ResumeRequest request;
    request.set_hostname(spec_.container().hostname());
    request.set_machine_id(spec_.machine_id());
    *request.mutable_trust() = trust();
    if (network_) *request.mutable_network() = network_->guest();
    request.set_realtime_ns(base::realtime_ns());
    uint8_t entropy[kEntropyBytes];
    base::random_bytes(entropy);
    request.set_entropy(entropy, sizeof entropy);
    agent_->call("boxlite.v1.Guest", "Resume", request, kSetupBudget,
                 [this](Result<std::string_view> answer) { guest_ready(std::move(answer)); });
}

void Supervisor::guest_ready(Result<std::string_view> answer) {
    if (state_ != State::kStarting) return;
    v1::SetupResponse response;
    if (!answer.ok()) {
        // Whatever its code was, it is not about the program that is to run.
        Error error = std::move(answer).error().with_context("the guest could not be set up");
        error.code = ErrorCode::kEngine;
        return fail_boot(std::move(error));
    }
    if (!response.ParseFromArray(answer->data(), static_cast<int>(answer->size())))
        return fail_boot(base::make_error(ErrorCode::kEngine, "the agent's answer to Setup is damaged"));
    kernel_release_ = response.kernel();
    if (spec_.has_main() && !resumes()) return start_main();
    if (spec_.has_main()) follow_main();
    become_running();
}

void Supervisor::start_main() {
    v1::StartRequest request;
    request.set_id("main");
    *request.mutable_process() = spec_.main();
    agent_->call("boxlite.v1.Execution", "Start", request, kSetupBudget,
                 [this](const Result<std::string_view>& answer) {
                     if (state_ != State::kStarting) return;
                     if (!answer.ok()) return fail_boot(answer.error());
                     follow_main();
                     become_running();
                 });
}

void Supervisor::follow_main() {
    output_->start(agent_, spec_.main().has_tty());
    v1::ExecutionId id;
    id.set_id("main");
    agent_->call("boxlite.v1.Execution", "Wait", id, {}, [this](const Result<std::string_view>& ended) {
        v1::ExitStatus status;
        if (ended.ok() && status.ParseFromArray(ended->data(), static_cast<int>(ended->size())))
            main_ended(status);
    });
}

void Supervisor::become_running() {
    guest_up_ = true;
    if (network_pending_) return;
    loop_.cancel(boot_timer_);
    state_ = State::kRunning;
    boot_ms_ = static_cast<uint32_t>(
        std::chrono::duration_cast<milliseconds>(base::Clock::now() - boot_began_).count());
    base::log_info(
        "box running",
        {{"box", spec_.box_id()}, {"boot_ms", std::to_string(boot_ms_)}, {"kernel", kernel_release_}});
    answer_waiters();
}

void Supervisor::fail_boot(Error error) {
    if (state_ != State::kStarting || failure_) return;
    loop_.cancel(boot_timer_);
    base::log_error("box did not start", {{"box", spec_.box_id()}, {"error", error.message}});
    failure_ = std::move(error);
    end_reason_ = failure_->message;
    answer_waiters();
    power_off();
}

}  // namespace boxlite::shim
