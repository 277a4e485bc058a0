// A guest that sends any packets, and a host side that reads, writes and closes at any time: what reaches the
// guest is well formed.
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>

#include "tests/fuzz/fuzz.h"
#include "virtio/vsock_testing.h"

namespace {

using namespace boxlite;
using virtio::testing::VsockGuest;
using virtio::testing::VsockHeader;

constexpr size_t kMaxSteps = 200;
constexpr uint32_t kPort = 1024;

enum Step : uint8_t { kRaw, kPacket, kOffer, kWrite, kRead, kClose, kHalfClose, kTurn, kReset, kSteps };

void require(bool holds) {
    if (!holds) std::abort();
}

struct Session {
    Session() {
        for (uint32_t port = kPort; port < kPort + 2; ++port)
            vsock.listen(port, [this](base::Fd fd) { accepted.push_back(std::move(fd)); });
    }

    void step(fuzz::Input& input) {
        const auto what = input.take<uint8_t>() % kSteps;
        const auto argument = input.take<uint16_t>();
        const int peer = accepted.empty() ? -1 : accepted[argument % accepted.size()].get();
        switch (what) {
            case kRaw: {
                const auto header = input.take<VsockHeader>();
                (void)guest.send(header, input.bytes(argument));
                break;
            }
            case kPacket: {
                VsockHeader header =
                    VsockGuest::header(input.take<uint8_t>() % 9, argument % 4, kPort + argument % 3,
                                       input.take<uint16_t>(), input.take<uint8_t>() & 3u);
                header.buf_alloc = input.take<uint16_t>();
                header.fwd_cnt = input.take<uint16_t>();
                const base::Bytes payload(header.len, 'p');
                (void)guest.send(header, payload);
                break;
            }
            case kOffer:
                guest.offer(std::min<size_t>(argument % 64, VsockGuest::kEntries - guest.offered()),
                            input.take<uint16_t>() % 8192);
                break;
            case kWrite: {
                const base::Bytes text(argument, 'w');
                if (peer >= 0) (void)::send(peer, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
                break;
            }
            case kRead: {
                base::Bytes text(size_t{argument} * 16);
                if (peer >= 0) (void)::recv(peer, text.data(), text.size(), MSG_DONTWAIT);
                break;
            }
            case kClose:
                if (peer >= 0)
                    accepted.erase(accepted.begin() + argument % static_cast<int>(accepted.size()));
                break;
            case kHalfClose:
                if (peer >= 0) ::shutdown(peer, argument & 1 ? SHUT_WR : SHUT_RD);
                break;
            case kReset:
                vsock.reset();
                break;
            default:
                guest.host().turn();
        }
        for (const auto& packet : guest.receive()) {
            const VsockHeader& header = packet.header;
            if (header.op == 0) continue;  // its buffer was too small for a header
            require(header.src_cid == 2 && header.dst_cid == 3 && header.type == 1 && header.op <= 7);
            require(header.len == packet.payload.size());
            require((header.len > 0) == (header.op == virtio::testing::kVsockPayload));
        }
    }

    std::vector<base::Fd> accepted;
    virtio::Vsock vsock;
    VsockGuest guest{vsock};
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    fuzz::Input input(data, size);
    Session session;
    for (size_t i = 0; i < kMaxSteps && !input.empty(); ++i) session.step(input);
    session.vsock.reset();
    return 0;
}

std::vector<std::string> boxlite::fuzz::seeds() {
    using namespace virtio::testing;
    Output out;
    const auto step = [&](Step what, uint16_t argument) {
        out.put(static_cast<uint8_t>(what)).put(argument);
    };
    const auto packet = [&](uint8_t op, uint16_t len, uint8_t flags) {
        step(kPacket, 0);
        out.put(op).put(len).put(flags).put(uint16_t{0xffff}).put(uint16_t{0});
    };
    const auto offer = [&](uint16_t count) {
        step(kOffer, count);
        out.put(uint16_t{4096});
    };
    std::vector<std::string> all;
    const auto open = [&] {
        offer(20);
        packet(kVsockRequest, 0, 0);
    };

    open();
    packet(kVsockPayload, 1000, 0);
    step(kRead, 100);
    step(kWrite, 20000);
    step(kTurn, 0);
    packet(kVsockCreditRequest, 0, 0);
    packet(kVsockShutdown, 0, kVsockNoSend);
    step(kHalfClose, 1);
    step(kTurn, 0);
    step(kClose, 0);
    step(kTurn, 0);
    all.push_back(out.take());

    open();
    for (int i = 0; i < 6; ++i) packet(kVsockPayload, 0xffff, 0);  // more than the socket takes
    packet(kVsockShutdown, 0, kVsockNoSend | kVsockNoReceive);
    for (int i = 0; i < 6; ++i) {
        step(kRead, 0xffff);
        step(kTurn, 0);
    }
    all.push_back(out.take());

    packet(kVsockRequest, 0, 0);
    step(kWrite, 60000);
    step(kTurn, 0);
    step(kClose, 0);
    step(kTurn, 0);
    offer(40);
    step(kReset, 0);
    step(kRaw, 10);
    out.put(VsockGuest::header(kVsockRequest, 1, kPort, 10)).put_bytes("0123456789");
    all.push_back(out.take());
    return all;
}
