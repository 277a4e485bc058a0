#include "virtio/net.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <climits>

#include "base/checksum.h"

namespace boxlite::virtio {

namespace {

// virtio 1.2, 5.1.3 and 5.1.4.
constexpr uint64_t kFeatureChecksum = 1ull << 0;
constexpr uint64_t kFeatureGuestChecksum = 1ull << 1;
constexpr uint64_t kFeatureMtu = 1ull << 3;
constexpr uint64_t kFeatureMac = 1ull << 5;
constexpr uint64_t kFeatureHostTso4 = 1ull << 11;
constexpr uint64_t kFeatureHostTso6 = 1ull << 12;
constexpr uint64_t kFeatureMergeableBuffers = 1ull << 15;
constexpr uint64_t kFeatureStatus = 1ull << 16;
constexpr size_t kConfigStatus = 6, kConfigMtu = 10;
constexpr uint16_t kLinkUp = 1;
constexpr uint8_t kNeedsChecksum = 1, kDataValid = 2;

// Frames moved in one go, so that the other devices of the thread get their turn.
constexpr int kBurst = 64;

}  // namespace

Net::Net(base::Fd frames, const MacAddress& mac, uint16_t mtu, std::function<void()> lost)
    : frames_(std::move(frames)), lost_(std::move(lost)) {
    std::copy(mac.begin(), mac.end(), config_.begin());
    base::store_le<uint16_t>(config_.data() + kConfigStatus, kLinkUp);
    base::store_le<uint16_t>(config_.data() + kConfigMtu, mtu);
}

// Frames are as large as segmentation offload would make them, so what the driver would have segmented goes
// on as it is, and the driver gets nothing that it would have to put together. It is told that checksums are
// right.
uint64_t Net::features() const {
    return kFeatureChecksum | kFeatureHostTso4 | kFeatureHostTso6 | kFeatureGuestChecksum | kFeatureMtu |
           kFeatureMac | kFeatureMergeableBuffers | kFeatureStatus;
}

void Net::reset() {
    if (watching_) host_->loop().unwatch(frames_.get());
    watching_ = false;
    transmit_blocked_ = false;
    events_ = 0;
    drop_buffers();
}

void Net::give_back(size_t index) {
    if (index != kReceiveQueue) return;
    for (size_t i = 0; i < buffers_.size(); ++i) host_->queue(index).undo_pop();
    drop_buffers();
}

void Net::drop_buffers() {
    buffers_.clear();
    room_ = 0;
}

void Net::process(size_t index) {
    if (!watching_ && frames_.valid()) {
        watching_ =
            host_->loop().watch(frames_.get(), 0, [this](uint32_t events) { socket_ready(events); }).ok();
        if (!watching_) return lose();
    }
    if (index == kTransmitQueue && !transmit_blocked_) transmit();
    if (index == kReceiveQueue) receive();
}

void Net::want(uint32_t events) {
    if (!watching_ || events == events_) return;
    events_ = events;
    (void)host_->loop().change(frames_.get(), events);
}

void Net::socket_ready(uint32_t events) {
    if (events & EPOLLOUT) {
        transmit_blocked_ = false;
        transmit();
    }
    // After a hang-up there may still be frames to read.
    if (events & EPOLLIN)
        receive();
    else if (events & (EPOLLHUP | EPOLLERR))
        lose();
}

void Net::lose() {
    if (!frames_.valid()) return;
    if (watching_) host_->loop().unwatch(frames_.get());
    watching_ = false;
    frames_.reset();
    if (lost_) std::exchange(lost_, nullptr)();
    transmit_blocked_ = false;
    transmit();
}

void Net::transmit() {
    Queue& queue = host_->queue(kTransmitQueue);
    int sent = 0;
    do {
        queue.disable_kicks();
        while (!transmit_blocked_ && sent < kBurst) {
            const auto chain = queue.pop();
            if (!chain) break;
            if (send_frame(*chain)) {
                queue.push(chain->head, 0);
                ++sent;
            } else {
                queue.undo_pop();
                transmit_blocked_ = true;
            }
        }
    } while (!transmit_blocked_ && sent < kBurst && queue.enable_kicks());
    host_->notify(kTransmitQueue);
    // The rest of a long burst comes in the loop's next round, which a socket with room is ready for.
    if (sent == kBurst && frames_.valid()) transmit_blocked_ = true;
    if (sent == kBurst && !frames_.valid()) host_->loop().post([this] { transmit(); });
    want((events_ & EPOLLIN) | (transmit_blocked_ ? EPOLLOUT : 0u));
}

// Without its header, and with the checksum that was left to us, kept in `checksum`. Empty when that is to be
// outside of the frame.
std::vector<iovec> Net::frame_of(const Chain& chain, std::array<uint8_t, 2>& checksum) const {
    const GuestMemory& memory = host_->queue(kTransmitQueue).memory();
    const auto part = [&](uint64_t begin, uint64_t end) {
        return segments_for_io(memory, chain.readable, sizeof(Header) + begin, end - begin);
    };
    const uint64_t bytes = chain.readable_bytes() - sizeof(Header);
    Header header{};
    (void)read_segments(memory, chain.readable, 0, {reinterpret_cast<uint8_t*>(&header), sizeof header});
    if (!(accepted_ & kFeatureChecksum) || !(header.flags & kNeedsChecksum)) return part(0, bytes);
    const uint64_t field = uint64_t{header.csum_start} + header.csum_offset;
    if (field + checksum.size() > bytes) return {};
    base::Checksum sum;
    for (const iovec& piece : part(header.csum_start, bytes))
        sum.add({static_cast<const uint8_t*>(piece.iov_base), piece.iov_len});
    // To UDP, zero is none at all.
    base::store_be<uint16_t>(checksum.data(), sum.result() ? sum.result() : 0xffff);
    std::vector<iovec> parts = part(0, field);
    parts.push_back({checksum.data(), checksum.size()});
    const auto rest = part(field + checksum.size(), bytes);
    parts.insert(parts.end(), rest.begin(), rest.end());
    return parts;
}

// False when the socket has no room for the frame now. One that is none is dropped.
bool Net::send_frame(const Chain& chain) {
    const uint64_t bytes = chain.readable_bytes();
    if (!frames_.valid() || bytes < sizeof(Header) + kMinFrame || bytes > sizeof(Header) + kMaxFrame)
        return true;
    std::array<uint8_t, 2> checksum;
    auto parts = frame_of(chain, checksum);
    if (parts.empty() || parts.size() > IOV_MAX) return true;
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    ssize_t n;
    do n = ::sendmsg(frames_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n >= 0 || errno == EMSGSIZE) return true;
    // What ends the connection also wakes the loop.
    return errno != EAGAIN && errno != ENOBUFS;
}

// Takes buffers from the ring until any frame fits. False when not even the header of one does.
bool Net::collect_buffers() {
    Queue& queue = host_->queue(kReceiveQueue);
    const bool mergeable = accepted_ & kFeatureMergeableBuffers;
    while (mergeable ? room_ < sizeof(Header) + kMaxFrame && buffers_.size() < IOV_MAX : buffers_.empty()) {
        auto chain = queue.pop();
        if (!chain) break;
        const uint64_t bytes = chain->writable_bytes();
        if (bytes < sizeof(Header) || chain->writable.size() > IOV_MAX) {
            queue.push(chain->head, 0);
            continue;
        }
        room_ += bytes;
        buffers_.push_back(std::move(*chain));
    }
    return !buffers_.empty();
}

void Net::receive() {
    if (!frames_.valid()) return;
    Queue& queue = host_->queue(kReceiveQueue);
    bool starved = false;
    for (int frames = 0; frames < kBurst; ++frames) {
        queue.disable_kicks();
        if (!collect_buffers()) {
            if (queue.enable_kicks()) continue;
            starved = true;
            break;
        }
        if (!next_frame_fits()) {
            if (queue.enable_kicks()) continue;
            starved = true;
            break;
        }
        const ssize_t n = read_frame();
        if (n == 0) return lose();
        if (n < 0) {
            if (errno == EAGAIN) break;
            return lose();
        }
        hand_over(static_cast<size_t>(n));
    }
    host_->notify(kReceiveQueue);
    want((events_ & EPOLLOUT) | (starved ? 0u : EPOLLIN));
}

// Room for the largest frame is not needed for most. When no more buffers can be taken, it has to do.
bool Net::next_frame_fits() const {
    if (room_ >= sizeof(Header) + kMaxFrame || buffers_.size() >= IOV_MAX) return true;
    if (!(accepted_ & kFeatureMergeableBuffers)) return true;
    const ssize_t next = ::recv(frames_.get(), nullptr, 0, MSG_PEEK | MSG_TRUNC | MSG_DONTWAIT);
    return next < 0 || sizeof(Header) + static_cast<size_t>(next) <= room_;
}

// Straight into the guest's buffers, behind the room for the header. A frame that does not fit is cut off,
// which its checksums will tell.
ssize_t Net::read_frame() {
    std::vector<iovec> parts;
    uint64_t skip = sizeof(Header);
    for (const Chain& chain : buffers_) {
        const auto more = segments_for_io(host_->queue(kReceiveQueue).memory(), chain.writable, skip,
                                          chain.writable_bytes() - skip);
        if (parts.size() + more.size() > IOV_MAX) break;
        parts.insert(parts.end(), more.begin(), more.end());
        skip = 0;
    }
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    ssize_t n;
    do n = ::recvmsg(frames_.get(), &message, MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    return n;
}

// Gives the filled buffers back, the first one with the header of the frame.
void Net::hand_over(size_t frame_bytes) {
    Queue& queue = host_->queue(kReceiveQueue);
    uint64_t left = sizeof(Header) + frame_bytes;
    Header header{};
    if (accepted_ & kFeatureGuestChecksum) header.flags = kDataValid;
    for (uint64_t bytes = 0; header.num_buffers < buffers_.size() && bytes < left; ++header.num_buffers)
        bytes += buffers_[header.num_buffers].writable_bytes();
    (void)write_segments(queue.memory(), buffers_.front().writable, 0,
                         {reinterpret_cast<const uint8_t*>(&header), sizeof header});
    for (uint16_t i = 0; i < header.num_buffers; ++i) {
        const Chain& chain = buffers_.front();
        const uint64_t bytes = chain.writable_bytes();
        const uint64_t used = std::min(left, bytes);
        queue.push(chain.head, static_cast<uint32_t>(used));
        left -= used;
        room_ -= bytes;
        buffers_.pop_front();
    }
}

}  // namespace boxlite::virtio
