// Any chains on both queues of a network device, with frames that come from the other side at any time: what
// leaves is what the chain held, and no more is written than its buffers have room for.
#include "virtio/net.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>

#include "tests/fuzz/chains.h"

using namespace boxlite;

// Of each step, the first byte tells: a queue's chain, a frame from outside, the end of the other side, or a
// reset.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    auto sockets = base::make_socketpair(SOCK_SEQPACKET | SOCK_NONBLOCK).value();
    virtio::Net net(std::move(sockets.first), {2, 0, 0, 0, 0, 1}, 65520, [] {});
    virtio::testing::FakeHost host(net, 256);
    fuzz::Input input(data, size);
    net.accept(input.take<uint32_t>());
    for (size_t i = 0; i < fuzz::kMaxChains && !input.empty(); ++i) {
        const auto what = input.take<uint8_t>();
        if (what == 0xff) sockets.second.reset();
        if (what == 0xfe) {
            net.reset();
            continue;
        }
        if (what & 0x40) {
            const auto frame = input.bytes(input.take<uint16_t>());
            if (sockets.second.valid() && !frame.empty())
                (void)::send(sockets.second.get(), frame.data(), frame.size(), MSG_NOSIGNAL);
        } else {
            const auto [buffers, indirect] = take_chain(input, host.ram());
            uint64_t readable = 0;
            uint64_t writable = 0;
            for (const auto& buffer : buffers) (buffer.writable ? writable : readable) += buffer.length;
            const auto written = host.request(what & 1, buffers, indirect);
            if (written && *written > writable) std::abort();
            uint8_t frame[100000];
            const ssize_t left =
                sockets.second.valid() ? ::recv(sockets.second.get(), frame, sizeof frame, MSG_DONTWAIT) : -1;
            if (left > 0 && static_cast<uint64_t>(left) + 12 != readable) std::abort();
        }
        host.turn();
        while (host.driver(0).take_used()) {
        }
    }
    return 0;
}

std::vector<std::string> boxlite::fuzz::seeds() {
    Output out;
    out.put(uint32_t{1 << 15 | 2});
    for (const uint16_t room : {1500, 4000, 200}) {
        out.put(uint8_t{0});
        put_chain(out, {}, {room, 100});
    }
    out.put(uint8_t{0x40}).put(uint16_t{3000}).put_bytes(std::string(3000, 'f'));
    out.put(uint8_t{1});
    put_chain(out, {std::string(12, '\0'), std::string(600, 't')}, {}, true);
    out.put(uint8_t{0x40}).put(uint16_t{60}).put_bytes(std::string(60, 'g'));
    out.put(uint8_t{0xfe});
    out.put(uint8_t{0});
    put_chain(out, {}, {1000});
    out.put(uint8_t{0xff});
    out.put(uint8_t{1});
    put_chain(out, {std::string(100, 'u')}, {});
    return {out.take()};
}
