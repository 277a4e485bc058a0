#include "net/http_relay.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>

namespace boxlite::net {

namespace {

constexpr size_t kPiece = 64 << 10;
constexpr size_t kMaxAnswerHead = 64 << 10;
constexpr size_t kStatusLine = 12;  // "HTTP/1.1 200"

}  // namespace

size_t HttpRequests::clear_head(base::ByteView held) {
    // An empty line before a request is passed over by all (RFC 9112, 2.2).
    if (held[0] == '\r' || held[0] == '\n') return 1;
    const auto head = read_http_request(held);
    if (!head) {
        if (held.size() > kMaxHttpHead) problem_ = "its HTTP request is too long";
        return 0;
    }
    problem_ = head->problem.empty() ? check_(*head) : head->problem;
    const bool asks = head->upgrade || head->tunnel;
    if (problem_.empty() && asks && !first_)
        problem_ = "it asks for another protocol after its first HTTP request";
    if (!problem_.empty()) return 0;
    first_ = false;
    asks_ = asks;
    tunnel_ = head->tunnel;
    body_ = head->body;
    chunks_ = ChunkedBody();
    state_ = head->chunked ? State::kChunked
             : body_ > 0   ? State::kBody
             : asks_       ? State::kAsked
                           : State::kHead;
    return head->size;
}

size_t HttpRequests::clear(base::ByteView held) {
    size_t cleared = 0;
    while (problem_.empty() && cleared < held.size()) {
        const base::ByteView rest = held.subspan(cleared);
        size_t n = 0;
        switch (state_) {
            case State::kHead:
                n = clear_head(rest);
                break;
            case State::kBody:
                n = std::min<uint64_t>(body_, rest.size());
                body_ -= n;
                if (body_ == 0) state_ = asks_ ? State::kAsked : State::kHead;
                break;
            case State::kChunked:
                n = chunks_.take(rest);
                if (chunks_.bad()) problem_ = "its HTTP request has a malformed body";
                if (chunks_.done()) state_ = asks_ ? State::kAsked : State::kHead;
                break;
            case State::kAsked:
                break;
            case State::kOpaque:
                n = rest.size();
                break;
        }
        if (n == 0) break;
        cleared += n;
    }
    return problem_.empty() ? cleared : 0;
}

// The final answer's status decides; those before it (1xx) are passed over.
void HttpRequests::answered(base::ByteView bytes) {
    if (!asks_) return;
    answer_ += base::as_text(bytes.first(std::min(bytes.size(), kMaxAnswerHead - answer_.size())));
    while (answer_.size() >= kStatusLine) {
        const bool proper = answer_.starts_with("HTTP/1.");
        const std::string status = answer_.substr(9, 3);
        const bool interim = proper && status[0] == '1' && status != "101";
        if (interim) {
            const size_t end = answer_.find("\r\n\r\n");
            if (end == std::string::npos) return;
            answer_.erase(0, end + 4);
            continue;
        }
        asks_ = false;
        const bool granted = proper && (tunnel_ ? status[0] == '2' : status == "101");
        // An answer before the whole request grants nothing.
        if (state_ == State::kAsked) state_ = granted ? State::kOpaque : State::kHead;
        answer_.clear();
        return;
    }
}

HttpRelay::HttpRelay(base::EventLoop& loop, base::Fd inside, base::Fd outside, HttpRequests::Check check,
                     Handlers handlers)
    : loop_(loop), requests_(std::move(check)), handlers_(std::move(handlers)) {
    inside_.fd = std::move(inside);
    outside_.fd = std::move(outside);
}

HttpRelay::~HttpRelay() {
    end();
}

void HttpRelay::end() {
    over_ = true;
    for (Side* side : {&inside_, &outside_})
        if (!side->gone && side->fd.valid()) loop_.unwatch(side->fd.get());
    for (Side* side : {&inside_, &outside_}) side->gone = true;
}

Result<void> HttpRelay::start() {
    for (Side* side : {&inside_, &outside_})
        TRY(loop_.watch(side->fd.get(), side->events = EPOLLIN,
                        [this, side](uint32_t events) { ready(*side, events); }));
    return {};
}

void HttpRelay::ready(Side& side, uint32_t events) {
    // What it left behind is still read; epoll would repeat itself meanwhile.
    if ((events & (EPOLLHUP | EPOLLERR)) && !(events & EPOLLIN)) {
        loop_.unwatch(side.fd.get());
        side.gone = true;
    }
    run();
}

// Moves what can be moved. The order of the box's bytes is: read, held, cleared, written.
void HttpRelay::run() {
    for (bool moved = true; moved && !over_;) {
        moved = read(inside_);
        moved = read(outside_) || moved;
        if (over_) return;
        if (!held_.empty()) {
            const size_t n = requests_.clear(held_);
            if (!requests_.problem().empty()) {
                handlers_.refused(requests_.problem());
                end();
                return handlers_.reset();
            }
            outside_.out.insert(outside_.out.end(), held_.begin(), held_.begin() + static_cast<ptrdiff_t>(n));
            held_.erase(held_.begin(), held_.begin() + static_cast<ptrdiff_t>(n));
            moved |= n > 0;
        }
        moved = write(outside_) || moved;
        moved = write(inside_) || moved;
    }
    if (over_) return;
    if (inside_.ended && held_.empty() && outside_.out.empty() && !outside_.shut) {
        outside_.shut = true;
        ::shutdown(outside_.fd.get(), SHUT_WR);
    }
    if (outside_.ended && inside_.out.empty() && !inside_.shut) {
        inside_.shut = true;
        ::shutdown(inside_.fd.get(), SHUT_WR);
    }
    watch(inside_, !inside_.ended && held_.size() + outside_.out.size() < kMaxHttpHead + kBufferBytes);
    watch(outside_, !outside_.ended && inside_.out.size() < kBufferBytes);
}

// True when something was read.
bool HttpRelay::read(Side& from) {
    const bool box = &from == &inside_;
    const size_t waiting = box ? held_.size() + outside_.out.size() : inside_.out.size();
    if (over_ || from.ended || waiting >= kBufferBytes + (box ? kMaxHttpHead : 0)) return false;
    base::Bytes& into = box ? held_ : inside_.out;
    const size_t before = into.size();
    into.resize(before + kPiece);
    const ssize_t n = ::recv(from.fd.get(), into.data() + before, kPiece, MSG_DONTWAIT);
    into.resize(before + (n > 0 ? static_cast<size_t>(n) : 0));
    if (n == 0) from.ended = true;
    if (n > 0 && !box) requests_.answered(base::ByteView(into).subspan(before));
    if (n < 0 && errno != EAGAIN && errno != EINTR) {
        end();
        handlers_.reset();
        return false;
    }
    return n > 0;
}

bool HttpRelay::write(Side& to) {
    if (over_ || to.out.empty()) return false;
    const ssize_t n = ::send(to.fd.get(), to.out.data(), to.out.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n > 0) to.out.erase(to.out.begin(), to.out.begin() + n);
    if (n < 0 && errno != EAGAIN && errno != EINTR) {
        end();
        handlers_.reset();
        return false;
    }
    return n > 0;
}

void HttpRelay::watch(Side& side, bool wants_read) {
    if (side.gone) return;
    const uint32_t events =
        (wants_read ? uint32_t{EPOLLIN} : 0u) | (side.out.empty() ? 0u : uint32_t{EPOLLOUT});
    if (events == std::exchange(side.events, events)) return;
    (void)loop_.change(side.fd.get(), events);
}

}  // namespace boxlite::net
