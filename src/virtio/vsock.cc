#include "virtio/vsock.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstring>

namespace boxlite::virtio {

namespace {

constexpr size_t kReceive = 0;
constexpr size_t kTransmit = 1;
constexpr size_t kEvent = 2;
constexpr uint32_t kTransportReset = 0;
constexpr uint16_t kTypeStream = 1;
constexpr uint16_t kOpRequest = 1, kOpResponse = 2, kOpReset = 3, kOpShutdown = 4, kOpPayload = 5,
                   kOpCreditUpdate = 6, kOpCreditRequest = 7;
constexpr uint32_t kShutdownReceive = 1, kShutdownSend = 2;
constexpr uint32_t kMaxPayload = 64 << 10;
constexpr size_t kMaxControls = 4096;
// The guest has nothing to do with a packet that was taken but to free it, and an interrupt costs it two
// turns of a worker: it hears of several at once, and of the last few a little later.
constexpr size_t kToldAtOnce = 4;
constexpr std::chrono::milliseconds kTellDelay{5};

}  // namespace

Vsock::Vsock() {
    base::store_le<uint64_t>(config_.data(), kGuestCid);
}

void Vsock::reset() {
    for (auto& [key, connection] : connections_) host_->loop().unwatch(connection.socket.get());
    connections_.clear();
    controls_.clear();
    ready_.clear();
    untold_ = 0;
    if (tell_timer_) host_->loop().cancel(std::exchange(tell_timer_, 0));
}

// virtio 1.2, 5.10.6.6: the guest's connections end.
void Vsock::restored() {
    host_->notify(kTransmit);
    Queue& queue = host_->queue(kEvent);
    if (!queue.running()) return;
    const auto chain = queue.pop();
    if (!chain) return;
    uint8_t event[4];
    base::store_le<uint32_t>(event, kTransportReset);
    const bool told = write_segments(queue.memory(), chain->writable, 0, event);
    queue.push(chain->head, told ? sizeof event : 0);
    host_->notify(kEvent);
}

void Vsock::process(size_t index) {
    if (index == kTransmit) process_transmit();
    // A new receive buffer may let waiting data through; a transmitted packet may have asked for an answer.
    flush_receive();
}

void Vsock::process_transmit() {
    Queue& queue = host_->queue(kTransmit);
    do {
        queue.disable_kicks();
        // A guest that never frees receive buffers cannot make the device hoard answers.
        while (controls_.size() < kMaxControls) {
            const auto chain = queue.pop();
            if (!chain) break;
            Header header;
            if (read_segments(queue.memory(), chain->readable, 0,
                              {reinterpret_cast<uint8_t*>(&header), sizeof header}))
                handle(header, *chain);
            queue.push(chain->head, 0);
            ++untold_;
        }
    } while (controls_.size() < kMaxControls && queue.enable_kicks());
    tell_transmitted();
}

void Vsock::tell_transmitted() {
    if (untold_ >= kToldAtOnce) {
        untold_ = 0;
        host_->notify(kTransmit);
    } else if (untold_ > 0 && !tell_timer_) {
        tell_timer_ = host_->loop().after(kTellDelay, [this] {
            tell_timer_ = 0;
            untold_ = 0;
            host_->notify(kTransmit);
        });
    }
}

void Vsock::handle(const Header& header, const Chain& chain) {
    if (header.src_cid != kGuestCid || header.dst_cid != kHostCid) return;
    const Key key{header.src_port, header.dst_port};
    if (header.type != kTypeStream) return queue_control(key, kOpReset);
    if (header.op == kOpRequest) return handle_request(header);
    const auto it = connections_.find(key);
    if (it == connections_.end()) {
        if (header.op != kOpReset) queue_control(key, kOpReset);
        return;
    }
    Connection& connection = it->second;
    connection.peer_alloc = header.buf_alloc;
    connection.peer_forwarded = header.fwd_cnt;
    switch (header.op) {
        case kOpPayload:
            handle_payload(header, chain, key, connection);
            break;
        case kOpShutdown:
            handle_shutdown(header, key, connection);
            break;
        case kOpCreditRequest:
            queue_control(key, kOpCreditUpdate);
            update_events(key, connection);
            break;
        case kOpCreditUpdate:
            update_events(key, connection);
            break;
        case kOpReset:
            close(key);
            break;
        default:
            queue_control(key, kOpReset);
            close(key);
    }
}

void Vsock::handle_request(const Header& header) {
    const Key key{header.src_port, header.dst_port};
    const auto listener = listeners_.find(header.dst_port);
    if (listener == listeners_.end() || connections_.contains(key) || connections_.size() >= kMaxConnections)
        return queue_control(key, kOpReset);
    auto pair = base::make_socketpair(SOCK_STREAM | SOCK_NONBLOCK);
    if (!pair.ok()) return queue_control(key, kOpReset);
    Connection connection;
    connection.socket = std::move(pair->first);
    connection.peer_alloc = header.buf_alloc;
    connection.peer_forwarded = header.fwd_cnt;
    connection.events = EPOLLIN;
    const int fd = connection.socket.get();
    if (!host_->loop().watch(fd, EPOLLIN, [this, key](uint32_t events) { socket_ready(key, events); }).ok())
        return queue_control(key, kOpReset);
    connections_.emplace(key, std::move(connection));
    queue_control(key, kOpResponse);
    listener->second(std::move(pair->second));
}

void Vsock::handle_payload(const Header& header, const Chain& chain, Key key, Connection& connection) {
    const size_t old = connection.pending.size();
    const bool honest = header.len <= kMaxPayload && !connection.guest_eof &&
                        header.len <= kBufferBytes - old &&
                        chain.readable_bytes() >= sizeof header + header.len;
    if (!honest) {  // more than its packet, or more than its credit
        queue_control(key, kOpReset);
        return close(key);
    }
    const GuestMemory& memory = host_->queue(kTransmit).memory();
    uint32_t taken = 0;
    if (old == 0) {  // the usual case: straight from the guest's buffer into the socket
        auto parts = segments_for_io(memory, chain.readable, sizeof header, header.len);
        msghdr message{};
        message.msg_iov = parts.data();
        message.msg_iovlen = std::min<size_t>(parts.size(), IOV_MAX);
        const ssize_t n = ::sendmsg(connection.socket.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n > 0) taken = static_cast<uint32_t>(n);
        connection.forwarded += taken;
    }
    connection.pending.resize(old + header.len - taken);
    (void)read_segments(memory, chain.readable, sizeof header + taken,
                        std::span(connection.pending).subspan(old));
    flush_pending(key, connection);
}

void Vsock::handle_shutdown(const Header& header, Key key, Connection& connection) {
    if (header.flags & kShutdownReceive) connection.local_eof = true;
    if (header.flags & kShutdownSend) connection.guest_eof = true;
    flush_pending(key, connection);
}

// Gives the socket what it takes. At most one call per packet, so that a slow reader costs no copies.
void Vsock::flush_pending(Key key, Connection& connection) {
    size_t taken = 0;
    while (taken < connection.pending.size()) {
        const ssize_t n = ::send(connection.socket.get(), connection.pending.data() + taken,
                                 connection.pending.size() - taken, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) break;
        if (n < 0) {
            queue_control(key, kOpReset);
            return close(key);
        }
        taken += static_cast<size_t>(n);
    }
    connection.pending.erase(connection.pending.begin(),
                             connection.pending.begin() + static_cast<ptrdiff_t>(taken));
    connection.forwarded += static_cast<uint32_t>(taken);
    if (connection.guest_eof && connection.pending.empty()) {
        if (connection.local_eof) {  // virtio 1.2, 5.10.6.5: a clean disconnect is answered by a reset
            queue_control(key, kOpReset);
            return close(key);
        }
        ::shutdown(connection.socket.get(), SHUT_WR);
    }
    grant_credit(key, connection);
    update_events(key, connection);
}

void Vsock::grant_credit(Key key, Connection& connection) {
    // The guest stops when its view of the free space is used up: tell it before half of it is gone.
    if (connection.forwarded - connection.told_forwarded >= kBufferBytes / 4)
        queue_control(key, kOpCreditUpdate);
}

uint32_t Vsock::credit(const Connection& connection) {
    const uint32_t in_flight = connection.sent - connection.peer_forwarded;
    return in_flight >= connection.peer_alloc ? 0 : connection.peer_alloc - in_flight;
}

void Vsock::update_events(Key key, Connection& connection) {
    uint32_t events = 0;
    if (!connection.pending.empty()) events |= EPOLLOUT;
    const bool queued = std::find(ready_.begin(), ready_.end(), key) != ready_.end();
    connection.reading = !queued && !connection.local_eof && credit(connection) > 0;
    if (connection.hung_up) {
        if (connection.reading) ready_.push_back(key);
        return;
    }
    if (connection.reading) events |= EPOLLIN;
    if (events == connection.events) return;
    connection.events = events;
    (void)host_->loop().change(connection.socket.get(), events);
}

void Vsock::socket_ready(Key key, uint32_t events) {
    const auto it = connections_.find(key);
    if (it == connections_.end()) return;
    Connection& connection = it->second;
    if (events & EPOLLOUT) {
        flush_pending(key, connection);
        if (!connections_.contains(key)) return flush_receive();
    }
    if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) && connection.reading) {
        ready_.push_back(key);
        connection.reading = false;
    } else if ((events & (EPOLLHUP | EPOLLERR)) && connection.local_eof) {
        // Both directions are over for the socket.
        queue_control(key, kOpReset);
        close(key);
    } else if (events & (EPOLLHUP | EPOLLERR)) {
        // What the peer left behind waits in the socket until the guest has credit for it.
        host_->loop().unwatch(connection.socket.get());
        connection.hung_up = true;
    } else if (events & EPOLLIN) {
        // It waits for a receive buffer already, and epoll would repeat itself until there is one.
        update_events(key, connection);
    }
    flush_receive();
}

