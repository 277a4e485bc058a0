#include "net/packet_socket.h"

#include <sys/epoll.h>

namespace boxlite::net {

Result<std::unique_ptr<PacketSocket>> PacketSocket::make(base::EventLoop& loop, base::Fd socket,
                                                         Handlers handlers) {
    TRY(base::set_nonblocking(socket.get(), true));
    std::unique_ptr<PacketSocket> self(new PacketSocket(loop, std::move(socket), std::move(handlers)));
    TRY(loop.watch(self->socket_.get(), EPOLLIN, [raw = self.get()](uint32_t) { raw->ready(); }));
    return self;
}

PacketSocket::~PacketSocket() {
    if (socket_.valid()) loop_.unwatch(socket_.get());
}

void PacketSocket::send(std::string message, std::vector<base::Fd> descriptors) {
    if (!socket_.valid()) return;
    queue_.push_back({std::move(message), std::move(descriptors)});
    if (queue_.size() == 1) flush();
}

void PacketSocket::ready() {
    flush();
    while (socket_.valid()) {
        uint8_t bytes[kMaxMessage];
        std::vector<base::Fd> descriptors;
        const auto n = base::recv_with_fds(socket_.get(), bytes, descriptors);
        if (!n.ok() && errno == EAGAIN) return;
        if (!n.ok() || *n == 0) return close();
        handlers_.received({bytes, *n}, std::move(descriptors));
    }
}

void PacketSocket::flush() {
    while (!queue_.empty() && socket_.valid()) {
        const Message& message = queue_.front();
        std::vector<int> descriptors;
        for (const base::Fd& fd : message.descriptors) descriptors.push_back(fd.get());
        if (!base::send_with_fds(socket_.get(), base::as_bytes(message.bytes), descriptors).ok()) {
            if (errno != EAGAIN) return close();
            return (void)loop_.change(socket_.get(), EPOLLIN | EPOLLOUT);
        }
        queue_.pop_front();
        if (queue_.empty()) (void)loop_.change(socket_.get(), EPOLLIN);
    }
}

void PacketSocket::close() {
    loop_.unwatch(socket_.get());
    socket_.reset();
    queue_.clear();
    handlers_.closed();
}

}  // namespace boxlite::net
