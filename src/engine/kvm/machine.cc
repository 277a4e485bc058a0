// The `kvm` engine: a virtual machine of this process, a thread for each processor, its devices on threads
// beside them.
#include <fcntl.h>
#include <unistd.h>

#include "base/log.h"
#include "engine/device_thread.h"
#include "engine/engine.h"
#include "engine/kvm/bus.h"
#include "engine/kvm/console_relay.h"
#include "engine/kvm/cpuid.h"
#include "engine/kvm/snapshot.h"
#include "engine/kvm/vcpu.h"
#include "engine/processor_time.h"
#include "virtio/console.h"

namespace boxlite::engine {

namespace {

using kvm::Bus;

constexpr uint32_t kMinMemoryMib = 32;

class KvmMachine final : public Machine, private kvm::ExitHandler, private kvm::IoApic::Lines {
  public:
    KvmMachine(const MachineConfig& config, base::EventLoop& loop, ExitCallback on_exit)
        : loop_(loop),
          on_exit_(std::move(on_exit)),
          relay_(std::make_shared<kvm::ConsoleRelay>(loop, config.console)),
          console_([this](base::ByteView text) { relay_->append(text); }),
          uart_([this](base::ByteView text) { relay_->append(text); }),
          io_apic_(*this),
          bus_(io_apic_, uart_, [this](Bus::Power power) { power_event(power); }) {}

    ~KvmMachine() override {
        on_exit_ = nullptr;
        relay_->close();
        stop();
    }

    Result<void> start(const MachineConfig& config) {
        TRY(check(config));
        devices_ = {&console_};
        devices_.insert(devices_.end(), config.devices.begin(), config.devices.end());
        vm_.emplace(TRY(kvm::Vm::make()));
        TRY(config.snapshot ? go_on(config) : boot(config));
        for (const auto& vcpu : vcpus_) TRY(vcpu->start(*this, vcpu_role_ ? &*vcpu_role_ : nullptr));
        for (const auto* role : {&device_role_, &vcpu_role_})
            if (*role) (*role)->note(jail_);
        return {};
    }

    std::string engine() const override { return "kvm"; }
    std::string isolation() const override { return "hardware"; }
    const jail::JailReport& jail() const override { return jail_; }
    pid_t pid() const override { return ::getpid(); }
    // There is little else in this process.
    std::chrono::nanoseconds processor_time() const override {
        return engine::processor_time(CLOCK_PROCESS_CPUTIME_ID);
    }
    void kill() override { end(MachineExit::Kind::kKilled); }
    Result<void> pause() override {
        for (const auto& vcpu : vcpus_) vcpu->request_pause();
        for (const auto& vcpu : vcpus_) vcpu->wait_paused();
        return {};
    }
    Result<void> resume() override {
        for (const auto& vcpu : vcpus_) vcpu->resume();
        return {};
    }

    Result<MachineSnapshot> capture(const std::function<Result<void>()>& still) override {
        MachineSnapshot snapshot;
        TRY(with_devices_still([&]() -> Result<void> {
            snapshot = TRY(capture_still(still));
            return {};
        }));
        return snapshot;
    }
    Result<void> with_devices_still(const std::function<Result<void>()>& still) override {
        return call_while_still(*disk_thread_, *io_thread_, still);
    }

  private:
    Result<void> boot(const MachineConfig& config) {
        kvm::BootImage image;
        image.kernel = TRY(base::open_file(config.kernel_path, O_RDONLY));
        if (!config.initramfs_path.empty())
            image.initramfs = TRY(base::open_file(config.initramfs_path, O_RDONLY));
        image.command_line = kvm::command_line(devices_.size());
        image.memory_bytes = uint64_t{config.memory_mib} << 20;
        image.cpus = config.cpus;
        memory_.emplace(TRY(kvm::MachineMemory::make(image.memory_bytes, config.huge_pages)));
        TRY(vm_->add_memory(*memory_->view(), image.memory_bytes));
        const kvm::BootState boot = TRY(kvm::load_boot_image(*memory_->view(), image));
        TRY(make_vcpus(vm_->supported_cpuid(), config.cpus));
        TRY(vcpus_[0]->set_boot_state(boot));
        TRY(confine(config));
        return start_devices();
    }