void Vsock::queue_control(Key key, uint16_t op, uint32_t flags) {
    if (op == kOpCreditUpdate && std::any_of(controls_.begin(), controls_.end(), [&](const Control& c) {
            return c.key == key && c.op == kOpCreditUpdate;
        }))
        return;
    if (controls_.size() < kMaxControls + kMaxConnections) controls_.push_back({key, op, flags});
}

Vsock::Header Vsock::header_for(Key key, uint16_t op, const Connection* connection) const {
    Header header{};
    header.src_cid = kHostCid;
    header.dst_cid = kGuestCid;
    header.src_port = key.host_port;
    header.dst_port = key.guest_port;
    header.type = kTypeStream;
    header.op = op;
    header.buf_alloc = kBufferBytes;
    header.fwd_cnt = connection ? connection->forwarded : 0;
    return header;
}

// Control packets first, then data of the ready sockets in turn, as long as there are receive buffers.
void Vsock::flush_receive() {
    Queue& queue = host_->queue(kReceive);
    const bool was_full = controls_.size() >= kMaxControls;
    do {
        queue.disable_kicks();
        while (!controls_.empty()) {
            const auto chain = queue.pop();
            if (!chain) break;
            const Control control = controls_.front();
            controls_.pop_front();
            const auto it = connections_.find(control.key);
            Connection* connection = it == connections_.end() ? nullptr : &it->second;
            Header header = header_for(control.key, control.op, connection);
            header.flags = control.flags;
            if (connection) connection->told_forwarded = connection->forwarded;
            const bool written = write_segments(queue.memory(), chain->writable, 0,
                                                {reinterpret_cast<const uint8_t*>(&header), sizeof header});
            queue.push(chain->head, written ? sizeof header : 0);
        }
        while (controls_.empty() && !ready_.empty()) {
            const Key key = ready_.front();
            const auto it = connections_.find(key);
            if (it == connections_.end()) {
                ready_.pop_front();
                continue;
            }
            if (!send_data(key, it->second)) break;
        }
    } while ((!controls_.empty() || !ready_.empty()) && queue.enable_kicks());
    if (controls_.empty() && ready_.empty()) (void)queue.enable_kicks();
    host_->notify(kReceive);
    if (was_full && controls_.size() < kMaxControls) process_transmit();
}

