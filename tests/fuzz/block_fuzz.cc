// Any requests to a block device: each comes back with a status that exists, and a read-only disk stays as it
// is.
#include "virtio/block.h"

#include <cstdlib>

#include "tests/fuzz/chains.h"
#include "virtio/disk_testing.h"

namespace {

using namespace boxlite;

constexpr uint64_t kDiskBytes = 64 << 10;

void require(bool holds) {
    if (!holds) std::abort();
}

void run(fuzz::Input& input, bool read_only) {
    auto owned = std::make_unique<virtio::testing::MemoryDisk>(kDiskBytes, read_only);
    virtio::testing::MemoryDisk& disk = *owned;
    virtio::Block block(std::move(owned), "fuzz");
    virtio::testing::FakeHost host(block, 64);
    for (size_t i = 0; i < fuzz::kMaxChains && !input.empty(); ++i) {
        const auto [buffers, indirect] = take_chain(input, host.ram());
        const auto written = host.request(0, buffers, indirect);
        if (!written) {
            require(!host.queue(0).running());
            break;
        }
        uint64_t room = 0;
        const virtio::testing::Buffer* last = nullptr;
        for (const auto& buffer : buffers) {
            if (!buffer.writable || buffer.length == 0) continue;
            room += buffer.length;
            last = &buffer;
        }
        require(*written <= room);
        if (*written > 0) require(host.ram().get<uint8_t>(last->address + last->length - 1) <= 2);
    }
    require(disk.content().size() == kDiskBytes);
    if (read_only) require(disk.content() == base::Bytes(kDiskBytes));
}

}  // namespace

// The first byte says whether the disk is read only.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    fuzz::Input input(data, size);
    const bool read_only = input.take<uint8_t>() & 1;
    run(input, read_only);
    return 0;
}

std::vector<std::string> boxlite::fuzz::seeds() {
    struct Request {
        uint32_t type, reserved;
        uint64_t sector;
    };
    struct Range {
        uint64_t sector;
        uint32_t sectors, flags;
    };
    const auto bytes = [](const auto& value) { return Output().put(value).take(); };
    std::vector<std::string> all;
    for (const uint8_t read_only : {0, 1}) {
        Output out;
        out.put(read_only);
        put_chain(out, {bytes(Request{1, 0, 3}), std::string(1024, 'w')}, {1});
        put_chain(out, {bytes(Request{0, 0, 3})}, {512, 512, 1}, true);
        put_chain(out, {bytes(Request{4, 0, 0})}, {1});
        put_chain(out, {bytes(Request{8, 0, 0})}, {20, 1});
        put_chain(out, {bytes(Request{11, 0, 0}) + bytes(Range{0, 8, 0}), bytes(Range{16, 8, 0})}, {1});
        put_chain(out, {bytes(Request{13, 0, 0}), bytes(Range{127, 1, 1})}, {1}, true);
        all.push_back(out.take());
    }
    return all;
}
