// A driver that sends any messages, with any descriptors, to a vhost-user backend: the device is reset when
// the connection ends, and nothing else happens.
#include <cstdlib>

#include "tests/fuzz/fuzz.h"
#include "virtio/vhost_user/testing.h"

namespace {

using namespace boxlite;
using namespace boxlite::virtio::vhost_user;

constexpr size_t kMaxSteps = 100;

enum Step : uint8_t { kMessage, kBytes, kShare, kSetUp, kEnable, kDisable, kPost, kSignal, kSteps };
enum Descriptor : uint8_t { kNone, kRam, kEvent, kEndedPipe, kTwoRams, kDescriptors };

struct Session {
    std::vector<int> descriptors(uint8_t choice) const {
        switch (choice % kDescriptors) {
            case kRam:
                return {ram.fd()};
            case kEvent:
                return {event.get()};
            case kEndedPipe:
                return {ended.get()};
            case kTwoRams:
                return {ram.fd(), ram.fd()};
            default:
                return {};
        }
    }

    void step(fuzz::Input& input) {
        const auto what = input.take<uint8_t>() % kSteps;
        const auto argument = input.take<uint8_t>();
        const uint32_t ring = argument & 1;
        switch (what) {
            case kMessage: {
                const auto request = input.take<uint8_t>();
                const auto size = input.take<uint16_t>();
                const auto payload = input.bytes(size);
                driver.send(request, payload, descriptors(argument), static_cast<uint32_t>(payload.size()));
                break;
            }
            case kBytes:
                driver.send_bytes(input.bytes(argument));
                break;
            case kShare:
                driver.share(ram);
                break;
            case kSetUp:
                driver.set_up(ring, queues[ring].addresses());
                break;
            case kEnable:
            case kDisable:
                driver.enable(ring, what == kEnable);
                break;
            case kPost: {
                // An offer of whatever its descriptor says.
                struct {
                    uint64_t address;
                    uint32_t length;
                    uint16_t flags, next;
                } descriptor = input.take<decltype(descriptor)>();
                queues[ring].describe(queues[ring].addresses().descriptors, argument % 8,
                                      {descriptor.address, descriptor.length, false}, descriptor.flags,
                                      descriptor.next);
                queues[ring].offer(argument % 16);
                break;
            }
            default:
                driver.signal(ring);
        }
    }

    testing::EchoDevice device;
    testing::Ram ram;
    testing::DriverQueue queues[2] = {{ram, 8}, {ram, 8}};
    base::Fd event = base::make_eventfd().value();
    base::Fd ended = base::make_pipe().value().first;
    testing::Driver driver{device};
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    fuzz::Input input(data, size);
    Session session;
    for (size_t i = 0; i < kMaxSteps && !input.empty() && !session.driver.closed; ++i) session.step(input);
    session.driver.socket.reset();
    session.driver.turn();
    if (!session.driver.closed || session.device.resets != 1) std::abort();
    return 0;
}

std::vector<std::string> boxlite::fuzz::seeds() {
    Output out;
    const auto step = [&](Step what, uint8_t argument) { out.put(static_cast<uint8_t>(what)).put(argument); };
    const auto message = [&](uint8_t request, std::string_view payload, Descriptor fds) {
        step(kMessage, fds);
        out.put(request).put(static_cast<uint16_t>(payload.size())).put_bytes(payload);
    };
    const auto bytes = [](const auto& value) { return Output().put(value).take(); };
    const uint64_t features =
        virtio::kFeatureVersion1 | virtio::kFeatureIndirectDesc | virtio::kFeatureEventIdx;
    const auto post = [&](uint8_t ring) {
        step(kPost, ring);
        out.put(virtio::testing::kRamBase + 0x10000).put(uint32_t{100}).put(uint16_t{0}).put(uint16_t{0});
    };

    message(kSetOwner, "", kNone);
    message(kGetFeatures, "", kNone);
    message(kSetFeatures, bytes(features), kNone);
    message(kGetProtocolFeatures, "", kNone);
    message(kGetQueueNum, "", kNone);
    message(kGetConfig, bytes(Config{0, 8, 0, {}}), kNone);
    step(kShare, 0);
    for (const uint8_t ring : {0, 1}) {
        step(kSetUp, ring);
        step(kEnable, ring);
        post(ring);
        step(kSignal, ring);
    }
    message(kGetVringBase, bytes(VringState{1, 0}), kNone);
    step(kDisable, 0);
    step(kEnable, 1);
    post(0);
    std::vector<std::string> all = {out.take()};

    const MemoryRegion region{virtio::testing::kRamBase, 1 << 20, 0, 0};
    message(kSetMemTable, bytes(uint64_t{1}) + bytes(region), kRam);
    message(kSetMemTable, bytes(uint64_t{2}) + bytes(region) + bytes(MemoryRegion{0, 4096, 0, 4096}),
            kTwoRams);
    message(kSetVringNum, bytes(VringState{0, 8}), kNone);
    message(kSetVringBase, bytes(VringState{0, 0}), kNone);
    message(kSetVringAddr,
            bytes(VringAddress{0, 0, virtio::testing::kRamBase, virtio::testing::kRamBase + 0x100,
                               virtio::testing::kRamBase + 0x80, 0}),
            kNone);
    message(kSetVringCall, bytes(uint64_t{0}), kEvent);
    message(kSetVringKick, bytes(uint64_t{0}), kEvent);
    message(kSetVringEnable, bytes(VringState{0, 1}), kNone);
    post(0);
    step(kSignal, 0);
    message(kSetVringKick, bytes(uint64_t{0}), kEndedPipe);
    all.push_back(out.take());
    return all;
}
