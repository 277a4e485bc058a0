// Real machines on a real /dev/kvm. tests/nested-kvm/run provides one, and the environment:
// BOXLITE_TEST_KERNEL, an x86_64 kernel of guest/kernel, and BOXLITE_TEST_INITRAMFS, with testing_init.cc in
// it.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <future>
#include <thread>

#include "base/file.h"
#include "disk/raw_file.h"
#include "engine/engine.h"
#include "engine/kvm/cpuid.h"
#include "engine/kvm/memory.h"
#include "engine/kvm/probe.h"
#include "engine/kvm/snapshot.h"
#include "engine/kvm/testing_kernel.h"
#include "engine/kvm/vcpu.h"
#include "engine/kvm/vm.h"
#include "virtio/block.h"
#include "virtio/rng.h"
#include "virtio/vsock.h"

#define GUEST(name)                                        \
    extern "C" const uint8_t guest_##name##_start[];       \
    extern "C" const uint8_t guest_##name##_end[];         \
    static boxlite::base::ByteView guest_##name() {        \
        return {guest_##name##_start, guest_##name##_end}; \
    }
GUEST(power_off)
GUEST(reset)
GUEST(warm_reset)
GUEST(triple_fault)
GUEST(spin)
GUEST(emulated)
GUEST(serial)
GUEST(hostile)

