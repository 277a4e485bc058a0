// Real machines on a real /dev/kvm. tests/nested-kvm/run provides one, and the environment:
// BOXLITE_TEST_KERNEL, an x86_64 kernel of guest/kernel, and BOXLITE_TEST_INITRAMFS, with testing_init.cc in
// it.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/file.h"
#include "disk/raw_file.h"
#include "engine/engine.h"
#include "engine/kvm/testing_kernel.h"
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
GUEST(serial)
GUEST(hostile)

namespace boxlite::engine {
namespace {

using Kind = MachineExit::Kind;
using std::chrono::milliseconds;

constexpr milliseconds kBudget{60'000};

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

    base::TempDir folder_ = base::TempDir::make().value();
    std::unique_ptr<base::EventLoop> loop_;
};

TEST_F(KvmMachineTest, EndsAreToldApart) {
    EXPECT_EQ(run_code(guest_power_off()).kind, Kind::kPowerOff);
    EXPECT_EQ(run_code(guest_reset()).kind, Kind::kReset);
    EXPECT_EQ(run_code(guest_warm_reset()).kind, Kind::kPanic);
    EXPECT_EQ(run_code(guest_triple_fault()).kind, Kind::kTripleFault);
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

}  // namespace
}  // namespace boxlite::engine
