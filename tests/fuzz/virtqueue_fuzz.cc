// Any guest memory with the rings of a queue in it: what the queue yields lies in guest memory, and as much
// comes back as was taken.
#include <cstdlib>

#include "tests/fuzz/fuzz.h"
#include "virtio/testing.h"

namespace {

using namespace boxlite;
using virtio::testing::kRamBase;
using virtio::testing::kRamSize;

constexpr uint16_t kEntries = 16;
constexpr size_t kMaxMemory = 16 << 10;
constexpr size_t kMaxTaken = size_t{4} * kEntries;
constexpr virtio::QueueAddresses kRings{kEntries, kRamBase, kRamBase + 0x100, kRamBase + 0x200, 0};
constexpr uint64_t kIndirectTable = kRamBase + 0x400, kData = kRamBase + 0x1000;

void require(bool holds) {
    if (!holds) std::abort();
}

void require_inside(const std::vector<virtio::Segment>& segments) {
    for (const virtio::Segment& segment : segments)
        require(segment.length > 0 && segment.address >= kRamBase &&
                segment.address - kRamBase <= kRamSize - segment.length);
}

}  // namespace

// The first byte chooses features, the rest is guest memory.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    fuzz::Input input(data, size);
    const auto choice = input.take<uint8_t>();
    const virtio::testing::Ram ram;
    ram.write(kRamBase, input.bytes(kMaxMemory));
    virtio::Queue queue;
    const uint64_t features =
        (choice & 1 ? virtio::kFeatureIndirectDesc : 0) | (choice & 2 ? virtio::kFeatureEventIdx : 0);
    require(queue.start(ram.memory(), kRings, features).ok());
    size_t taken = 0;
    queue.disable_kicks();
    // The device may write to the rings: then requests never end.
    while (taken < kMaxTaken) {
        const auto used_before = ram.get<uint16_t>(kRings.used + 2);
        const auto chain = queue.pop();
        if (!chain) break;
        require_inside(chain->readable);
        require_inside(chain->writable);
        uint8_t buffer[100] = {};
        const auto readable = std::min<uint64_t>(sizeof buffer, chain->readable_bytes());
        require(read_segments(queue.memory(), chain->readable, 0, std::span(buffer).first(readable)));
        const auto writable = std::min<uint64_t>(sizeof buffer, chain->writable_bytes());
        if (taken == 0 && used_before == 0) {
            queue.undo_pop();
            const auto again = queue.pop();
            require(again && again->head == chain->head);
        }
        require(write_segments(queue.memory(), chain->writable, 0, base::ByteView(buffer).first(writable)));
        queue.push(chain->head, static_cast<uint32_t>(writable));
        (void)queue.needs_notification();
        ++taken;
    }
    (void)queue.enable_kicks();
    if (!queue.running()) require(!queue.pop());
    return 0;
}

std::vector<std::string> boxlite::fuzz::seeds() {
    using virtio::testing::kDescIndirect;
    using virtio::testing::kDescNext;
    using virtio::testing::kDescWrite;
    struct Descriptor {
        uint64_t address;
        uint32_t length;
        uint16_t flags, next;
    };
    const Descriptor table[] = {{kData, 16, kDescNext, 1},        {kData + 64, 512, kDescNext, 2},
                                {kData + 1024, 1, kDescWrite, 0}, {kIndirectTable, 32, kDescIndirect, 0},
                                {kData, 0, kDescNext, 5},         {kData, 4096, kDescWrite, 0}};
    const Descriptor inner[] = {{kData, 100, kDescNext, 1}, {kData + 128, 100, kDescWrite, 0}};
    const uint16_t available[] = {0, 3, 0, 3, 4};  // flags, index, heads
    std::string memory(0x500, '\0');
    std::memcpy(memory.data(), table, sizeof table);
    std::memcpy(memory.data() + 0x100, available, sizeof available);
    std::memcpy(memory.data() + 0x400, inner, sizeof inner);
    return {'\0' + memory, '\1' + memory, '\2' + memory, '\3' + memory};
}