namespace boxlite::engine {
namespace {

using Kind = MachineExit::Kind;
using std::chrono::milliseconds;

constexpr milliseconds kBudget{120'000};

struct Outcome {
    Kind kind = Kind::kFailed;
    std::string console;
};

class KvmMachineTest : public ::testing::Test {
  protected:
    void SetUp() override { loop_ = base::EventLoop::make().value(); }

    Outcome run(const MachineConfig& wanted, const std::function<void(Machine&)>& meanwhile = nullptr) {
        Outcome outcome;
        MachineConfig config = wanted;
        config.console = [&](base::ByteView text) { outcome.console += base::as_text(text); };
        bool ended = false;
        auto machine = start_kvm(config, *loop_, [&](MachineExit exit) {
            outcome.kind = exit.kind;
            ended = true;
            loop_->stop();
        });
        if (!machine.ok()) {
            ADD_FAILURE() << machine.error().message;
            return outcome;
        }
        if (meanwhile) loop_->post([&] { meanwhile(**machine); });
        const auto timer = loop_->after(kBudget, [&] { loop_->stop(); });
        EXPECT_TRUE(loop_->run().ok());
        loop_->cancel(timer);
        EXPECT_TRUE(ended) << "the machine did not end; its console: " << outcome.console;
        return outcome;
    }

    Outcome run_code(base::ByteView code, const std::vector<virtio::Device*>& devices = {},
                     const std::function<void(Machine&)>& meanwhile = nullptr) {
        MachineConfig config;
        config.kernel_path = folder_.path() + "/guest";
        EXPECT_TRUE(base::write_file_atomically(config.kernel_path, kvm::testing_kernel(code)).ok());
        config.memory_mib = 32;
        config.devices = devices;
        return run(config, meanwhile);
    }

    std::unique_ptr<virtio::Block> make_disk(const std::string& command) {
        const std::string path = folder_.path() + "/disk";
        EXPECT_TRUE(base::write_file_atomically(path, base::as_bytes(command)).ok());
        EXPECT_EQ(::truncate(path.c_str(), 4 << 20), 0);
        return std::make_unique<virtio::Block>(disk::RawFile::open(path, false).value(), "test");
    }

    Outcome run_linux(uint32_t cpus, const std::string& command, uint32_t memory_mib = 128) {
        const auto disk = make_disk(command);
        virtio::Rng rng;
        virtio::Vsock vsock;
        std::thread echo;
        vsock.listen(5000, [&](base::Fd stream) {
            echo = std::thread([fd = std::move(stream)] {
                uint8_t bytes[4];
                (void)base::set_nonblocking(fd.get(), false);
                if (base::read_exact(fd.get(), bytes).ok()) (void)base::write_all(fd.get(), bytes);
            });
        });
        MachineConfig config;
        const char* kernel = std::getenv("BOXLITE_TEST_KERNEL");
        const char* initramfs = std::getenv("BOXLITE_TEST_INITRAMFS");
        if (!kernel || !initramfs) {
            ADD_FAILURE() << "BOXLITE_TEST_KERNEL and BOXLITE_TEST_INITRAMFS are not set";
            return {};
        }
        config.kernel_path = kernel;
        config.initramfs_path = initramfs;
        config.cpus = cpus;
        config.memory_mib = memory_mib;
        config.devices = {disk.get(), &rng, &vsock};
        Outcome outcome = run(config);
        if (echo.joinable()) echo.join();
        return outcome;
    }

    base::TempDir folder_ = base::TempDir::make().value();
    std::unique_ptr<base::EventLoop> loop_;
};

// A machine with a guest that remembers, and this test's end of its connection.
class Remembering {
  public:
    Remembering(base::EventLoop& loop, std::unique_ptr<virtio::Block> disk,
                std::shared_ptr<MachineSnapshot> snapshot = nullptr)
        : disk_(std::move(disk)) {
        vsock_.listen(5000, [this](base::Fd stream) {
            (void)base::set_nonblocking(stream.get(), false);
            stream_.set_value(std::move(stream));
        });
        MachineConfig config;
        config.kernel_path = std::getenv("BOXLITE_TEST_KERNEL");
        config.initramfs_path = std::getenv("BOXLITE_TEST_INITRAMFS");
        config.cpus = 2;
        config.memory_mib = 128;
        config.devices = {disk_.get(), &rng_, &vsock_};
        config.snapshot = std::move(snapshot);
        config.console = [this](base::ByteView text) { console_ += base::as_text(text); };
        auto started = start_kvm(config, loop, [this](MachineExit exit) { exit_ = exit.kind; });
        if (!started.ok()) ADD_FAILURE() << started.error().message;
        if (started.ok()) machine_ = std::move(started).value();
    }

    // Waits for the guest's word.
    uint8_t greeting() {
        auto stream = stream_.get_future();
        if (stream.wait_for(kBudget) != std::future_status::ready) return 0;
        connection_ = stream.get();
        return answer();
    }
    uint8_t tell(uint8_t byte) {
        EXPECT_TRUE(base::write_all(connection_.get(), {&byte, 1}).ok());
        return byte ? answer() : 0;
    }
    Machine& machine() { return *machine_; }
    std::optional<Kind> exit() const { return exit_; }
    const std::string& console() const { return console_; }

    std::shared_ptr<MachineSnapshot> capture() {
        EXPECT_TRUE(machine_->pause().ok());
        bool still = false;
        auto captured = machine_->capture([&]() -> Result<void> {
            still = true;
            return {};
        });
        EXPECT_TRUE(machine_->resume().ok());
        EXPECT_TRUE(still);
        if (captured.ok()) return std::make_shared<MachineSnapshot>(std::move(captured).value());
        ADD_FAILURE() << captured.error().message;
        return nullptr;
    }

  private:
    uint8_t answer() {
        uint8_t byte = 0;
        const auto read = base::read_exact(connection_.get(), {&byte, 1});
        EXPECT_TRUE(read.ok()) << read.error().message;
        return byte;
    }

    std::unique_ptr<virtio::Block> disk_;
    virtio::Rng rng_;
    virtio::Vsock vsock_;
    std::promise<base::Fd> stream_;
    base::Fd connection_;
    std::string console_;
    std::optional<Kind> exit_;
    std::unique_ptr<Machine> machine_;
};

TEST_F(KvmMachineTest, EndsAreToldApart) {
    EXPECT_EQ(run_code(guest_power_off()).kind, Kind::kPowerOff);
    EXPECT_EQ(run_code(guest_reset()).kind, Kind::kReset);
    EXPECT_EQ(run_code(guest_warm_reset()).kind, Kind::kPanic);
    EXPECT_EQ(run_code(guest_triple_fault()).kind, Kind::kTripleFault);
}

TEST_F(KvmMachineTest, AKvmThatRunsGuestsIsUsable) {
    const auto usable = probe_kvm();
    EXPECT_TRUE(usable.ok()) << usable.error().message;
}

TEST_F(KvmMachineTest, AKvmThatEmulatesGuestsIsNot) {
    const auto emulated = kvm::try_guest(guest_emulated());
    ASSERT_FALSE(emulated.ok());
    EXPECT_EQ(emulated.error().code, ErrorCode::kUnsupported);
    EXPECT_NE(emulated.error().message.find("as when KVM emulates"), std::string::npos)
        << emulated.error().message;
}

TEST_F(KvmMachineTest, WhatKvmEmulatesIsCounted) {
    kvm::Vm vm = kvm::Vm::make().value();
    const auto vcpu = kvm::Vcpu::make(vm, 0, kvm::guest_cpuid(vm.supported_cpuid(), 0, 1)).value();
    EXPECT_EQ(vcpu->emulated_instructions(), std::optional<uint64_t>(0));
}

TEST_F(KvmMachineTest, PausesAtAnyMomentEndNothing) {
    Remembering machine(*loop_, make_disk("remember"));
    ASSERT_EQ(machine.greeting(), 'B');
    for (uint8_t i = 1; i <= 100; ++i) {
        ASSERT_TRUE(machine.machine().pause().ok());
        ASSERT_TRUE(machine.machine().resume().ok());
        if (i % 10 != 0) continue;
        ASSERT_EQ(machine.tell(1), i / 10);
    }
}

TEST_F(KvmMachineTest, AMachineThatRunsIsKilled) {
    EXPECT_EQ(run_code(guest_spin(), {}, [](Machine& machine) { machine.kill(); }).kind, Kind::kKilled);
}

TEST_F(KvmMachineTest, EarlyWordsComeFromTheSerialPort) {
    const Outcome outcome = run_code(guest_serial());
    EXPECT_EQ(outcome.kind, Kind::kPowerOff);
    EXPECT_EQ(outcome.console, "early words\nand the last");
}

TEST_F(KvmMachineTest, RandomAccessesOfTheGuestEndNothing) {
    const auto disk = make_disk("");
    virtio::Rng rng;
    virtio::Vsock vsock;
    EXPECT_EQ(run_code(guest_hostile(), {disk.get(), &rng, &vsock}).kind, Kind::kPowerOff);
}

TEST_F(KvmMachineTest, WhatIsNoKernelIsRefused) {
    MachineConfig config;
    config.kernel_path = "/proc/self/exe";
    const auto machine = start_kvm(config, *loop_, nullptr);
    ASSERT_FALSE(machine.ok());
    EXPECT_NE(machine.error().message.find("kernel"), std::string::npos) << machine.error().message;
    config.cpus = 33;
    EXPECT_EQ(start_kvm(config, *loop_, nullptr).error().code, ErrorCode::kInvalidArgument);
}

void expect_report(const Outcome& outcome, uint32_t cpus) {
    EXPECT_EQ(outcome.kind, Kind::kPowerOff);
    const auto has = [&](const std::string& text) {
        EXPECT_NE(outcome.console.find(text), std::string::npos)
            << text << " is missing in: " << outcome.console;
    };
    has("init: report");
    has("clock: kvm-clock");
    has("processors: " + std::to_string(cpus) + ", visited: " + std::to_string(cpus));
    has("disk: good");
    has("rng: virtio_rng.0 64");
    has("vsock: ping");
    has("report over");
    const size_t at = outcome.console.find("time: ");
    ASSERT_NE(at, std::string::npos);
    EXPECT_NEAR(static_cast<double>(std::atoll(&outcome.console[at + 6])),
                static_cast<double>(std::time(nullptr)), 60);
}

TEST_F(KvmMachineTest, LinuxUsesItsDevicesOnOneProcessor) {
    expect_report(run_linux(1, "report"), 1);
}

TEST_F(KvmMachineTest, LinuxUsesItsDevicesOnTwoProcessors) {
    expect_report(run_linux(2, "report"), 2);
}

std::shared_ptr<MachineSnapshot> copy(const MachineSnapshot& snapshot) {
    auto copied = std::make_shared<MachineSnapshot>();
    copied->state = snapshot.state;
    copied->memory = kvm::duplicate(snapshot.memory).value();
    return copied;
}

TEST_F(KvmMachineTest, MachinesGoOnFromASnapshotApartFromEachOther) {
    Remembering parent(*loop_, make_disk("remember"));
    ASSERT_EQ(parent.greeting(), 'B');
    EXPECT_EQ(parent.tell(1), 1);
    EXPECT_EQ(parent.tell(1), 2);
    const auto first = parent.capture();
    ASSERT_TRUE(first);
    EXPECT_EQ(parent.tell(1), 3);
    const auto second = parent.capture();
    ASSERT_TRUE(second);
    EXPECT_EQ(parent.tell(1), 4);

    Remembering child(*loop_, make_disk("remember"), copy(*first));
    ASSERT_EQ(child.greeting(), 'R');
    EXPECT_EQ(child.tell(1), 3);
    Remembering sibling(*loop_, make_disk("remember"), copy(*first));
    ASSERT_EQ(sibling.greeting(), 'R');
    Remembering later(*loop_, make_disk("remember"), copy(*second));
    ASSERT_EQ(later.greeting(), 'R');
    EXPECT_EQ(child.tell(1), 4);
    EXPECT_EQ(child.tell(1), 5);
    EXPECT_EQ(later.tell(1), 4);
    EXPECT_EQ(sibling.tell(1), 3);
    EXPECT_EQ(parent.tell(1), 5);

    // Of a machine that is itself a child, and whose parent is gone.
    const auto grandchild_snapshot = later.capture();
    ASSERT_TRUE(grandchild_snapshot);
    for (Remembering* machine : {&parent, &child, &sibling, &later}) machine->tell(0);
    const auto timer = loop_->after(kBudget, [&] { loop_->stop(); });
    const auto all_over = [&] { return parent.exit() && child.exit() && sibling.exit() && later.exit(); };
    std::function<void()> look = [&] {
        if (all_over()) return loop_->stop();
        loop_->after(milliseconds(5), look);
    };
    look();
    EXPECT_TRUE(loop_->run().ok());
    EXPECT_TRUE(all_over());
    Remembering grandchild(*loop_, make_disk("remember"), grandchild_snapshot);
    ASSERT_EQ(grandchild.greeting(), 'R');
    EXPECT_EQ(grandchild.tell(1), 5);
    grandchild.machine().kill();
    loop_->cancel(timer);
    for (const Remembering* machine : {&parent, &child, &sibling, &later}) {
        EXPECT_EQ(machine->exit(), Kind::kReset) << machine->console();
        EXPECT_EQ(machine->console().find("a page has"), std::string::npos) << machine->console();
    }
}

TEST_F(KvmMachineTest, ASnapshotOfAnotherMachineIsRefused) {
    const auto disk = make_disk("");
    virtio::Rng rng;
    MachineConfig config;
    config.memory_mib = 32;
    config.devices = {disk.get(), &rng};
    config.snapshot = std::make_shared<MachineSnapshot>();
    config.snapshot->state = "nonsense";
    EXPECT_EQ(start_kvm(config, *loop_, nullptr).error().code, ErrorCode::kEngine);
    config.snapshot->state.clear();
    EXPECT_EQ(start_kvm(config, *loop_, nullptr).error().code, ErrorCode::kInvalidArgument);
}

TEST_F(KvmMachineTest, ASnapshotOfAnotherProcessorIsRefused) {
    const auto disk = make_disk("");
    const auto restore_error = [&](const std::vector<kvm_cpuid_entry2>& cpuid) {
        snapshot::v1::Machine state;
        state.set_memory_bytes(32 << 20);
        state.add_vcpus();
        state.add_devices();  // the disk
        state.add_devices();  // the machine's own console
        state.set_cpuid(kvm::cpuid_bytes(cpuid));
        MachineConfig config;
        config.memory_mib = 32;
        config.devices = {disk.get()};
        config.snapshot = std::make_shared<MachineSnapshot>();
        config.snapshot->state = state.SerializeAsString();
        return start_kvm(config, *loop_, nullptr).error();
    };
    auto cpuid = kvm::guest_cpuid(kvm::Vm::make().value().supported_cpuid(), 0, 1);
    EXPECT_NE(restore_error(cpuid).message.find("memory without layers"), std::string::npos);
    const auto features = std::find_if(cpuid.begin(), cpuid.end(), [](const kvm_cpuid_entry2& e) {
        return e.function == 7 && e.index == 0;
    });
    ASSERT_NE(features, cpuid.end());
    ASSERT_NE(features->ebx, UINT32_MAX);
    features->ebx |= features->ebx + 1;  // the first feature that this processor does not have
    const Error refused = restore_error(cpuid);
    EXPECT_EQ(refused.code, ErrorCode::kUnsupported);
    EXPECT_NE(refused.message.find("features that this one lacks: CPUID leaf 0x7.0 ebx"), std::string::npos)
        << refused.message;
}

TEST_F(KvmMachineTest, ARestartIsNoPowerOff) {
    EXPECT_EQ(run_linux(1, "restart").kind, Kind::kReset);
}

TEST_F(KvmMachineTest, APanicIsToldWithItsReason) {
    const Outcome outcome = run_linux(2, "panic");
    EXPECT_EQ(outcome.kind, Kind::kPanic);
    EXPECT_NE(outcome.console.find("Attempted to kill init"), std::string::npos) << outcome.console;
}

}  // namespace
}  // namespace boxlite::engine
