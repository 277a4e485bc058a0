// Any bytes as what netd reads itself: frames, DNS messages, the openings of TLS and HTTP connections. What
// it makes of them is well formed, and read back as what it was.
#include <cstdlib>

#include "net/dns_message.h"
#include "net/neighbour.h"
#include "net/opening.h"
#include "net/peer_packet.h"
#include "net/reassembly.h"
#include "tests/fuzz/fuzz.h"

using namespace boxlite;

namespace {

constexpr net::MacAddress kMac = {2, 0, 0, 0, 0, 1};

void require(bool holds) {
    if (!holds) std::abort();
}

void read_frame(base::ByteView bytes) {
    const auto ip = net::parse_ip(bytes);
    if (!ip) return;
    require(ip->packet.size() + net::kEthernetHeader <= bytes.size());
    if (const auto told = net::unreachable_frame(*ip, net::Unreachable::kProhibited)) {
        const auto back = net::parse_ip(*told);
        require(back && back->destination == ip->source && back->packet.size() <= 1280);
    }
    (void)net::parse_neighbour_question(bytes, &*ip);
    if (const auto packet = net::parse_peer_packet(*ip)) require(packet->data_bytes <= ip->payload.size());
    if (ip->fragment) {
        net::Reassembly reassembly;
        const auto whole = reassembly.add(bytes, *ip, {});
        require(!whole || (net::parse_ip(*whole) && !net::parse_ip(*whole)->fragment));
    }
    const auto datagram = net::parse_udp(*ip);
    if (!datagram) return;
    const base::Bytes answer =
        net::udp_frame({datagram->destination, datagram->source, datagram->payload}, ip->sender);
    const auto back = net::parse_ip(answer);
    require(back && net::parse_udp(*back).has_value());
}

void read_message(base::ByteView bytes) {
    (void)net::dns::addresses(bytes);
    (void)net::dns::parse_question(bytes, true);
    const auto question = net::dns::parse_question(bytes, false);
    if (!question) return;
    const auto refused = net::dns::make_answer(bytes, *question, net::dns::ResponseCode::kNameError);
    const auto back = net::dns::parse_question(refused, true);
    require(back && back->name == question->name && back->id == question->id);
    (void)net::dns::reverse_address(question->name);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    fuzz::Input input(data, size);
    const auto what = input.take<uint8_t>();
    const base::ByteView rest = input.bytes(size);
    if (what % 3 == 0) read_frame(rest);
    if (what % 3 == 1) read_message(rest);
    if (what % 3 == 2) {
        const net::Opening opening = net::read_opening(rest);
        require(opening.host.find('\0') == std::string::npos);
        require((opening.kind == net::Opening::Kind::kHost) == !opening.host.empty());
    }
    return 0;
}

std::vector<std::string> boxlite::fuzz::seeds() {
    const net::Endpoint box{*net::IpAddress::parse("192.168.127.2"), 1000};
    const net::Endpoint server{*net::IpAddress::parse("192.168.127.1"), 53};
    const net::Endpoint box6{*net::IpAddress::parse("fd00::2"), 1000};
    const net::Endpoint server6{*net::IpAddress::parse("fd00::1"), 53};
    const std::string query(
        "\x12\x34\x01\0\0\1\0\0\0\0\0\1\3www\7example\3com\0\0\1\0\1\0\0\x29\x10\0\0\0\0\0\0\0", 44);
    const auto frame = net::udp_frame({box, server, base::as_bytes(query)}, kMac);
    const auto frame6 = net::udp_frame({box6, server6, base::as_bytes(query)}, kMac);
    const std::string answer = query.substr(0, 2) + std::string("\x81\x80\0\1\0\1\0\0\0\0", 10) +
                               query.substr(12, 21) +
                               std::string("\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4\x5d\xb8\xd8\x22", 16);
    const std::string hello("\x16\3\1\0\x3e\1\0\0\x3a\3\3" + std::string(32, 'r') +
                            std::string("\0\0\2\x13\1\1\0\0\x0f\0\0\0\x0b\0\x09\0\0\6"
                                        "a.test",
                                        24));
    std::vector<std::string> all;
    const auto add = [&](char kind, std::string_view bytes) { all.push_back(kind + std::string(bytes)); };
    add(0, base::as_text(frame));
    add(0, base::as_text(frame6));
    add(1, query);
    add(1, answer);
    add(2, hello);
    add(2, "GET http://a.test/ HTTP/1.1\r\nHost: a.test:80\r\nAccept: */*\r\n\r\n");
    return all;
}
