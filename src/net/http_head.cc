#include "net/http_head.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include "net/address.h"
#include "net/http_text.h"
#include "net/policy.h"

namespace boxlite::net {

namespace {

constexpr std::array<std::string_view, 9> kMethods = {"GET",   "HEAD",    "POST",    "PUT",  "DELETE",
                                                      "TRACE", "OPTIONS", "CONNECT", "PATCH"};
constexpr unsigned kMaxSizeDigits = 15;

// The host of "host", "host:port" and "[address]:port".
std::string_view without_port(std::string_view authority) {
    if (authority.starts_with('[')) {
        const size_t end = authority.find(']');
        return end == std::string_view::npos ? authority : authority.substr(1, end - 1);
    }
    return authority.substr(0, authority.find(':'));
}

struct Fields {
    std::optional<std::string_view> host, length, coding;
    bool upgrade = false;
};

const char* read_field(std::string_view line, Fields& fields) {
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos || colon == 0 ||
        line.substr(0, colon).find_first_of(" \t") != line.npos)
        return "its HTTP request has a malformed field";
    const std::string_view name = line.substr(0, colon), value = trim(line.substr(colon + 1));
    if (equal_fold(name, "host")) {
        if (fields.host) return "its HTTP request names two hosts";
        fields.host = value;
    } else if (equal_fold(name, "content-length")) {
        if (fields.length) return "its HTTP request has two lengths";
        fields.length = value;
    } else if (equal_fold(name, "transfer-encoding")) {
        if (fields.coding) return "its HTTP request has two codings";
        fields.coding = value;
    } else if (equal_fold(name, "upgrade")) {
        fields.upgrade = true;
    }
    return nullptr;
}

// How long the body is (RFC 9112, 6.3).
const char* set_framing(const Fields& fields, HttpHead& head) {
    if (fields.coding && fields.length) return "its HTTP request has a length and a coding";
    if (fields.coding && !equal_fold(*fields.coding, "chunked"))
        return "its HTTP request has an unknown coding";
    head.chunked = fields.coding.has_value();
    if (!fields.length) return nullptr;
    const char* end = fields.length->data() + fields.length->size();
    const auto [at, error] = std::from_chars(fields.length->data(), end, head.body);
    return error == std::errc() && at == end && !fields.length->empty()
               ? nullptr
               : "its HTTP request has a malformed length";
}

// A return that ends no line, which some take for the end of one.
bool has_stray_return(std::string_view text) {
    for (size_t at = text.find('\r'); at != std::string_view::npos; at = text.find('\r', at + 1))
        if (at + 1 == text.size() || text[at + 1] != '\n') return true;
    return false;
}

// Where it goes: the absolute form goes before Host (RFC 9112, 3.2.2).
const char* set_target(std::string_view method, std::string_view target, const Fields& fields,
                       HttpHead& head) {
    std::string_view named = fields.host.value_or(std::string_view());
    if (method == "CONNECT") {
        named = target;
    } else if (const size_t scheme = target.find("://");
               scheme != std::string_view::npos && !target.starts_with('/')) {
        const std::string_view rest = target.substr(scheme + 3);
        named = rest.substr(0, rest.find_first_of("/?#"));
        if (const size_t user = named.rfind('@'); user != std::string_view::npos)
            named.remove_prefix(user + 1);
    }
    if (named.empty()) return "its HTTP request names no host";
    const auto host = host_of_authority(named);
    if (!host) return "it asks for a host of which the name is none";
    head.host = *host;
    return nullptr;
}

}  // namespace

std::optional<std::string> host_of_authority(std::string_view authority) {
    const std::string_view text = without_port(authority);
    if (auto name = normalize_host(text)) return name;
    if (const auto address = IpAddress::parse(text)) return address->to_string();
    return std::nullopt;
}

