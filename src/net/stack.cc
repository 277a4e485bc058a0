#include "net/stack.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "base/log.h"
#include "net/layout.h"
#include "net/neighbour.h"
#include "net/stack_hooks.h"

namespace boxlite::net {

namespace {

using std::chrono::milliseconds;

// What slirp_pollfds_fill() says when it has no timer of its own.
constexpr uint32_t kNoTimer = 1000;
// So long after the last frame or byte, what the stack's slow timer is for (retransmission, closing) is over,
// and an idle connection has to wake nobody.
constexpr milliseconds kQuietTime{150'000};
constexpr int kBacklog = 1024;

in_addr v4(const char* text) {
    in_addr address{};
    std::memcpy(&address, IpAddress::parse(text)->bytes().data(), sizeof address);
    return address;
}

in6_addr v6(const char* text) {
    in6_addr address{};
    std::memcpy(&address, IpAddress::parse(text)->bytes().data(), sizeof address);
    return address;
}

uint32_t to_epoll(int events) {
    return (events & SLIRP_POLL_IN ? uint32_t{EPOLLIN} : 0) |
           (events & SLIRP_POLL_OUT ? uint32_t{EPOLLOUT} : 0) |
           (events & SLIRP_POLL_PRI ? uint32_t{EPOLLPRI} : 0);
}

int from_epoll(uint32_t events) {
    return (events & EPOLLIN ? SLIRP_POLL_IN : 0) | (events & EPOLLOUT ? SLIRP_POLL_OUT : 0) |
           (events & EPOLLPRI ? SLIRP_POLL_PRI : 0) | (events & EPOLLERR ? SLIRP_POLL_ERR : 0) |
           (events & EPOLLHUP ? SLIRP_POLL_HUP : 0);
}

}  // namespace

struct Stack::Callbacks {
    static Stack& self(void* opaque) { return *static_cast<Stack*>(opaque); }

    static ssize_t send_packet(const void* frame, size_t size, void* opaque) {
        self(opaque).send_({static_cast<const uint8_t*>(frame), size});
        return static_cast<ssize_t>(size);
    }
    // The box's own business, and it could fill a log with it.
    static void guest_error(const char*, void*) {}
    static int64_t clock_ns(void*) {
        return std::chrono::duration_cast<std::chrono::nanoseconds>(base::Clock::now().time_since_epoch())
            .count();
    }
    // The one timer is that of router advertisements, which a box with static addresses does not wait for.
    static void* timer_new(SlirpTimerCb, void*, void* opaque) { return opaque; }
    static void timer_free(void*, void*) {}
    static void timer_mod(void*, int64_t, void*) {}
    static void opened(int fd, void* opaque) {
        Stack& stack = self(opaque);
        if (fd < 0) return;
        stack.watched(fd) = {};
        if (!stack.current_) stack.dialer_.accepted(fd);
    }
    static void closed(int fd, void* opaque) {
        if (fd < 0) return;
        self(opaque).drop_watch(fd);
        self(opaque).dialer_.closed(fd);
    }
    static void notify(void* opaque) { self(opaque).stale_ = true; }

