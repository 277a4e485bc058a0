// Any pages and ranges given to a memory balloon, those of its own rings among them: nothing but the guest's
// memory is touched, and each chain comes back or the queue is stopped.
#include "virtio/balloon.h"

#include <cstdlib>

#include "tests/fuzz/chains.h"

namespace {

using namespace boxlite;

void require(bool holds) {
    if (!holds) std::abort();
}

}  // namespace

// Before each chain a byte that names its queue.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    fuzz::Input input(data, size);
    virtio::Balloon balloon;
    virtio::testing::FakeHost host(balloon, 64);
    static const base::Bytes outside(virtio::Balloon::kPage, 9);
    for (size_t i = 0; i < fuzz::kMaxChains && !input.empty(); ++i) {
        const size_t queue = input.take<uint8_t>() % balloon.queue_count();
        const auto [buffers, indirect] = take_chain(input, host.ram());
        const auto written = host.request(queue, buffers, indirect);
        // It may have taken the used ring's page, in which case the driver sees nothing come back.
        require(!written || *written == 0);
    }
    require(outside == base::Bytes(virtio::Balloon::kPage, 9));
    require(balloon.config().size() == 16);
    return 0;
}

std::vector<std::string> boxlite::fuzz::seeds() {
    const auto numbers = [](std::initializer_list<uint32_t> pages) {
        Output out;
        for (const uint32_t page : pages) out.put(page);
        return out.take();
    };
    Output out;
    for (const uint8_t queue : {0, 1, 2}) {
        out.put(queue);
        put_chain(out, {numbers({0x101, 0x102, 0x105, 0x104, 0xffffffff})}, {});
        out.put(queue);
        put_chain(out, {numbers({0x100})}, {4096, 8192}, true);
    }
    return {out.take()};
}