HttpLine find_request_line(base::ByteView bytes) {
    const std::string_view text = base::as_text(bytes);
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    const bool binary = std::any_of(line.begin(), line.end(), [](char c) {
        const auto byte = static_cast<unsigned char>(c);
        return (byte < ' ' && byte != '\t' && byte != '\r') || byte >= 0x7f;
    });
    if (binary) return HttpLine::kNo;
    if (end == std::string_view::npos) return HttpLine::kIncomplete;
    // Without a version it is an old kind of request, which has no host to tell either.
    const std::string_view method = line.substr(0, line.find_first_of(" \t\r"));
    const bool known = std::find(kMethods.begin(), kMethods.end(), method) != kMethods.end();
    return known || line.find("HTTP/") != std::string_view::npos ? HttpLine::kYes : HttpLine::kNo;
}

std::optional<HttpHead> read_http_request(base::ByteView bytes) {
    const std::string_view text = base::as_text(bytes);
    HttpHead head;
    Fields fields;
    Lines lines(text);
    const auto request = lines.next();
    if (!request) return std::nullopt;
    const char* problem = nullptr;
    for (;;) {
        const auto line = lines.next();
        if (!line) return std::nullopt;
        if (line->empty()) break;
        if (!problem) problem = read_field(*line, fields);
    }
    head.size = lines.at();
    head.text = text.substr(0, head.size);
    const size_t blank = request->find(' ');
    const size_t last = request->rfind(' ');
    if (head.text.find('\0') != std::string_view::npos)
        problem = "its HTTP request has a zero byte in it";
    else if (has_stray_return(head.text) || blank == std::string_view::npos || last == blank ||
             !request->substr(last + 1).starts_with("HTTP/1."))
        problem = "its HTTP request is malformed";
    if (!problem) {
        head.method = request->substr(0, blank);
        head.target = request->substr(blank + 1, last - blank - 1);
        problem = set_target(head.method, head.target, fields, head);
        if (!problem) problem = set_framing(fields, head);
        head.upgrade = fields.upgrade;
        head.tunnel = head.method == "CONNECT";
        head.version_1_0 = request->ends_with(".0");
    }
    if (problem) head.problem = problem;
    return head;
}

size_t ChunkedBody::take(base::ByteView bytes, base::Bytes* data) {
    size_t at = 0;
    while (at < bytes.size() && !done() && !bad()) {
        if (state_ == State::kData) {
            const size_t n = std::min<uint64_t>(left_, bytes.size() - at);
            const base::ByteView piece = bytes.subspan(at, n);
            if (data) data->insert(data->end(), piece.begin(), piece.end());
            left_ -= n;
            at += n;
            if (left_ == 0) state_ = State::kDataEnd;
        } else {
            step(bytes[at++]);
        }
    }
    return at;
}

void ChunkedBody::step(uint8_t byte) {
    switch (state_) {
        case State::kSize: {
            const int digit = byte >= '0' && byte <= '9'   ? byte - '0'
                              : byte >= 'a' && byte <= 'f' ? byte - 'a' + 10
                              : byte >= 'A' && byte <= 'F' ? byte - 'A' + 10
                                                           : -1;
            if (digit >= 0) {
                left_ = left_ * 16 + static_cast<uint64_t>(digit);
                if (++digits_ > kMaxSizeDigits) state_ = State::kBad;
            } else if (digits_ == 0) {
                state_ = State::kBad;
            } else if (byte == '\r') {
                state_ = State::kSizeEnd;
            } else {
                state_ = byte == ';' ? State::kExtension : State::kBad;
            }
            return;
        }
        case State::kExtension:
            if (byte == '\n') state_ = State::kBad;
            if (byte == '\r') state_ = State::kSizeEnd;
            return;
        case State::kSizeEnd:
            state_ = byte != '\n' ? State::kBad : left_ > 0 ? State::kData : State::kTrailer;
            first_in_line_ = true;
            digits_ = 0;
            return;
        case State::kDataEnd:
            state_ = byte == '\r' ? State::kDataLineFeed : State::kBad;
            return;
        case State::kDataLineFeed:
            state_ = byte == '\n' ? State::kSize : State::kBad;
            return;
        case State::kTrailer:
            if (byte == '\n') {
                if (first_in_line_) state_ = State::kDone;
                first_in_line_ = true;
            } else if (byte != '\r') {
                first_in_line_ = false;
            }
            return;
        case State::kData:
        case State::kDone:
        case State::kBad:
            return;
    }
}

}  // namespace boxlite::net