    static constexpr SlirpCb kTable = {
        .send_packet = send_packet,
        .guest_error = guest_error,
        .clock_get_ns = clock_ns,
        .timer_new = timer_new,
        .timer_free = timer_free,
        .timer_mod = timer_mod,
        .register_poll_fd = opened,
        .unregister_poll_fd = closed,
        .notify = notify,
        .init_completed = nullptr,
        .timer_new_opaque = nullptr,
    };
};

Stack::Stack(base::EventLoop& loop, Dialer& dialer, const BoxInterface& box,
             std::function<void(base::ByteView)> send)
    : loop_(loop), dialer_(dialer), box_(box), send_(std::move(send)) {}

Stack::~Stack() {
    if (epoll_.valid()) loop_.unwatch(epoll_.get());
    if (timer_) loop_.cancel(timer_);
    loop_.before_wait(nullptr);
    if (!slirp_) return;
    const StackHooks::Scope scope(*this);
    slirp_cleanup(slirp_);
}

Result<void> Stack::start() {
    SlirpConfig config{};
    config.version = 4;
    config.in_enabled = true;
    config.vnetwork = v4("192.168.127.0");
    config.vnetmask = v4("255.255.255.0");
    config.vhost = v4(kGateway);
    config.in6_enabled = true;
    config.vprefix_addr6 = v6("fd00::");
    config.vprefix_len = 64;
    config.vhost6 = v6(kGateway6);
    config.vdhcp_start = v4(kBoxAddress);
    // The second address that it answers ARP for. Names are not its business.
    config.vnameserver = v4(kHostAlias);
    config.vnameserver6 = v6(kHostAlias6);
    config.disable_dns = true;
    config.if_mtu = kMtu;
    config.if_mru = kMtu;
    epoll_ = base::Fd(::epoll_create1(EPOLL_CLOEXEC));
    if (!epoll_.valid()) return base::errno_error(ErrorCode::kNetwork, "make an epoll descriptor");
    const StackHooks::Scope scope(*this);
    slirp_ = slirp_new(&config, &Callbacks::kTable, this);
    if (!slirp_) return base::make_error(ErrorCode::kNetwork, "libslirp does not take its configuration");
    for (const base::Bytes& frame : announcements(box_))
        slirp_input(slirp_, frame.data(), static_cast<int>(frame.size()));
    TRY(loop_.watch(epoll_.get(), EPOLLIN, [this](uint32_t) { sockets_ready(); }));
    loop_.before_wait([this] { before_wait(); });
    return {};
}

Stack::Watched& Stack::watched(int fd) {
    const auto index = static_cast<size_t>(fd);
    if (index >= watched_.size()) watched_.resize(index + 64);
    return watched_[index];
}

void Stack::input(base::ByteView frame, const IpPacket* ip) {
    active_at_ = base::Clock::now();
    stale_ = true;
    current_ = ip;
    const StackHooks::Scope scope(*this);
    slirp_input(slirp_, frame.data(), static_cast<int>(frame.size()));
    current_ = nullptr;
}

Result<void> Stack::publish(base::Fd listener, uint16_t box_port) {
    // The stack keeps to one family.
    SocketAddress host({});
    host.length = sizeof host.storage;
    if (::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&host.storage), &host.length) < 0)
        return base::errno_error(ErrorCode::kNetwork, "find a listener's address");
    const SocketAddress box(
        {*IpAddress::parse(host.family() == AF_INET ? kBoxAddress : kBoxAddress6), box_port});
    to_publish_ = std::move(listener);
    stale_ = true;
    int result;
    {
        const StackHooks::Scope scope(*this);
        // That of the host is never bound: see StackHooks::bind.
        result = slirp_add_hostxfwd(slirp_, host.get(), host.length, box.get(), box.length, 0);
    }
    to_publish_.reset();
    if (result < 0) return base::errno_error(ErrorCode::kNetwork, "publish port {} of the box", box_port);
    if (::listen(published_, kBacklog) < 0)
        return base::errno_error(ErrorCode::kNetwork, "listen for port {} of the box", box_port);
    return {};
}

void Stack::renew(int fd) {
    drop_watch(fd);
    stale_ = true;
}

void Stack::let_read(bool on) {
    (void)loop_.change(epoll_.get(), on ? uint32_t{EPOLLIN} : 0);
}

void Stack::before_wait() {
    if (!std::exchange(stale_, false)) return;
    ++round_;
    uint32_t timeout = UINT32_MAX;
    slirp_pollfds_fill(
        slirp_, &timeout,
        [](int fd, int events, void* opaque) { return static_cast<Stack*>(opaque)->add_poll(fd, events); },
        this);
    arm(timeout);
}

int Stack::add_poll(int fd, int events) {
    if (dialer_.on_hold(fd)) return -1;
    Watched& entry = watched(fd);
    entry.events = events;
    entry.round = round_;
    const uint32_t wanted = to_epoll(events);
    if (entry.added && (wanted & ~entry.epoll) == 0) return fd;
    epoll_event event{.events = wanted, .data = {.fd = fd}};
    if (::epoll_ctl(epoll_.get(), entry.added ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &event) < 0) return -1;
    entry.added = true;
    entry.epoll = wanted;
    return fd;
}

void Stack::drop_watch(int fd) {
    Watched& entry = watched(fd);
    if (entry.added) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
    entry = {};
}

void Stack::sockets_ready() {
    epoll_event events[128];
    const int n = ::epoll_wait(epoll_.get(), events, 128, 0);
    bool any = false;
    for (int i = 0; i < n; ++i) {
        const int fd = events[i].data.fd;
        Watched& entry = watched(fd);
        const int ready = from_epoll(events[i].events);
        // What the stack has no use for now would be told again and again.
        if (entry.round != round_ || !(ready & entry.events)) {
            renew(fd);
            continue;
        }
        entry.ready = ready;
        any = true;
    }
    if (!any) return;
    active_at_ = base::Clock::now();
    poll(true);
    for (int i = 0; i < n; ++i) watched(events[i].data.fd).ready = 0;
}

void Stack::poll(bool sockets) {
    stale_ = true;
    const StackHooks::Scope scope(*this);
    slirp_pollfds_poll(
        slirp_, !sockets,
        [](int index, void* opaque) { return static_cast<Stack*>(opaque)->watched(index).ready; }, this);
}

void Stack::arm(uint32_t timeout_ms) {
    if (timeout_ms >= kNoTimer) return;
    const auto now = base::Clock::now();
    if (now - active_at_ > kQuietTime) return;
    const auto at = now + milliseconds(timeout_ms);
    if (timer_ && timer_at_ <= at) return;
    if (timer_) loop_.cancel(timer_);
    timer_at_ = at;
    timer_ = loop_.after(milliseconds(timeout_ms), [this] {
        timer_ = 0;
        poll(false);
    });
}

}  // namespace boxlite::net
