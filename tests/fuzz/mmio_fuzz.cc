// A driver that writes any registers of a virtio-mmio device in any order, with rings that say anything; and
// a snapshot of such a device that another one is to go on from.
#include <thread>

#include "tests/fuzz/fuzz.h"
#include "virtio/mmio/transport.h"
#include "virtio/rng.h"
#include "virtio/testing.h"

namespace {

using namespace boxlite;
using namespace boxlite::virtio;
using mmio::Transport;

constexpr size_t kMaxSteps = 200;
constexpr uint16_t kRamOffset = 0x8000;  // steps from here on write to the guest's memory

struct Step {
    uint16_t offset;
    uint32_t value;
} __attribute__((packed));

void run_step(Transport& transport, const testing::Ram& ram, const Step& step) {
    uint8_t bytes[4];
    base::store_le(bytes, step.value);
    if (step.offset >= kRamOffset) return ram.write(testing::kRamBase + (step.offset - kRamOffset), bytes);
    transport.write(step.offset & 0x7fc, bytes);
    transport.read(step.offset, std::span(bytes).first(1 + step.offset % 4));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    fuzz::Input input(data, size);
    const testing::Ram ram;
    Rng device, other;
    const auto loop = base::EventLoop::make().value();
    const auto transport = Transport::make(device, *loop, ram.memory()).value();
    if (!transport->start().ok()) std::abort();
    std::thread thread([&] { (void)loop->run(); });
    for (size_t i = 0; i < kMaxSteps && !input.empty(); ++i) run_step(*transport, ram, input.take<Step>());
    Transport::State state;
    loop->post([&] {
        state = transport->save();
        loop->stop();
    });
    thread.join();

    // Whatever it says, the other device takes it or refuses it.
    const auto restored = Transport::make(other, *loop, ram.memory()).value();
    if (restored->restore(state).ok()) testing::turn(*loop);
    return 0;
}

std::vector<std::string> boxlite::fuzz::seeds() {
    Output out;
    const auto write = [&](uint64_t offset, uint32_t value) {
        out.put(Step{static_cast<uint16_t>(offset), value});
    };
    const auto ram = [&](uint16_t at, uint32_t value) { write(kRamOffset + at, value); };
    constexpr auto kAddress = static_cast<uint32_t>(testing::kRamBase);
    write(mmio::kStatus, mmio::kStatusAcknowledge | mmio::kStatusDriver);
    write(mmio::kDriverFeaturesSelect, 1);
    write(mmio::kDriverFeatures, 1);
    write(mmio::kStatus, mmio::kStatusFeaturesOk);
    write(mmio::kQueueSelect, 0);
    write(mmio::kQueueSize, 8);
    write(mmio::kQueueDescriptorsLow, kAddress);
    write(mmio::kQueueDriverLow, kAddress + 0x100);
    write(mmio::kQueueDeviceLow, kAddress + 0x200);
    write(mmio::kQueueReady, 1);
    ram(0, kAddress + 0x1000);
    ram(8, 64);
    ram(12, testing::kDescWrite);
    ram(0x100, 1 << 16);
    write(mmio::kStatus, mmio::kStatusDriverOk);
    write(mmio::kQueueNotify, 0);
    write(mmio::kInterruptAcknowledge, 1);
    std::string running = out.take();
    write(mmio::kStatus, 0);
    return {running, running + out.take() + running};
}
