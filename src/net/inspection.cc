#include "net/inspection.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/opening.h"

namespace boxlite::net {

namespace {

constexpr size_t kMaxOpening = 32 << 10;

}  // namespace

Result<std::unique_ptr<Inspection>> Inspection::start(base::EventLoop& loop, int fd, std::vector<Endpoint> to,
                                                      std::optional<ProxyHandshake> proxy,
                                                      Handlers handlers) {
    auto pair = TRY(base::make_socketpair(SOCK_STREAM | SOCK_NONBLOCK));
    std::unique_ptr<Inspection> self(new Inspection(loop, fd, std::move(to), std::move(pair.first),
                                                    std::move(proxy), std::move(handlers)));
    TRY(self->dial());
    if (::dup3(pair.second.get(), fd, O_CLOEXEC) < 0)
        return base::errno_error(ErrorCode::kNetwork, "replace a socket");
    return self;
}

// The next of its addresses that is not known at once to be out of reach.
Result<void> Inspection::dial() {
    Error error{ErrorCode::kNetwork, "no address is left"};
    while (next_ < to_.size()) {
        const Endpoint& to = to_[next_++];
        const SocketAddress address(to);
        base::Fd outside(::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
        if (!outside.valid()) return base::errno_error(ErrorCode::kNetwork, "make a socket");
        const int on = 1;
        (void)::setsockopt(outside.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        (void)::setsockopt(outside.get(), SOL_SOCKET, SO_OOBINLINE, &on, sizeof on);
        if (::connect(outside.get(), address.get(), address.length) < 0 && errno != EINPROGRESS) {
            error = base::errno_error(ErrorCode::kNetwork, "connect to {}", to.to_string());
            continue;
        }
        TRY(loop_.watch(outside.get(), EPOLLOUT, [this](uint32_t events) { outside_ready(events); }));
        outside_ = std::move(outside);
        return {};
    }
    return error;
}

Inspection::~Inspection() {
    if (outside_.valid()) loop_.unwatch(outside_.get());
    if (inside_.valid()) loop_.unwatch(inside_.get());
}

void Inspection::outside_ready(uint32_t events) {
    switch (state_) {
        case State::kDialling:
            return dialled();
        case State::kAtProxy:
            return ask_proxy();
        case State::kWaiting:
            // The other side speaks first: no protocol that names its host.
            if (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) return go_on({});
            return;
        case State::kMoving:
            return move();
        case State::kOver:
            return;
    }
}

void Inspection::dialled() {
    int error = 0;
    socklen_t size = sizeof error;
    if (::getsockopt(outside_.get(), SOL_SOCKET, SO_ERROR, &error, &size) < 0) error = errno;
    if (error != 0) {
        loop_.unwatch(outside_.get());
        outside_.reset();
        if (dial().ok()) return;
        return fail(fmt::format("{}{}", proxy_ ? "the proxy: " : "", ::strerrordesc_np(error)));
    }
    if (!proxy_) return wait_for_opening();
    state_ = State::kAtProxy;
    (void)loop_.change(outside_.get(), EPOLLIN | EPOLLET);
    ask_proxy();
}

void Inspection::ask_proxy() {
    switch (proxy_->advance(outside_.get())) {
        case ProxyHandshake::Outcome::kWaiting:
            return;
        case ProxyHandshake::Outcome::kOpen:
            return wait_for_opening();
        case ProxyHandshake::Outcome::kFailed:
            return fail(proxy_->problem());
    }
}

// The stack would take an end without anything unread for one that was closed in order.
void Inspection::fail(const std::string& why) {
    handlers_.failed(why);
    drop_ends();
    handlers_.reset();
}

void Inspection::wait_for_opening() {
    if (!handlers_.looks) return hand_over();
    state_ = State::kWaiting;
    (void)loop_.change(outside_.get(), EPOLLIN);
    // Looked at without being taken, so each arrival counts once.
    if (!loop_.watch(inside_.get(), EPOLLIN | EPOLLET, [this](uint32_t) { look(); }).ok()) return give_up();
    handlers_.renew();
}

void Inspection::look() {
    if (state_ != State::kWaiting) return;
    base::Bytes opening(kMaxOpening);
    const ssize_t n = ::recv(inside_.get(), opening.data(), opening.size(), MSG_PEEK | MSG_DONTWAIT);
    if (n < 0) return;
    opening.resize(static_cast<size_t>(n));
    const Opening said = read_opening(opening);
    switch (said.kind) {
        case Opening::Kind::kIncomplete:
            if (n == 0) return go_on({});  // the box says nothing at all
            if (opening.size() == kMaxOpening) return refuse("its opening is too long to tell where it goes");
            return;
        case Opening::Kind::kOther:
            return go_on({});
        case Opening::Kind::kBad:
            return handlers_.strict ? refuse(said.problem) : move();
        case Opening::Kind::kHost:
            if (said.http) return relay();
            if (const std::string why = handlers_.check(said.host); !why.empty()) return refuse(why);
            return handlers_.is_intercepted(said.host) ? intercept(said.host) : go_on(said.host);
    }
}

// As something that is not looked into.
void Inspection::go_on(const std::string& host) {
    if (handlers_.http_only(host)) return refuse("only HTTP requests are allowed there");
    move();
}

void Inspection::intercept(const std::string& host) {
    state_ = State::kOver;
    loop_.unwatch(outside_.get());
    loop_.unwatch(inside_.get());
    // The connection outside is kept for what it counts.
    if (const auto taken = handlers_.intercept(host, std::move(inside_), outside_); !taken.ok()) {
        handlers_.refused(taken.error().message);
        outside_.reset();
        return handlers_.reset();
    }
    intercepted_ = true;
}

void Inspection::relay() {
    state_ = State::kOver;
    loop_.unwatch(outside_.get());
    loop_.unwatch(inside_.get());
    relay_ = std::make_unique<HttpRelay>(
        loop_, std::move(inside_), std::move(outside_), handlers_.check_request,
        HttpRelay::Handlers{.refused = handlers_.refused, .reset = handlers_.reset});
    if (!relay_->start().ok()) handlers_.reset();
}

void Inspection::refuse(const std::string& why) {
    handlers_.refused(why);
    give_up();
}

// What was not read makes the stack's end a reset one.
void Inspection::give_up() {
    drop_ends();
    handlers_.renew();
}

void Inspection::drop_ends() {
    state_ = State::kOver;
    if (outside_.valid()) loop_.unwatch(outside_.get());
    outside_.reset();
    loop_.unwatch(inside_.get());
    inside_.reset();
}

void Inspection::move() {
    state_ = State::kMoving;
    for (;;) {
        while (!unsent_.empty()) {
            const ssize_t n = ::send(outside_.get(), unsent_.data(), unsent_.size(), MSG_NOSIGNAL);
            if (n < 0 && errno == EAGAIN) return (void)loop_.change(outside_.get(), EPOLLOUT);
            if (n < 0 && errno == EINTR) continue;
            if (n < 0) return give_up();
            unsent_.erase(unsent_.begin(), unsent_.begin() + n);
        }
        unsent_.resize(kMaxOpening);
        const ssize_t n = ::recv(inside_.get(), unsent_.data(), unsent_.size(), MSG_DONTWAIT);
        unsent_.resize(n > 0 ? static_cast<size_t>(n) : 0);
        if (n == 0) box_ended_ = true;
        if (n <= 0) return hand_over();
    }
}

// Nothing is between the two any more: the stack's number becomes the connection itself.
void Inspection::hand_over() {
    state_ = State::kOver;
    loop_.unwatch(outside_.get());
    loop_.unwatch(inside_.get());
    if (box_ended_) ::shutdown(outside_.get(), SHUT_WR);
    (void)::dup3(outside_.get(), fd_, O_CLOEXEC);
    outside_.reset();
    inside_.reset();
    handlers_.renew();
}

}  // namespace boxlite::net
