// Any bytes from both sides of an intercepted connection, as HTTP/1.1 and as HTTP/2, in pieces of any size:
// no value of a secret gets to the box, and no placeholder of another host's to the server.
#include <cstdlib>

#include "net/http_rule.h"
#include "net/tls/http1.h"
#include "net/tls/http2.h"
#include "net/tls/testing.h"
#include "tests/fuzz/fuzz.h"

using namespace boxlite;
using namespace boxlite::net::tls;

namespace {

void require(bool holds) {
    if (!holds) std::abort();
}

struct Watched {
    std::string all;
    void take(base::Bytes& bytes) {
        all += base::as_text(bytes);
        bytes.clear();
    }
    bool has(std::string_view text) const { return all.find(text) != std::string::npos; }
};

}  // namespace

// Of each step: which side says it, how much it is, and that.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    fuzz::Input input(data, size);
    const bool second = input.take<uint8_t>() & 1;
    testing::Setting setting;
    std::unique_ptr<Conversation> talk;
    if (second)
        talk = std::make_unique<Http2>(setting.guard());
    else
        talk = std::make_unique<Http1>(setting.guard());
    Watched box, server;
    while (!input.empty() && !talk->over()) {
        const auto side = input.take<uint8_t>();
        const base::ByteView bytes = input.bytes(input.take<uint16_t>());
        if (side & 1)
            talk->from_server(bytes);
        else
            talk->from_box(bytes);
        (void)net::http_path(base::as_text(bytes));
        talk->written();
        box.take(talk->to_box);
        server.take(talk->to_server);
    }
    talk->box_ended();
    talk->server_ended();
    box.take(talk->to_box);
    server.take(talk->to_server);
    if (second) return 0;  // compressed there: what is inside is for the peers of the unit tests to judge
    require(!box.has(testing::kValue));
    require(!server.has("other-value"));
    return 0;
}

std::vector<std::string> boxlite::fuzz::seeds() {
    const auto say = [](Output& out, uint8_t side, std::string_view text) {
        out.put(side).put(static_cast<uint16_t>(text.size())).put_bytes(text);
    };
    std::vector<std::string> all;
    Output out;
    const std::string head = " HTTP/1.1\r\nHost: api.example.com\r\n";
    out.put(uint8_t{0});
    say(out, 0, "GET /?q=<BOXLITE_SECRET:QUERY>" + head + "X: <BOXLITE_SECRET:TOKEN>\r\n\r\n");
    say(out, 1,
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\ns3cret\r\n6\r\n-value\r\n0\r\n\r\n");
    say(out, 0,
        "POST /" + head +
            "Content-Length: 5\r\nAuthorization: Basic bWU6PEJPWExJVEVfU0VDUkVUOlRPS0VOPg==\r\n\r\n12345");
    say(out, 1, "HTTP/1.1 200 OK\r\nContent-Length: 14\r\nX: s3cret-value\r\n\r\n[s3cret-value]");
    say(out, 0, "PUT /" + head + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n");
    say(out, 1, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n");
    say(out, 0, "GET /ws" + head + "Upgrade: websocket\r\nConnection: Upgrade\r\n\r\n");
    say(out, 1, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n\x81\x0cs3cret-value");
    all.push_back(out.take());
    out.put(uint8_t{0});
    say(out, 0, "GET / HTTP/1.0\r\nHost: api.example.com\r\n\r\n");
    say(out, 1, "HTTP/1.0 200 OK\r\nContent-Encoding: gzip\r\n\r\n\x1f\x8b\x08");
    all.push_back(out.take());
    // What nghttp2 sends for "GET /": preface, settings, and a head of the static table.
    out.put(uint8_t{1});
    const std::string settings("\0\0\0\4\0\0\0\0\0", 9);
    const std::string path(
        "\x82\x87\x84\x41\x0f"
        "api.example.com");
    say(out, 0, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + settings);
    say(out, 1, settings);
    say(out, 0,
        std::string("\0\0", 2) + static_cast<char>(path.size()) + std::string("\1\5\0\0\0\1", 6) + path);
    say(out, 1,
        std::string("\0\0\1\1\4\0\0\0\1\x88\0\0\3\0\1\0\0\0\1"
                    "abc",
                    22));
    all.push_back(out.take());
    return all;
}
