// A box that sends any frames that netd lets through to its stack, while its connections are refused, opened,
// written to, read from, closed and reset: the stack lives, and what it sends are frames.
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <map>

#include "net/layout.h"
#include "net/stack.h"
#include "tests/fuzz/fuzz.h"

using namespace boxlite;

namespace {

constexpr size_t kMaxSteps = 300;
enum Step : uint8_t { kFrame, kWrite, kRead, kClose, kReset, kTurn, kSteps };

const net::BoxInterface kBox({2, 0, 0xc0, 0xa8, 0x7f, 2});

void require(bool holds) {
    if (!holds) std::abort();
}

struct Session final : net::Dialer {
    Session() : loop(base::EventLoop::make().value()) { require(stack.start().ok()); }

    int connect(int fd, const net::Endpoint& to) override {
        if (to.port % 4 == 0) {
            errno = to.port % 8 == 0 ? ECONNREFUSED : EHOSTUNREACH;
            return -1;
        }
        auto pair = base::make_socketpair(SOCK_STREAM | SOCK_NONBLOCK).value();
        require(::dup3(pair.second.get(), fd, 0) == fd);
        peers[fd] = std::move(pair.first);
        if (to.port % 4 == 1) return 0;
        errno = EINPROGRESS;
        return -1;
    }
    void accepted(int) override {}
    void closed(int fd) override { peers.erase(fd); }
    bool on_hold(int) override { return false; }

    void turn() {
        loop->post([this] { loop->stop(); });
        require(loop->run().ok());
    }

    void step(fuzz::Input& input) {
        const auto what = input.take<uint8_t>() % kSteps;
        const auto argument = input.take<uint16_t>();
        auto peer = peers.begin();
        if (!peers.empty()) std::advance(peer, argument % peers.size());
        switch (what) {
            case kFrame: {
                const base::ByteView bytes = input.bytes(argument % 2000);
                const auto ip = net::parse_ip(bytes);
                const bool arp = bytes.size() > 14 && bytes[12] == 8 && bytes[13] == 6;
                if ((ip || arp) && net::is_for_stack(bytes, ip ? &*ip : nullptr, kBox))
                    stack.input(bytes, ip ? &*ip : nullptr);
                break;
            }
            case kWrite:
                if (!peers.empty()) {
                    const base::Bytes text(argument, 'w');
                    (void)::send(peer->second.get(), text.data(), text.size(), MSG_NOSIGNAL);
                }
                break;
            case kRead:
                if (!peers.empty()) {
                    base::Bytes text(argument);
                    (void)::recv(peer->second.get(), text.data(), text.size(), 0);
                }
                break;
            case kClose:
                if (!peers.empty()) ::shutdown(peer->second.get(), argument & 1 ? SHUT_WR : SHUT_RD);
                break;
            case kReset:
                if (!peers.empty()) peer->second.reset();
                break;
            default:
                turn();
        }
    }

