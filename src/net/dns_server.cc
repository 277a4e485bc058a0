#include "net/dns_server.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>

#include "net/layout.h"

namespace boxlite::net {

namespace {

using dns::ResponseCode;

constexpr size_t kMaxPipelined = 16;  // questions of one connection that wait for their answers
constexpr size_t kMaxUnsent = 256 << 10;

// Names that are private by convention, RFC 6762 (appendix G) and 8375: what answers to one behind the proxy
// is not the public internet.
bool is_private_name(std::string_view host) {
    static constexpr std::string_view kDomains[] = {
        ".internal", ".local", ".localhost", ".intranet", ".private", ".corp", ".lan", ".home", ".home.arpa"};
    return std::any_of(std::begin(kDomains), std::end(kDomains),
                       [&](std::string_view domain) { return host.ends_with(domain); });
}

std::vector<IpAddress> both(const char* v4, const char* v6) {
    return {*IpAddress::parse(v4), *IpAddress::parse(v6)};
}

}  // namespace

struct DnsServer::Stream {
    base::Fd socket;
    base::Bytes in, out;
    size_t waiting = 0;  // answers to come
    bool ended = false;  // the box asks no more
};

DnsServer::DnsServer(base::EventLoop& loop, const Policy& policy, Pins& pins, FlowLog& log,
                     HostResolver& resolver, Unresolved unresolved, std::string hostname)
    : loop_(loop),
      policy_(policy),
      pins_(pins),
      log_(log),
      resolver_(resolver),
      unresolved_(std::move(unresolved)),
      hostname_(std::move(hostname)) {}

DnsServer::~DnsServer() {
    for (const auto& stream : streams_) loop_.unwatch(stream->socket.get());
}

void DnsServer::query(base::ByteView message, bool stream, Reply reply) {
    const auto question = dns::parse_question(message, false);
    if (!question) return;
    Asked asked{{message.begin(), message.end()}, *question, std::move(reply)};
    const uint16_t type = question->type;
    if (question->record_class != dns::kInternet || type == dns::kAny || type == dns::kAxfr)
        return refuse(asked, ResponseCode::kNotImplemented, "");
    if (answer_locally(asked) || answer_reverse(asked)) return;
    const auto host = normalize_host(question->name);
    if (!host) return refuse(asked, ResponseCode::kNameError, "");
    const Verdict verdict = policy_.resolve(*host);
    if (!verdict.allowed) return refuse(asked, ResponseCode::kNameError, verdict.rule);
    if (answer_known_stand_in(asked, *host)) return;
    // They would tell how to hide the name that a connection is to (TLS encrypted client hello).
    if (policy_.goes_by_names() && (type == dns::kHttps || type == dns::kSvcb))
        return asked.reply(dns::make_answer(asked.message, *question, ResponseCode::kNoError));
    const auto held = std::make_shared<Asked>(std::move(asked));
    resolver_.ask(held->message, stream, [this, held, alive = std::weak_ptr(alive_)](base::ByteView answer) {
        if (!alive.expired()) pass_on(*held, answer);
    });
}

void DnsServer::refuse(const Asked& asked, ResponseCode code, std::string_view rule) const {
    if (!rule.empty()) log_.refuse("dns", {}, asked.question.name, rule);
    asked.reply(dns::make_answer(asked.message, asked.question, code));
}

std::vector<IpAddress> DnsServer::own_addresses(const std::string& name) const {
    if (name == kHostName) return both(kHostAlias, kHostAlias6);
    if (name == "localhost" || name.ends_with(".localhost")) return both("127.0.0.1", "::1");
    if (!hostname_.empty() && name == hostname_) return both(kBoxAddress, kBoxAddress6);
    return private_network_ ? private_network_->addresses(name) : std::vector<IpAddress>();
}

bool DnsServer::answer_locally(const Asked& asked) const {
    const std::string& name = asked.question.name;
    if (const auto found = own_addresses(name); !found.empty())
        asked.reply(dns::make_answer(asked.message, asked.question, found));
    else if (name == kInternalZone || name.ends_with(fmt::format(".{}", kInternalZone)))
        asked.reply(dns::make_answer(asked.message, asked.question, ResponseCode::kNameError));
    else
        return false;
    return true;
}

// Names of addresses that the box got by name are those names. What others are called it is told when it may
// go there.
bool DnsServer::answer_reverse(const Asked& asked) const {
    const auto address = dns::reverse_address(asked.question.name);
    if (!address) return false;
    if (asked.question.type == dns::kPtr) {
        const std::string peer = private_network_ ? private_network_->name_of(*address) : std::string();
        if (!peer.empty()) return asked.reply(dns::make_pointer(asked.message, asked.question, peer)), true;
        const auto& names = pins_.names(*address);
        const std::string* name = names.empty() ? unresolved_.names.name_of(*address) : &names.front();
        if (name) return asked.reply(dns::make_pointer(asked.message, asked.question, *name)), true;
    }
    if (policy_.answer(*address).allowed) return false;
    asked.reply(dns::make_answer(asked.message, asked.question, ResponseCode::kNameError));
    return true;
}

// An address of IPv4; of IPv6 there is none.
bool DnsServer::answer_known_stand_in(const Asked& asked, const std::string& host) const {
    const auto address = unresolved_.names.find(host);
    if (!address || (asked.question.type != dns::kA && asked.question.type != dns::kAaaa)) return false;
    asked.reply(dns::make_answer(asked.message, asked.question, std::vector<IpAddress>{*address}));
    return true;
}

// Whether it is a name that the host has no answer for and its proxy may have one. One without a dot is
// nobody's outside.
bool DnsServer::answer_stand_in(const Asked& asked, base::ByteView answer) {
    constexpr uint8_t kCodeMask = 0x0f;
    const bool failed = answer.size() < dns::kHeaderBytes || (answer[3] & kCodeMask) != 0;
    const uint16_t type = asked.question.type;
    if (!failed || (type != dns::kA && type != dns::kAaaa)) return false;
    const auto host = normalize_host(asked.question.name);
    if (!host || host->find('.') == std::string::npos || !unresolved_.proxies.carries(*host)) return false;
    for (const std::string& domain : unresolved_.own_domains)
        if (host->ends_with("." + domain)) return false;
    constexpr uint16_t kHttpsPort = 443;
    if (is_private_name(*host) && policy_.connect_name(Protocol::kTcp, kHttpsPort, *host).is_public)
        return false;
    const auto address = unresolved_.names.add(*host);
    return address && answer_known_stand_in(asked, *host);
}

void DnsServer::pass_on(const Asked& asked, base::ByteView answer) {
    if (answer_stand_in(asked, answer)) return;
    const auto found = answer.empty() ? std::nullopt : dns::addresses(answer);
    if (!found)
        return asked.reply(dns::make_answer(asked.message, asked.question, ResponseCode::kServerFailure));
    for (const IpAddress& address : *found) {
        const Verdict verdict = policy_.answer(address);
        if (verdict.allowed) continue;
        log_.refuse("dns", {address, 0}, asked.question.name, verdict.rule);
        return asked.reply(dns::make_answer(asked.message, asked.question, ResponseCode::kNameError));
    }
    if (asked.question.type == dns::kA || asked.question.type == dns::kAaaa)
        for (const IpAddress& address : *found) pins_.add(address, asked.question.name);
    asked.reply(answer);
}

void DnsServer::serve(base::Fd socket) {
    if (streams_.size() >= kMaxStreams) return;
    auto stream = std::make_shared<Stream>();
    stream->socket = std::move(socket);
    if (loop_
            .watch(stream->socket.get(), EPOLLIN,
                   [this, stream](uint32_t events) { stream_ready(stream, events); })
            .ok())
        streams_.insert(stream);
}

void DnsServer::drop(const std::shared_ptr<Stream>& stream) {
    if (streams_.erase(stream) == 0) return;
    loop_.unwatch(stream->socket.get());
    stream->socket.reset();
}

void DnsServer::stream_ready(const std::shared_ptr<Stream>& stream, uint32_t events) {
    if (events & EPOLLOUT) flush(stream);
    if (!stream->socket.valid()) return;
    uint8_t buffer[4096];
    const ssize_t n = ::recv(stream->socket.get(), buffer, sizeof buffer, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n <= 0) {
        stream->ended = true;
        if (n < 0 || (stream->waiting == 0 && stream->out.empty())) return drop(stream);
        (void)loop_.change(stream->socket.get(), stream->out.empty() ? 0u : uint32_t{EPOLLOUT});
        return;
    }
    stream->in.insert(stream->in.end(), buffer, buffer + n);
    while (stream->in.size() >= 2) {
        const size_t length = base::load_be<uint16_t>(stream->in.data());
        if (stream->in.size() < 2 + length) break;
        if (stream->waiting >= kMaxPipelined || stream->out.size() > kMaxUnsent) return drop(stream);
        const base::Bytes message(stream->in.begin() + 2,
                                  stream->in.begin() + static_cast<ptrdiff_t>(2 + length));
        stream->in.erase(stream->in.begin(), stream->in.begin() + static_cast<ptrdiff_t>(2 + length));
        ++stream->waiting;
        query(message, true, [this, stream](base::ByteView answer) {
            if (!stream->socket.valid()) return;
            --stream->waiting;
            stream->out.push_back(static_cast<uint8_t>(answer.size() >> 8));
            stream->out.push_back(static_cast<uint8_t>(answer.size()));
            stream->out.insert(stream->out.end(), answer.begin(), answer.end());
            flush(stream);
        });
        if (!stream->socket.valid()) return;
    }
}

void DnsServer::flush(const std::shared_ptr<Stream>& stream) {
    const ssize_t n =
        ::send(stream->socket.get(), stream->out.data(), stream->out.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno != EAGAIN && errno != EINTR) return drop(stream);
    if (n > 0) stream->out.erase(stream->out.begin(), stream->out.begin() + n);
    if (stream->ended && stream->out.empty() && stream->waiting == 0) return drop(stream);
    (void)loop_.change(stream->socket.get(), (stream->ended ? 0u : uint32_t{EPOLLIN}) |
                                                 (stream->out.empty() ? 0u : uint32_t{EPOLLOUT}));
}

}  // namespace boxlite::net