// One packet from the socket to the guest. False when there is no receive buffer for it.
bool Vsock::send_data(Key key, Connection& connection) {
    Queue& queue = host_->queue(kReceive);
    const uint32_t allowed = connection.local_eof ? 0 : credit(connection);
    const auto done_for_now = [&] {
        ready_.pop_front();
        update_events(key, connection);
        return true;
    };
    if (allowed == 0) return done_for_now();
    const auto chain = queue.pop();
    if (!chain) return false;
    const auto parts = segments_for_io(queue.memory(), chain->writable, sizeof(Header),
                                       std::min<uint64_t>(allowed, kMaxPayload));
    if (parts.empty()) {  // a buffer without room for data, which would look like the end of the socket
        queue.push(chain->head, 0);
        return true;
    }
    ssize_t n;
    do
        n = ::readv(connection.socket.get(), parts.data(),
                    static_cast<int>(std::min<size_t>(parts.size(), IOV_MAX)));
    while (n < 0 && errno == EINTR);
    if (n < 0 && errno == EAGAIN) {
        queue.undo_pop();
        return done_for_now();
    }
    Header header = header_for(key, n > 0 ? kOpPayload : kOpShutdown, &connection);
    if (n > 0) {
        header.len = static_cast<uint32_t>(n);
        connection.sent += header.len;
    } else {
        // The host side's end of file: it sends no more, but still reads.
        connection.local_eof = true;
        header.flags = kShutdownSend;
    }
    connection.told_forwarded = connection.forwarded;
    const bool written = write_segments(queue.memory(), chain->writable, 0,
                                        {reinterpret_cast<const uint8_t*>(&header), sizeof header});
    queue.push(chain->head, written ? static_cast<uint32_t>(sizeof header) + header.len : 0);
    ready_.pop_front();
    if (connection.local_eof && connection.hung_up) {
        queue_control(key, kOpReset);
        close(key);
    } else if (connection.local_eof) {
        update_events(key, connection);
    } else {
        ready_.push_back(key);  // another turn: there may be more
    }
    return true;
}

void Vsock::close(Key key) {
    const auto it = connections_.find(key);
    if (it == connections_.end()) return;
    host_->loop().unwatch(it->second.socket.get());
    connections_.erase(it);
    std::erase(ready_, key);
}

}  // namespace boxlite::virtio
