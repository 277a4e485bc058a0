#include "net/host_resolver.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "base/id.h"
#include "net/dns_message.h"

namespace boxlite::net {

namespace {

using std::chrono::milliseconds;

constexpr size_t kLengthBytes = 2;

}  // namespace

struct HostResolver::Query {
    base::Bytes message;  // with an id of our own
    uint16_t box_id = 0;
    bool stream = false;
    Done done;
    unsigned tried = 0;
    base::Fd socket;
    base::EventLoop::TimerId timer = 0;
    size_t written = 0;  // of a stream
    base::Bytes received;
};

HostResolver::HostResolver(base::EventLoop& loop, ResolverConfig config)
    : loop_(loop), config_(std::move(config)) {}

HostResolver::~HostResolver() {
    for (auto& [key, query] : queries_) close(*query);
}

void HostResolver::ask(base::ByteView message, bool stream, Done done) {
    if (queries_.size() >= kMaxQueries) return done({});
    auto query = std::make_shared<Query>();
    query->box_id = base::load_be<uint16_t>(message.data());
    if (stream) {
        query->message.resize(kLengthBytes);
        base::store_be(query->message.data(), static_cast<uint16_t>(message.size()));
    }
    query->message.insert(query->message.end(), message.begin(), message.end());
    query->stream = stream;
    query->done = std::move(done);
    queries_[query.get()] = query;
    attempt(query);
}

void HostResolver::close(Query& query) {
    if (query.timer) loop_.cancel(query.timer);
    query.timer = 0;
    if (query.socket.valid()) loop_.unwatch(query.socket.get());
    query.socket.reset();
}

// A socket of its own for each attempt: with its random port and id, an answer is hard to forge (RFC 5452).
void HostResolver::attempt(const std::shared_ptr<Query>& query) {
    const SocketAddress server(config_.servers[query->tried % config_.servers.size()]);
    ++query->tried;
    const size_t at = query->stream ? kLengthBytes : 0;
    base::random_bytes({query->message.data() + at, 2});
    query->written = 0;
    query->received.clear();
    query->socket.reset(::socket(
        server.family(), (query->stream ? SOCK_STREAM : SOCK_DGRAM) | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    query->timer = loop_.after(config_.timeout, [this, query] { next(query); });
    const auto started = [&] {
        if (!query->socket.valid()) return false;
        const int connected = ::connect(query->socket.get(), server.get(), server.length);
        if (connected < 0 && errno != EINPROGRESS) return false;
        if (!query->stream &&
            ::send(query->socket.get(), query->message.data(), query->message.size(), MSG_NOSIGNAL) < 0)
            return false;
        return loop_
            .watch(query->socket.get(), query->stream ? EPOLLOUT : EPOLLIN,
                   [this, query](uint32_t events) { ready(query, events); })
            .ok();
    }();
    if (started) return;
    // From the loop: the caller's own call has to be over first.
    query->socket.reset();
    loop_.cancel(query->timer);
    query->timer = loop_.after(milliseconds(0), [this, query] { next(query); });
}

void HostResolver::next(const std::shared_ptr<Query>& query) {
    close(*query);
    if (query->tried < config_.attempts * config_.servers.size()) return attempt(query);
    queries_.erase(query.get());
    query->done({});
}

void HostResolver::ready(const std::shared_ptr<Query>& query, uint32_t events) {
    const int fd = query->socket.get();
    if (query->stream && (events & EPOLLOUT)) {
        const ssize_t n = ::send(fd, query->message.data() + query->written,
                                 query->message.size() - query->written, MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN) return next(query);
        if (n > 0) query->written += static_cast<size_t>(n);
        if (query->written == query->message.size()) (void)loop_.change(fd, EPOLLIN);
        return;
    }
    uint8_t buffer[dns::kMaxMessage + kLengthBytes];
    const ssize_t n = ::recv(fd, buffer, sizeof buffer, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n <= 0) return next(query);
    if (!query->stream) {
        // Another answer than the one that is waited for is not worth a word.
        (void)take(query, {buffer, static_cast<size_t>(n)});
        return;
    }
    query->received.insert(query->received.end(), buffer, buffer + n);
    if (query->received.size() < kLengthBytes) return;
    const size_t length = base::load_be<uint16_t>(query->received.data());
    if (query->received.size() < kLengthBytes + length) return;
    const base::Bytes answer(query->received.begin() + kLengthBytes,
                             query->received.begin() + static_cast<ptrdiff_t>(kLengthBytes + length));
    if (!take(query, answer)) next(query);
}

bool HostResolver::take(const std::shared_ptr<Query>& query, base::ByteView bytes) {
    const base::ByteView sent = base::ByteView(query->message).subspan(query->stream ? kLengthBytes : 0);
    const auto asked = dns::parse_question(sent, false);
    const auto told = dns::parse_question(bytes, true);
    if (!asked || !told || told->id != asked->id || told->name != asked->name || told->type != asked->type ||
        told->record_class != asked->record_class)
        return false;
    base::Bytes answer(bytes.begin(), bytes.end());
    base::store_be(answer.data(), query->box_id);
    const bool refused = static_cast<dns::ResponseCode>(answer[3] & 0xf) == dns::ResponseCode::kServerFailure;
    // Another server may know better.
    if (refused && query->tried < config_.servers.size()) {
        next(query);
        return true;
    }
    close(*query);
    queries_.erase(query.get());
    query->done(answer);
    return true;
}

}  // namespace boxlite::net
