// The `kvm` engine: a virtual machine of this process, a thread for each processor, its devices on threads
// beside them.
#include <fcntl.h>
#include <unistd.h>

#include "base/log.h"
#include "engine/device_thread.h"
#include "engine/engine.h"
#include "engine/kvm/bus.h"
#include "engine/kvm/console_relay.h"
#include "engine/kvm/vcpu.h"
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
        kvm::BootImage image;
        image.kernel = TRY(base::open_file(config.kernel_path, O_RDONLY));
        if (!config.initramfs_path.empty())
            image.initramfs = TRY(base::open_file(config.initramfs_path, O_RDONLY));
        vm_.emplace(TRY(kvm::Vm::make()));
        std::vector<virtio::Device*> devices = {&console_};
        devices.insert(devices.end(), config.devices.begin(), config.devices.end());
        image.command_line = kvm::command_line(devices.size());
        image.memory_bytes = uint64_t{config.memory_mib} << 20;
        image.cpus = config.cpus;
        memory_ = TRY(kvm::make_memory(image.memory_bytes));
        TRY(vm_->add_memory(*memory_.view, image.memory_bytes));
        const kvm::BootState boot = TRY(kvm::load_boot_image(*memory_.view, image));
        for (uint32_t id = 0; id < config.cpus; ++id)
            vcpus_.push_back(TRY(kvm::Vcpu::make(*vm_, id, config.cpus, boot)));
        if (config.confine) TRY(config.confine({}));
        TRY(start_devices(devices));
        for (const auto& vcpu : vcpus_) vcpu->start(*this);
        return {};
    }

    std::string engine() const override { return "kvm"; }
    std::string isolation() const override { return "hardware"; }
    const jail::JailReport& jail() const override { return jail_; }
    pid_t pid() const override { return ::getpid(); }
    void kill() override { end(MachineExit::Kind::kKilled); }

  private:
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

    Result<void> start_devices(const std::vector<virtio::Device*>& devices) {
        disk_thread_ = TRY(DeviceThread::start("disk"));
        io_thread_ = TRY(DeviceThread::start("devices"));
        for (virtio::Device* device : devices) TRY(add_device(*device));
        return {};
    }

    Result<void> add_device(virtio::Device& device) {
        const size_t index = transports_.size();
        DeviceThread& thread = device.type() == virtio::DeviceType::kBlock ? *disk_thread_ : *io_thread_;
        auto transport = TRY(virtio::mmio::Transport::make(device, thread.loop(), memory_.view));
        for (uint32_t queue = 0; queue < device.queue_count(); ++queue)
            TRY(vm_->bind_write(Bus::address_of(index) + virtio::mmio::kQueueNotify, queue,
                                transport->kick_fd(queue)));
        TRY(vm_->bind_pin(kvm::kFirstPin + static_cast<uint32_t>(index), transport->interrupt_fd()));
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
        const bool warm = memory_.view->read_value(kvm::kResetFlag, &flag) && flag == kvm::kWarmReset;
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
    kvm::MachineMemory memory_;
    std::optional<kvm::Vm> vm_;
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
