#include "net/opening.h"

#include <algorithm>
#include <string_view>

#include "net/address.h"
#include "net/http_head.h"
#include "net/policy.h"

namespace boxlite::net {

namespace {

constexpr uint8_t kHandshakeRecord = 22, kClientHello = 1, kHostName = 0;
constexpr uint16_t kServerName = 0, kEncryptedClientHello = 0xfe0d;
constexpr size_t kRecordHeader = 5, kMaxRecord = 16384 + 256;

Opening bad(std::string problem) {
    return {Opening::Kind::kBad, {}, std::move(problem), false};
}
Opening other() {
    return {Opening::Kind::kOther, {}, {}, false};
}
Opening incomplete() {
    return {};
}

Opening host(std::string_view text) {
    if (const auto name = normalize_host(text)) return {Opening::Kind::kHost, *name, {}, false};
    if (const auto address = IpAddress::parse(text))
        return {Opening::Kind::kHost, address->to_string(), {}, false};
    return bad("it asks for a host of which the name is none");
}

// Takes length-prefixed pieces from the front; `good` becomes false at the first that is not all there.
class Reader {
  public:
    explicit Reader(base::ByteView bytes) : rest_(bytes) {}
    bool good() const { return good_; }
    bool empty() const { return rest_.empty(); }
    base::ByteView take(size_t n) {
        if (n > rest_.size()) {
            good_ = false;
            rest_ = {};
            return {};
        }
        const auto taken = rest_.first(n);
        rest_ = rest_.subspan(n);
        return taken;
    }
    size_t number(size_t bytes) {
        size_t value = 0;
        for (const uint8_t byte : take(bytes)) value = value << 8 | byte;
        return value;
    }
    base::ByteView vector(size_t length_bytes) { return take(number(length_bytes)); }

  private:
    base::ByteView rest_;
    bool good_ = true;
};

Opening read_server_name(base::ByteView extension) {
    Reader reader(extension);
    Reader list(reader.vector(2));
    if (!reader.good() || !reader.empty()) return bad("its TLS server name is malformed");
    const size_t type = list.number(1);
    const base::ByteView name = list.vector(2);
    if (!list.good() || !list.empty() || type != kHostName) return bad("its TLS server name is malformed");
    return host(base::as_text(name));
}

Opening read_hello_body(base::ByteView body) {
    Reader reader(body);
    reader.take(2 + 32);  // version, random
    reader.vector(1);     // session
    reader.vector(2);     // cipher suites
    reader.vector(1);     // compression
    Reader extensions(reader.vector(2));
    if (!reader.good()) return bad("its TLS opening is malformed");
    Opening found = bad("its TLS opening names no server");
    bool named = false;
    while (!extensions.empty()) {
        const size_t type = extensions.number(2);
        const base::ByteView content = extensions.vector(2);
        if (!extensions.good()) return bad("its TLS opening is malformed");
        if (type == kEncryptedClientHello) return bad("its TLS opening may hide the server's name (ECH)");
        if (type != kServerName) continue;
        if (std::exchange(named, true)) return bad("its TLS opening names two servers");
        found = read_server_name(content);
    }
    return found;
}

constexpr std::string_view kHttp2Preface = "PRI * HTTP/2.0\r\n";

}  // namespace

Opening read_client_hello(base::ByteView bytes) {
    base::Bytes hello;  // of the records, joined
    for (;;) {
        if (bytes.size() < kRecordHeader) return incomplete();
        const uint8_t type = bytes[0];
        const size_t length = base::load_be<uint16_t>(bytes.data() + 3);
        if (type != kHandshakeRecord || bytes[1] != 3 || length == 0 || length > kMaxRecord)
            return hello.empty() && (type != kHandshakeRecord || bytes[1] != 3)
                       ? other()
                       : bad("its TLS opening is malformed");
        const size_t have = std::min(length, bytes.size() - kRecordHeader);
        hello.insert(hello.end(), bytes.begin() + kRecordHeader,
                     bytes.begin() + static_cast<ptrdiff_t>(kRecordHeader + have));
        if (!hello.empty() && hello[0] != kClientHello) return bad("its TLS opening is no ClientHello");
        if (hello.size() >= 4) {
            const size_t body = size_t{hello[1]} << 16 | size_t{hello[2]} << 8 | hello[3];
            if (hello.size() >= 4 + body) return read_hello_body(base::ByteView(hello).subspan(4, body));
        }
        if (have < length) return incomplete();
        bytes = bytes.subspan(kRecordHeader + length);
    }
}

Opening read_http_head(base::ByteView bytes) {
    // As servers do.
    while (!bytes.empty() && (bytes[0] == '\r' || bytes[0] == '\n')) bytes = bytes.subspan(1);
    if (bytes.empty()) return incomplete();
    const std::string_view text = base::as_text(bytes);
    if (text.starts_with(kHttp2Preface.substr(0, std::min(text.size(), kHttp2Preface.size()))))
        return text.size() < kHttp2Preface.size() ? incomplete() : bad("it speaks HTTP/2 without TLS");
    const HttpLine line = find_request_line(bytes);
    if (line == HttpLine::kNo) return other();
    if (line == HttpLine::kIncomplete) return incomplete();
    const auto head = read_http_request(bytes);
    if (!head) return bytes.size() > kMaxHttpHead ? bad("its HTTP request is too long") : incomplete();
    if (!head->problem.empty()) return bad(head->problem);
    return {Opening::Kind::kHost, head->host, {}, true};
}

Opening read_opening(base::ByteView bytes) {
    if (bytes.empty()) return incomplete();
    return bytes[0] == kHandshakeRecord ? read_client_hello(bytes) : read_http_head(bytes);
}

}  // namespace boxlite::net
