// Any chains on both queues of a console: what can be read is printed, in pieces of a bounded size.
#include "virtio/console.h"

#include <cstdlib>

#include "tests/fuzz/chains.h"

using namespace boxlite;

// Of each chain, the first byte is its queue.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    uint64_t printed = 0;
    virtio::Console console([&](base::ByteView piece) {
        if (piece.empty() || piece.size() > 4096) std::abort();
        printed += piece.size();
    });
    virtio::testing::FakeHost host(console, 1024);
    fuzz::Input input(data, size);
    for (size_t i = 0; i < fuzz::kMaxChains && !input.empty(); ++i) {
        const size_t queue = input.take<uint8_t>() & 1;
        const auto [buffers, indirect] = take_chain(input, host.ram());
        const uint64_t before = printed;
        if (!host.request(queue, buffers, indirect)) {
            if (printed != before) std::abort();
            continue;
        }
        uint64_t readable = 0;
        for (const auto& buffer : buffers) readable += buffer.writable ? 0 : buffer.length;
        if (printed - before != readable) std::abort();
    }
    return 0;
}

std::vector<std::string> boxlite::fuzz::seeds() {
    Output out;
    out.put(uint8_t{1});
    put_chain(out, {"a line of the kernel\n"}, {});
    out.put(uint8_t{0});
    put_chain(out, {}, {64});
    out.put(uint8_t{1});
    put_chain(out, {std::string(5000, 'x'), "", "y"}, {16}, true);
    return {out.take()};
}