    std::map<int, base::Fd> peers;
    std::unique_ptr<base::EventLoop> loop;
    net::Stack stack{*loop, *this, kBox,
                     [](base::ByteView frame) { require(frame.size() >= 14 && frame.size() < 65600); }};
};

// A frame of the box with IPv4 or IPv6 in it, its checksums right.
std::string tcp(const char* to, uint16_t from_port, uint16_t port, uint8_t flags, uint32_t sequence,
                uint32_t acknowledged, const std::string& payload = {}) {
    const auto address = *net::IpAddress::parse(to);
    const auto box = *net::IpAddress::parse(address.is_v4() ? net::kBoxAddress : net::kBoxAddress6);
    base::Bytes segment(20 + payload.size());
    base::store_be(&segment[0], from_port);
    base::store_be(&segment[2], port);
    base::store_be(&segment[4], sequence);
    base::store_be(&segment[8], acknowledged);
    segment[12] = 0x50;
    segment[13] = flags;
    base::store_be<uint16_t>(&segment[14], 60000);
    std::copy(payload.begin(), payload.end(), segment.begin() + 20);
    uint32_t sum = 6 + static_cast<uint32_t>(segment.size());
    const auto add = [&](base::ByteView bytes) {
        for (size_t i = 0; i < bytes.size(); ++i) sum += static_cast<uint32_t>(bytes[i]) << (i % 2 ? 0 : 8);
    };
    add(box.bytes());
    add(address.bytes());
    add(segment);
    while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
    base::store_be(&segment[16], static_cast<uint16_t>(~sum));
    base::Bytes packet;
    if (address.is_v4()) {
        packet = {0x45, 0, 0, 0, 0, 1, 0, 0, 64, 6, 0, 0};
        base::store_be(&packet[2], static_cast<uint16_t>(20 + segment.size()));
        packet.insert(packet.end(), box.bytes().begin(), box.bytes().end());
        packet.insert(packet.end(), address.bytes().begin(), address.bytes().end());
        sum = 0;
        add(packet);
        while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
        base::store_be(&packet[10], static_cast<uint16_t>(~sum));
    } else {
        packet = {0x60, 0, 0, 0, 0, 0, 6, 64};
        base::store_be(&packet[4], static_cast<uint16_t>(segment.size()));
        packet.insert(packet.end(), box.bytes().begin(), box.bytes().end());
        packet.insert(packet.end(), address.bytes().begin(), address.bytes().end());
    }
    packet.insert(packet.end(), segment.begin(), segment.end());
    std::string frame("\x52\x55\xc0\xa8\x7f\1\2\0\xc0\xa8\x7f\2", 12);
    frame += address.is_v4() ? std::string("\x08\0", 2) : std::string("\x86\xdd", 2);
    return frame + std::string(base::as_text(packet));
}

constexpr uint8_t kFin = 1, kSyn = 2, kRst = 4, kPush = 8, kAck = 16;
// What the stack's first connection begins to count from.
constexpr uint32_t kStackSequence = 1;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    fuzz::Input input(data, size);
    Session session;
    for (size_t i = 0; i < kMaxSteps && !input.empty(); ++i) session.step(input);
    session.turn();
    return 0;
}

std::vector<std::string> boxlite::fuzz::seeds() {
    Output out;
    const auto step = [&](Step what, uint16_t argument) {
        out.put(static_cast<uint8_t>(what)).put(argument);
    };
    const auto frame = [&](const std::string& bytes) {
        step(kFrame, static_cast<uint16_t>(bytes.size()));
        out.put_bytes(bytes);
    };
    std::vector<std::string> all;
    const std::string arp(
        "\xff\xff\xff\xff\xff\xff\2\0\xc0\xa8\x7f\2\x08\6\0\1\x08\0\6\4\0\1\2\0\xc0\xa8\x7f\2\xc0\xa8\x7f\2\0"
        "\0\0\0\0\0"
        "\xc0\xa8\x7f\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
        60);
    for (const char* to : {"93.184.216.34", "2606:4700::1"}) {
        frame(arp);
        frame(tcp(to, 1000, 81, kSyn, 100, 0));
        step(kTurn, 0);
        frame(tcp(to, 1000, 81, kAck, 101, kStackSequence + 1));
        step(kWrite, 5000);
        step(kTurn, 0);
        frame(tcp(to, 1000, 81, kAck | kPush, 101, kStackSequence + 1, "GET / HTTP/1.0\r\n\r\n"));
        step(kRead, 100);
        step(kClose, 1);
        step(kTurn, 0);
        frame(tcp(to, 1000, 81, kAck | kFin, 119, kStackSequence + 5002));
        step(kTurn, 0);
        all.push_back(out.take());
        frame(arp);
        for (const uint16_t port : {80, 84, 81, 82, 83}) frame(tcp(to, port, port, kSyn, 7, 0));
        step(kTurn, 0);
        frame(tcp(to, 81, 81, kRst, 8, 0));
        step(kReset, 0);
        step(kTurn, 0);
        frame(tcp(to, 82, 82, kAck | kPush, 50, 3, std::string(1000, 'x')));
        frame(tcp(to, 82, 82, kAck | kPush, 8, 3, std::string(42, 'y')));
        step(kTurn, 0);
        all.push_back(out.take());
    }
    return all;
}
