#include "agent/tunnel.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

namespace boxlite::agent {

namespace {

// A server that is there accepts at once, unless its queue is full.
constexpr auto kPatience = std::chrono::seconds(10);

Error not_open() {
    return {ErrorCode::kInvalidState, "the tunnel is not open yet"};
}

int connect_loopback(int fd, bool v6, uint16_t port) {
    if (v6) {
        sockaddr_in6 address{};
        address.sin6_family = AF_INET6;
        address.sin6_addr = in6addr_loopback;
        address.sin6_port = htons(port);
        return ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address);
    }
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    return ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address);
}

}  // namespace

Tunnel::~Tunnel() {
    stop_dialling();
}

void Tunnel::open(rpc::Responder responder, Failed failed) {
    opening_.emplace(std::move(responder));
    failed_ = std::move(failed);
    dial();
}

void Tunnel::dial() {
    dialling_.reset(
        ::socket(v6_ ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP));
    if (!dialling_.valid()) return refused(errno);
    if (connect_loopback(dialling_.get(), v6_, port_) == 0) return dialled();
    if (errno != EINPROGRESS) return refused(errno);
    if (!loop_.watch(dialling_.get(), EPOLLOUT, [this](uint32_t) { dialled(); })) return refused(ENOMEM);
    timer_ = loop_.after(kPatience, [this] {
        timer_ = 0;
        refused(ETIMEDOUT);
    });
}

void Tunnel::stop_dialling() {
    if (timer_) loop_.cancel(timer_);
    timer_ = 0;
    if (dialling_.valid()) loop_.unwatch(dialling_.get());
}

void Tunnel::dialled() {
    int error = 0;
    socklen_t size = sizeof error;
    if (::getsockopt(dialling_.get(), SOL_SOCKET, SO_ERROR, &error, &size) < 0) error = errno;
    if (error != 0) return refused(error);
    stop_dialling();
    rpc::Responder responder = *std::exchange(opening_, std::nullopt);
    if (const auto ready = connected()) return responder.reply(std::string_view());
    responder.fail({ErrorCode::kResourceExhausted, "the box has no descriptors left for a tunnel"});
    // It destroys this object, and must not go with it.
    const Failed failed = std::move(failed_);
    failed();
}

Result<void> Tunnel::connected() {
    const int on = 1;
    (void)::setsockopt(dialling_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    base::Fd sending = TRY(dialling_.duplicate());
    in_.emplace(loop_, std::move(sending), InputStream::Kind::kSocket);
    out_.emplace(loop_, std::move(dialling_));
    return {};
}

void Tunnel::refused(int error) {
    stop_dialling();
    dialling_.reset();
    if (error == ECONNREFUSED && !std::exchange(v6_, true)) return dial();
    // Else a guest without IPv6 would say that instead of what 127.0.0.1 said.
    if (v6_ && error != ETIMEDOUT) error = ECONNREFUSED;
    if (error == ECONNREFUSED)
        opening_->fail(base::make_error(
            ErrorCode::kNetwork,
            "nothing in the box listens on TCP port {}: the connection to it was refused", port_));
    else
        opening_->fail(Error::from_errno(ErrorCode::kNetwork,
                                         fmt::format("connect to port {} of the box", port_), error));
    opening_.reset();
    const Failed failed = std::move(failed_);
    failed();
}

void Tunnel::read(uint32_t max_bytes, rpc::Responder responder) {
    out_ ? out_->read(max_bytes, std::move(responder)) : responder.fail(not_open());
}

void Tunnel::write(std::string data, bool close_after, rpc::Responder responder) {
    in_ ? in_->write(std::move(data), close_after, std::move(responder)) : responder.fail(not_open());
}

}  // namespace boxlite::agent