    Result<void> go_on(const MachineConfig& config) {
        const auto state = TRY(kvm::parse_machine(config.snapshot->state));
        if (state.memory_bytes() != uint64_t{config.memory_mib} << 20 ||
            static_cast<uint32_t>(state.vcpus_size()) != config.cpus ||
            static_cast<size_t>(state.devices_size()) != devices_.size())
            return base::make_error(ErrorCode::kInvalidArgument,
                                    "the snapshot is of a machine with {} MiB, {} processors and {} devices",
                                    state.memory_bytes() >> 20, state.vcpus_size(), state.devices_size());
        const auto cpuid = TRY(kvm::cpuid_entries(state.cpuid()));
        TRY(kvm::check_cpuid(cpuid, kvm::guest_cpuid(vm_->supported_cpuid(), 0, config.cpus)));
        memory_.emplace(
            TRY(kvm::MachineMemory::make(state.memory_bytes(), std::move(config.snapshot->memory))));
        TRY(vm_->add_memory(*memory_->view(), state.memory_bytes()));
        TRY(make_vcpus(cpuid, config.cpus));
        TRY(confine(config));
        TRY(start_devices(&state));
        io_apic_.restore(TRY(kvm::from_message(state.io_apic())));
        for (size_t i = 0; i < vcpus_.size(); ++i) TRY(vcpus_[i]->restore(state.vcpus(static_cast<int>(i))));
        TRY(vm_->set_clock(state.clock_ns()));
        // An interrupt may have been on its way. One too many does no harm.
        for (const auto& transport : transports_) transport->resample_interrupt();
        return {};
    }

    // From here on threads are started, each inside its role.
    Result<void> confine(const MachineConfig& config) {
        if (!config.confine) return {};
        TRY(config.confine({}));
        device_role_.emplace("device threads", TRY(jail::device_thread_policy()), config.strict_jail);
        vcpu_role_.emplace("vCPU threads", TRY(jail::vcpu_thread_policy()), config.strict_jail);
        return {};
    }

    Result<MachineSnapshot> capture_still(const std::function<Result<void>()>& still) {
        snapshot::v1::Machine state;
        state.set_memory_bytes(memory_->bytes());
        state.set_cpuid(kvm::cpuid_bytes(cpuid_));
        for (const auto& vcpu : vcpus_) *state.add_vcpus() = TRY(vcpu->save(*vm_));
        state.set_clock_ns(TRY(vm_->clock()));
        *state.mutable_io_apic() = kvm::to_message(io_apic_.save());
        for (size_t i = 0; i < devices_.size(); ++i)
            *state.add_devices() = kvm::to_message(devices_[i]->type(), transports_[i]->save());
        TRY(still());
        return MachineSnapshot{state.SerializeAsString(), TRY(memory_->freeze())};
    }

    Result<void> make_vcpus(const std::vector<kvm_cpuid_entry2>& cpuid, uint32_t cpus) {
        cpuid_ = kvm::guest_cpuid(cpuid, 0, cpus);
        for (uint32_t id = 0; id < cpus; ++id)
            vcpus_.push_back(TRY(kvm::Vcpu::make(*vm_, id, kvm::guest_cpuid(cpuid, id, cpus))));
        return {};
    }

    static Result<void> check(const MachineConfig& config) {
        if (config.cpus < 1 || config.cpus > kvm::kMaxCpus)
            return base::make_error(ErrorCode::kInvalidArgument,
                                    "a machine of {} processors was asked for; 1 to {} are possible",
                                    config.cpus, kvm::kMaxCpus);
        if (config.memory_mib < kMinMemoryMib)
            return base::make_error(ErrorCode::kInvalidArgument,
                                    "a machine of {} MiB was asked for; it needs {} or more",
                                    config.memory_mib, kMinMemoryMib);
        if (config.devices.size() + 1 > kvm::kMaxDevices)
            return base::make_error(ErrorCode::kInvalidArgument,
                                    "a machine of {} devices was asked for; {} are possible",
                                    config.devices.size(), kvm::kMaxDevices - 1);
        return {};
    }

    // With `state`: as they were.
    Result<void> start_devices(const snapshot::v1::Machine* state = nullptr) {
        jail::ThreadRole* role = device_role_ ? &*device_role_ : nullptr;
        disk_thread_ = TRY(DeviceThread::start("disk", role));
        io_thread_ = TRY(DeviceThread::start("devices", role));
        for (int i = 0; i < static_cast<int>(devices_.size()); ++i)
            TRY(add_device(*devices_[static_cast<size_t>(i)], state ? &state->devices(i) : nullptr));
        return {};
    }

