// The `uml` engine: the Linux kernel as a jailed process of its own. Its devices are at the other end of
// one vhost-user socket each, handed over as inherited descriptors, so the process opens nothing.
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <charconv>
#include <optional>

#include "base/file.h"
#include "base/log.h"
#include "base/process.h"
#include "engine/device_thread.h"
#include "engine/engine.h"
#include "engine/processor_time.h"
#include "engine/uml/launch.h"
#include "jail/cgroup.h"
#include "virtio/vhost_user/backend.h"

namespace boxlite::engine {

namespace {

// A kernel that gives up calls abort(). In its jail, where it may not signal itself, that ends in exit code
// 127; elsewhere in a signal.
MachineExit::Kind kind_of(const base::ExitStatus& status) {
    switch (status.signal) {
        case 0:
            return status.code == 0 ? MachineExit::Kind::kPowerOff : MachineExit::Kind::kPanic;
        case SIGABRT:
        case SIGSEGV:
        case SIGILL:
        case SIGBUS:
            return MachineExit::Kind::kPanic;
        default:
            return MachineExit::Kind::kKilled;
    }
}

// That this process may run on.
bool has_one_processor() {
    cpu_set_t processors;
    return ::sched_getaffinity(0, sizeof processors, &processors) == 0 && CPU_COUNT(&processors) == 1;
}

Result<uint32_t> max_map_count() {
    const std::string path = "/proc/sys/vm/max_map_count";
    const std::string text = TRY(base::read_file(path));
    uint32_t count = 0;
    if (std::from_chars(text.data(), text.data() + text.size(), count).ec != std::errc())
        return base::make_error(ErrorCode::kInternal, "'{}' is not a number: '{}'", path, text);
    return count;
}

class UmlMachine final : public Machine {
  public:
    UmlMachine(base::EventLoop& loop, ExitCallback on_exit, std::function<void(base::ByteView)> console)
        : loop_(loop), on_exit_(std::move(on_exit)), console_(std::move(console)) {}

    ~UmlMachine() override {
        on_exit_ = nullptr;
        kill();
        if (process_) finish();
    }

    Result<void> start(const MachineConfig& config) {
        uml::LaunchPlan plan;
        plan.kernel = TRY(base::open_file(config.kernel_path, O_RDONLY));
        plan.initramfs = TRY(base::open_file(config.initramfs_path, O_RDONLY));
        plan.box_id = config.box_id;
        plan.cgroup_note = config.cgroup_note;
        plan.memory_mib = config.memory_mib;
        plan.max_map_count = TRY(max_map_count());
        plan.single_processor = has_one_processor();
        plan.user_mode = config.user_mode;
        pausable_ = config.user_mode != "ptrace";
        plan.strict_jail = config.strict_jail;
        std::vector<base::Fd> sockets;
        for (const virtio::Device* device : config.devices) {
            base::FdPair pair = TRY(base::make_socketpair(SOCK_STREAM));
            plan.devices.push_back({std::move(pair.second), device->type()});
            sockets.push_back(std::move(pair.first));
        }
        base::FdPair output = TRY(base::make_pipe());
        console_pipe_ = std::move(output.first);
        TRY(base::set_nonblocking(console_pipe_.get(), true));
        plan.console = std::move(output.second);
        launched_.emplace(TRY(uml::launch(plan)));
        process_ = &launched_->process;
        if (config.confine)
            TRY(config.confine(
                {.group = pausable_ ? process_->pid() : 0,
                 .cgroups = launched_->cgroup ? launched_->cgroup->folders() : std::vector<std::string>{}}));
        TRY(start_devices(config, std::move(sockets)));
        TRY(loop_.watch(process_->pidfd(), EPOLLIN, [this](uint32_t) { finish(); }));
        return loop_.watch(console_pipe_.get(), EPOLLIN, [this](uint32_t) { read_console(); });
    }

    std::string engine() const override { return "uml"; }
    std::string isolation() const override { return "software"; }
    const jail::JailReport& jail() const override { return launched_->report; }
    pid_t pid() const override { return launched_->process.pid(); }
    std::chrono::nanoseconds processor_time() const override {
        clockid_t clock;
        if (::clock_getcpuclockid(pid(), &clock) != 0) return {};
        return engine::processor_time(clock);
    }
    void kill() override {
        if (process_) (void)process_->signal(SIGKILL);
    }
    Result<void> pause() override {
        TRY(signal_all(SIGSTOP));
        siginfo_t info;
        while (::waitid(P_PID, static_cast<id_t>(pid()), &info, WSTOPPED | WEXITED | WNOWAIT) < 0 &&
               errno == EINTR) {
        }
        return {};
    }
    Result<void> resume() override { return signal_all(SIGCONT); }
    Result<void> with_devices_still(const std::function<Result<void>()>& still) override {
        return call_while_still(*disk_thread_, *io_thread_, still);
    }
    Result<MachineSnapshot> capture(const std::function<Result<void>()>&) override {
        return base::make_error(
            ErrorCode::kUnsupported,
            "the uml engine cannot keep a machine's memory: it is spread over the kernel's "
            "process and those of the guest's programs; use the kvm engine");
    }

