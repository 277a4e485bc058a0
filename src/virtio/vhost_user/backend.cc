#include "virtio/vhost_user/backend.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/log.h"

namespace boxlite::virtio::vhost_user {

namespace {

Error protocol_error(const char* what) {
    return base::make_error(ErrorCode::kEngine, "the guest kernel sent a bad vhost-user message: {}", what);
}

template <typename T>
Result<void> expect_size(const Header& header) {
    if (header.size != sizeof(T)) return protocol_error("wrong payload size");
    return {};
}

}  // namespace

Backend::Backend(Device& device, base::EventLoop& loop, base::Fd socket, Closed closed)
    : device_(device),
      loop_(loop),
      socket_(std::move(socket)),
      closed_(std::move(closed)),
      rings_(device.queue_count()) {
    device_.attach(*this);
}

Backend::~Backend() {
    closed_ = nullptr;
    shut("");
}

Result<void> Backend::start() {
    TRY(base::set_nonblocking(socket_.get(), true));
    return loop_.watch(socket_.get(), EPOLLIN, [this](uint32_t) { readable(); });
}

void Backend::shut(const std::string& reason) {
    if (!socket_.valid()) return;
    device_.reset();
    for (Ring& ring : rings_) {
        if (ring.kick.valid()) loop_.unwatch(ring.kick.get());
        ring.kick.reset();
        ring.queue.stop();
    }
    loop_.unwatch(socket_.get());
    socket_.reset();
    if (closed_) std::exchange(closed_, nullptr)(reason);
}

// A message is small and the driver sends it whole, and a unix socket queues such a piece whole: one that is
// not all there, or a reply that finds no room, is an error. The device's thread waits for no driver.
void Backend::readable() {
    const auto handled = [this]() -> Result<bool> {
        Header header;
        std::vector<base::Fd> fds;
        const size_t n = TRY(
            base::recv_with_fds(socket_.get(), {reinterpret_cast<uint8_t*>(&header), sizeof header}, fds));
        if (n == 0) return false;
        TRY(base::read_exact(socket_.get(),
                             std::span(reinterpret_cast<uint8_t*>(&header), sizeof header).subspan(n)));
        Payload payload{};
        if ((header.flags & kFlagVersionMask) != kVersion) return protocol_error("unknown version");
        if (header.size > sizeof payload) return protocol_error("payload too large");
        TRY(base::read_exact(socket_.get(), {reinterpret_cast<uint8_t*>(&payload), header.size}));
        TRY(handle(header, payload, fds));
        return true;
    }();
    if (!handled.ok())
        shut(handled.error().message);
    else if (!*handled)
        shut("");
}

Result<void> Backend::reply(uint32_t request, const void* payload, uint32_t size) {
    uint8_t message[sizeof(Header) + sizeof(Payload)];
    const Header header{request, kVersion | kFlagReply, size};
    std::memcpy(message, &header, sizeof header);
    std::memcpy(message + sizeof header, payload, size);
    return base::write_all(socket_.get(), {message, sizeof header + size});
}

Result<void> Backend::handle(const Header& header, const Payload& payload, std::vector<base::Fd>& fds) {
    const auto reply_u64 = [&](uint64_t value) { return reply(header.request, &value, sizeof value); };
    switch (header.request) {
        case kSetOwner:
        case kResetOwner:
            return {};
        case kGetFeatures:
            return reply_u64(device_.features() | kFeatureVersion1 | kFeatureIndirectDesc | kFeatureEventIdx |
                             kFeatureProtocolFeatures);
        case kSetFeatures:
            TRY(expect_size<uint64_t>(header));
            if (!(payload.u64 & kFeatureVersion1)) return protocol_error("a legacy driver");
            features_ = payload.u64;
            device_.accept(features_);
            return {};
        case kGetProtocolFeatures:
            return reply_u64(kProtocolMultiQueue | kProtocolConfig);
        case kSetProtocolFeatures:
            return expect_size<uint64_t>(header);
        case kGetQueueNum:
            return reply_u64(rings_.size());
        case kSetMemTable:
            return set_memory(payload.memory, header.size, fds);
        case kGetConfig:
            if (header.size < kConfigHeader) return protocol_error("wrong payload size");
            return get_config(payload.config);
        case kSetConfig:
            return protocol_error("the configuration space is read-only");
        default:
            return handle_ring(header, payload, fds);
    }
}

Result<void> Backend::handle_ring(const Header& header, const Payload& payload, std::vector<base::Fd>& fds) {
    switch (header.request) {
        case kSetVringNum: {
            TRY(expect_size<VringState>(header));
            Ring* r = TRY(ring(payload.state.index));
            if (payload.state.value > kMaxQueueSize) return protocol_error("virtqueue too large");
            r->addresses.size = static_cast<uint16_t>(payload.state.value);
            return {};
        }
        case kSetVringBase: {
            TRY(expect_size<VringState>(header));
            Ring* r = TRY(ring(payload.state.index));
            r->addresses.next_available = static_cast<uint16_t>(payload.state.value);
            return {};
        }
        case kSetVringAddr: {
            TRY(expect_size<VringAddress>(header));
            Ring* r = TRY(ring(payload.address.index));
            if (r->queue.running()) return protocol_error("a running virtqueue was moved");
            r->addresses.descriptors = payload.address.descriptors;
            r->addresses.available = payload.address.available;
            r->addresses.used = payload.address.used;
            return {};
        }
        case kGetVringBase: {
            TRY(expect_size<VringState>(header));
            Ring* r = TRY(ring(payload.state.index));
            if (r->queue.running()) device_.give_back(payload.state.index);
            const VringState state{payload.state.index, r->queue.next_available()};
            r->enabled = false;
            TRY(update(*r, payload.state.index));
            return reply(header.request, &state, sizeof state);
        }
        case kSetVringEnable: {
            TRY(expect_size<VringState>(header));
            Ring* r = TRY(ring(payload.state.index));
            r->enabled = payload.state.value == 1;
            return update(*r, payload.state.index);
        }
        case kSetVringKick:
        case kSetVringCall:
        case kSetVringErr: {
            TRY(expect_size<uint64_t>(header));
            const uint64_t index = payload.u64 & kVringIndexMask;
            Ring* r = TRY(ring(index));
            if ((payload.u64 & kVringNoFd) || fds.size() != 1)
                return protocol_error("a ring without its descriptor");
            if (header.request == kSetVringKick) return set_kick(*r, index, std::move(fds[0]));
            // The driver's end may be a pipe that nobody reads: a full one must not block the device.
            TRY(base::set_nonblocking(fds[0].get(), true));
            if (header.request == kSetVringCall) r->call = std::move(fds[0]);
            return {};
        }
        default:
            return protocol_error("unknown request");
    }
}

Result<Backend::Ring*> Backend::ring(uint64_t index) {
    if (index >= rings_.size()) return protocol_error("no such virtqueue");
    return &rings_[index];
}

Result<void> Backend::set_memory(const MemoryTable& table, uint32_t payload_size,
                                 std::vector<base::Fd>& fds) {
    if (payload_size < kMemoryTableHeader || table.count == 0 || table.count > kMaxRegions ||
        payload_size != kMemoryTableHeader + table.count * sizeof(MemoryRegion) || fds.size() != table.count)
        return protocol_error("a bad memory table");
    std::vector<GuestMemory::Region> regions;
    for (uint32_t i = 0; i < table.count; ++i) {
        const MemoryRegion& region = table.regions[i];
        // A file that could shrink would end this process at the next access to what is gone.
        if (::fcntl(fds[i].get(), F_ADD_SEALS, F_SEAL_SHRINK) < 0)
            return protocol_error("guest memory that cannot be sealed against shrinking");
        struct stat st;
        uint64_t end;
        if (::fstat(fds[i].get(), &st) < 0 || !base::checked_add(region.file_offset, region.size, &end) ||
            end > static_cast<uint64_t>(st.st_size))
            return protocol_error("a memory region beyond its file");
        regions.push_back(
            {region.guest_address, TRY(MappedMemory::map(fds[i].get(), region.file_offset, region.size))});
    }
    for (const Ring& r : rings_)
        if (r.queue.running()) return protocol_error("memory was changed under a running virtqueue");
    memory_ = TRY(GuestMemory::make(std::move(regions)));
    return {};
}

Result<void> Backend::get_config(const Config& request) {
    if (request.offset != 0 || request.size > kMaxConfig) return protocol_error("a bad configuration range");
    Config answer{.offset = 0, .size = request.size, .flags = request.flags, .data = {}};
    const base::Bytes config = device_.config();
    std::copy_n(config.begin(), std::min<size_t>(config.size(), request.size), answer.data);
    return reply(kGetConfig, &answer, kConfigHeader + request.size);
}

Result<void> Backend::set_kick(Ring& ring, size_t index, base::Fd fd) {
    TRY(base::set_nonblocking(fd.get(), true));
    if (ring.kick.valid()) loop_.unwatch(ring.kick.get());
    ring.kick = std::move(fd);
    TRY(loop_.watch(ring.kick.get(), EPOLLIN, [this, index](uint32_t) { kicked(index); }));
    return update(ring, index);
}

// A queue runs while it is enabled and has memory, addresses and a kick descriptor.
Result<void> Backend::update(Ring& ring, size_t index) {
    const bool wanted = ring.enabled && memory_ && ring.addresses.size && ring.kick.valid();
    if (wanted && !ring.queue.running()) {
        TRY(ring.queue.start(memory_, ring.addresses, features_));
        kicked(index);
    } else if (!wanted && ring.queue.running()) {
        ring.addresses.next_available = ring.queue.next_available();
        ring.queue.stop();
    }
    return {};
}

void Backend::kicked(size_t index) {
    Ring& ring = rings_[index];
    uint64_t count;
    const ssize_t n = ::read(ring.kick.get(), &count, sizeof count);
    // A descriptor that is always ready and never read would keep the loop busy for ever.
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        return break_ring(index, "its kick descriptor cannot be read");
    if (!ring.queue.running()) return;
    device_.process(index);
    if (!ring.queue.broken().empty()) break_ring(index, ring.queue.broken());
}

void Backend::break_ring(size_t index, const std::string& reason) {
    Ring& ring = rings_[index];
    // A guest that breaks it again and again must not fill the log.
    if (!std::exchange(ring.reported, true))
        base::log_warn("the guest broke a virtqueue; it is stopped",
                       {{"device", device_.name()}, {"queue", std::to_string(index)}, {"reason", reason}});
    loop_.unwatch(ring.kick.get());
    ring.kick.reset();
    ring.enabled = false;
    ring.queue.stop();
}

void Backend::notify(size_t index) {
    Ring& ring = rings_[index];
    if (!ring.call.valid() || !ring.queue.needs_notification()) return;
    const uint64_t one = 1;
    (void)!::write(ring.call.get(), &one, sizeof one);  // a full pipe already says it
}

}  // namespace boxlite::virtio::vhost_user