    Result<void> add_device(virtio::Device& device, const snapshot::v1::Device* state) {
        const size_t index = transports_.size();
        DeviceThread& thread = device.type() == virtio::DeviceType::kBlock ? *disk_thread_ : *io_thread_;
        auto transport = TRY(virtio::mmio::Transport::make(device, thread.loop(), memory_->view()));
        for (uint32_t queue = 0; queue < device.queue_count(); ++queue)
            TRY(vm_->bind_write(Bus::address_of(index) + virtio::mmio::kQueueNotify, queue,
                                transport->kick_fd(queue)));
        TRY(vm_->bind_pin(kvm::kFirstPin + static_cast<uint32_t>(index), transport->interrupt_fd()));
        if (state) TRY(transport->restore(TRY(kvm::from_message(device.type(), *state))));
        Result<void> started;
        thread.run([&] { started = transport->start(); });
        bus_.add(*transport);
        transports_.push_back(std::move(transport));
        return started;
    }

    // kvm::ExitHandler, on the vCPUs' threads.
    void read_port(uint16_t port, std::span<uint8_t> data) override { bus_.read_port(port, data); }
    void write_port(uint16_t port, base::ByteView data) override { bus_.write_port(port, data); }
    void read_memory(uint64_t address, std::span<uint8_t> data) override { bus_.read_memory(address, data); }
    void write_memory(uint64_t address, base::ByteView data) override { bus_.write_memory(address, data); }
    void end_of_interrupt(uint8_t vector) override { io_apic_.end_of_interrupt(vector); }
    void triple_fault() override { end(MachineExit::Kind::kTripleFault); }
    bool ended() const override { return ended_; }
    void failed(const std::string& reason) override {
        base::log_error("the machine cannot go on", {{"error", reason}});
        end(MachineExit::Kind::kFailed);
    }

    // kvm::IoApic::Lines, one vCPU's thread at a time.
    void route(uint32_t pin, std::optional<kvm::MsiMessage> message) override {
        const auto routed = vm_->route(pin, message);
        if (!routed.ok()) failed(routed.error().message);
    }
    void resample(uint32_t pin) override {
        if (pin < kvm::kFirstPin || pin - kvm::kFirstPin >= transports_.size()) return;
        transports_[pin - kvm::kFirstPin]->resample_interrupt();
    }

    void power_event(Bus::Power power) {
        if (power == Bus::Power::kOff) return end(MachineExit::Kind::kPowerOff);
        uint16_t flag = 0;
        const bool warm = memory_->view()->read_value(kvm::kResetFlag, &flag) && flag == kvm::kWarmReset;
        end(warm ? MachineExit::Kind::kPanic : MachineExit::Kind::kReset);
    }

    // Any thread. The first reason is the one that counts.
    void end(MachineExit::Kind kind) {
        if (ended_.exchange(true)) return;
        loop_.post([this, kind, alive = std::weak_ptr<bool>(alive_)] {
            if (alive.lock()) finish(kind);
        });
    }

    void finish(MachineExit::Kind kind) {
        stop();
        uart_.flush();
        relay_->flush();
        relay_->close();
        if (on_exit_) std::exchange(on_exit_, nullptr)({.kind = kind});
    }

    // A vCPU may be waiting for a device, so they go first.
    void stop() {
        for (const auto& vcpu : vcpus_) vcpu->request_stop();
        vcpus_.clear();
        if (disk_thread_) disk_thread_->stop();
        if (io_thread_) io_thread_->stop();
        transports_.clear();
    }

    base::EventLoop& loop_;
    ExitCallback on_exit_;
    const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
    std::atomic<bool> ended_ = false;
    std::shared_ptr<kvm::ConsoleRelay> relay_;
    virtio::Console console_;
    kvm::Uart uart_;
    kvm::IoApic io_apic_;
    Bus bus_;
    jail::JailReport jail_;
    std::optional<jail::ThreadRole> device_role_;
    std::optional<jail::ThreadRole> vcpu_role_;
    std::optional<kvm::MachineMemory> memory_;
    std::optional<kvm::Vm> vm_;
    std::vector<virtio::Device*> devices_;
    std::vector<kvm_cpuid_entry2> cpuid_;  // of processor 0
    std::unique_ptr<DeviceThread> disk_thread_;
    std::unique_ptr<DeviceThread> io_thread_;
    std::vector<std::unique_ptr<virtio::mmio::Transport>> transports_;
    std::vector<std::unique_ptr<kvm::Vcpu>> vcpus_;
};

}  // namespace

Result<std::unique_ptr<Machine>> start_kvm(const MachineConfig& config, base::EventLoop& loop,
                                           ExitCallback on_exit) {
    auto machine = std::make_unique<KvmMachine>(config, loop, std::move(on_exit));
    TRY(machine->start(config));
    return std::unique_ptr<Machine>(std::move(machine));
}

}  // namespace boxlite::engine