  private:
    // To the kernel and the processes of the guest's programs, which are its children.
    Result<void> signal_all(int signal) const {
        if (!pausable_)
            return base::make_error(ErrorCode::kUnsupported,
                                    "a uml machine in strict mode traces its programs and cannot be paused; "
                                    "use the standard security preset");
        if (::kill(-pid(), signal) < 0)
            return base::errno_error(ErrorCode::kEngine, "signal the machine's processes");
        return {};
    }

    // The kernel waits for them: its messages queue up in the sockets.
    Result<void> start_devices(const MachineConfig& config, std::vector<base::Fd> sockets) {
        if (config.confine)
            device_role_.emplace("device threads", TRY(jail::device_thread_policy()), config.strict_jail);
        jail::ThreadRole* role = device_role_ ? &*device_role_ : nullptr;
        disk_thread_ = TRY(DeviceThread::start("disk", role));
        io_thread_ = TRY(DeviceThread::start("devices", role));
        if (role) role->note(launched_->report);
        for (size_t i = 0; i < sockets.size(); ++i)
            TRY(add_backend(*config.devices[i], std::move(sockets[i])));
        return {};
    }

    Result<void> add_backend(virtio::Device& device, base::Fd socket) {
        DeviceThread& thread = device.type() == virtio::DeviceType::kBlock ? *disk_thread_ : *io_thread_;
        auto backend = std::make_unique<virtio::vhost_user::Backend>(
            device, thread.loop(), std::move(socket), [name = device.name()](const std::string& reason) {
                if (!reason.empty())
                    base::log_warn("a device's connection was cut", {{"device", name}, {"reason", reason}});
            });
        Result<void> started;
        thread.run([&] { started = backend->start(); });
        TRY(std::move(started));
        backends_.push_back(std::move(backend));
        return {};
    }

    void read_console() {
        uint8_t buffer[4096];
        for (;;) {
            const ssize_t n = ::read(console_pipe_.get(), buffer, sizeof buffer);
            if (n > 0) {
                if (console_) console_({buffer, static_cast<size_t>(n)});
                continue;
            }
            if (n == 0) {
                loop_.unwatch(console_pipe_.get());
                console_pipe_.reset();
            }
            return;
        }
    }

    void finish() {
        loop_.unwatch(process_->pidfd());
        const auto status = process_->wait();
        process_ = nullptr;
        if (console_pipe_.valid()) {
            read_console();
            if (console_pipe_.valid()) loop_.unwatch(console_pipe_.get());
            console_pipe_.reset();
        }
        if (disk_thread_) disk_thread_->stop();
        if (io_thread_) io_thread_->stop();
        backends_.clear();
        MachineExit exit;
        if (status.ok()) {
            exit.code = status->code;
            exit.signal = status->signal;
            exit.kind = kind_of(*status);
        }
        if (on_exit_) std::exchange(on_exit_, nullptr)(exit);
    }

    base::EventLoop& loop_;
    ExitCallback on_exit_;
    std::function<void(base::ByteView)> console_;
    bool pausable_ = false;
    std::optional<jail::ThreadRole> device_role_;
    std::unique_ptr<DeviceThread> disk_thread_;
    std::unique_ptr<DeviceThread> io_thread_;
    std::vector<std::unique_ptr<virtio::vhost_user::Backend>> backends_;
    base::Fd console_pipe_;
    std::optional<jail::JailedProcess> launched_;
    base::Process* process_ = nullptr;  // until it is reaped
};

}  // namespace

Result<std::unique_ptr<Machine>> start_uml(const MachineConfig& config, base::EventLoop& loop,
                                           ExitCallback on_exit) {
    auto machine = std::make_unique<UmlMachine>(loop, std::move(on_exit), config.console);
    TRY(machine->start(config));
    return std::unique_ptr<Machine>(std::move(machine));
}

}  // namespace boxlite::engine
