#include "virtio/mmio/transport.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <future>

#include "base/log.h"

namespace boxlite::virtio::mmio {

namespace {

constexpr uint32_t kDriverMaySet = kStatusAcknowledge | kStatusDriver | kStatusFailed;

void set_half(uint64_t* value, bool high, uint32_t half) {
    const int shift = high ? 32 : 0;
    *value = (*value & ~(uint64_t{UINT32_MAX} << shift)) | uint64_t{half} << shift;
}

uint32_t half_of(uint64_t value, uint32_t select) {
    return select < 2 ? static_cast<uint32_t>(value >> (32 * select)) : 0;
}

void signal_eventfd(int fd) {
    const uint64_t one = 1;
    (void)!::write(fd, &one, sizeof one);  // a full counter already says it
}

}  // namespace

Transport::Transport(Device& device, base::EventLoop& loop, std::shared_ptr<const GuestMemory> memory)
    : device_(device), loop_(loop), memory_(std::move(memory)), rings_(device.queue_count()) {}

Result<std::unique_ptr<Transport>> Transport::make(Device& device, base::EventLoop& loop,
                                                   std::shared_ptr<const GuestMemory> memory) {
    std::unique_ptr<Transport> self(new Transport(device, loop, std::move(memory)));
    self->interrupt_ = TRY(base::make_eventfd());
    for (Ring& ring : self->rings_) ring.kick = TRY(base::make_eventfd());
    device.attach(*self);
    return self;
}

Transport::~Transport() {
    device_.reset();
    for (Ring& ring : rings_)
        if (ring.kick.valid()) loop_.unwatch(ring.kick.get());
}

Result<void> Transport::start() {
    for (size_t i = 0; i < rings_.size(); ++i)
        TRY(loop_.watch(rings_[i].kick.get(), EPOLLIN, [this, i](uint32_t) { kicked(i); }));
    return {};
}

Transport::State Transport::save() {
    const std::scoped_lock lock(mutex_);
    State state{device_features_select_,
                driver_features_select_,
                driver_features_,
                queue_select_,
                status_,
                interrupt_status_,
                {}};
    for (size_t i = 0; i < rings_.size(); ++i) {
        const Ring& ring = rings_[i];
        if (ring.queue.running()) device_.give_back(i);
        State::Ring& kept = state.rings.emplace_back(State::Ring{ring.addresses, ring.ready});
        if (ring.queue.running()) kept.addresses.next_available = ring.queue.next_available();
    }
    return state;
}

Result<void> Transport::restore(const State& state) {
    if (state.rings.size() != rings_.size() || (state.driver_features & ~offered_features()))
        return base::make_error(ErrorCode::kEngine, "the snapshot's device is not this {}", device_.name());
    device_features_select_ = state.device_features_select;
    driver_features_select_ = state.driver_features_select;
    driver_features_ = state.driver_features;
    queue_select_ = state.queue_select;
    status_ = state.status;
    interrupt_status_ = state.interrupt_status;
    for (size_t i = 0; i < rings_.size(); ++i) {
        rings_[i].addresses = state.rings[i].addresses;
        rings_[i].ready = state.rings[i].ready;
    }
    if (!(status_ & kStatusDriverOk)) return {};
    // The device may be another one than the driver knew: a disk of another size.
    interrupt_status_ |= kInterruptConfigChange;
    loop_.post([this] {
        run_queues();
        device_.restored();
        for (Ring& ring : rings_) ring.addresses.next_available = 0;
    });
    return {};
}

uint64_t Transport::offered_features() const {
    return device_.features() | kFeatureVersion1 | kFeatureIndirectDesc | kFeatureEventIdx;
}

// virtio 1.2, 4.2.2.2: registers are read and written 32 bits at a time; the configuration space in any way.
void Transport::read(uint64_t offset, std::span<uint8_t> data) {
    std::fill(data.begin(), data.end(), 0);
    if (offset >= kConfig) {
        const base::Bytes config = device_.config();
        const uint64_t from = offset - kConfig;
        if (from < config.size())
            std::copy_n(config.begin() + static_cast<ptrdiff_t>(from),
                        std::min<size_t>(data.size(), config.size() - from), data.begin());
        return;
    }
    if (data.size() == 4 && offset % 4 == 0) base::store_le(data.data(), read_register(offset));
}

void Transport::write(uint64_t offset, base::ByteView data) {
    if (offset < kConfig && data.size() == 4 && offset % 4 == 0)
        write_register(offset, base::load_le<uint32_t>(data.data()));
}

uint32_t Transport::read_register(uint64_t offset) {
    const std::scoped_lock lock(mutex_);
    const Ring* ring = queue_select_ < rings_.size() ? &rings_[queue_select_] : nullptr;
    switch (offset) {
        case kMagicValue:
            return kMagic;
        case kVersion:
            return kModernVersion;
        case kDeviceId:
            return static_cast<uint32_t>(device_.type());
        case kVendorId:
            return kVendor;
        case kDeviceFeatures:
            return half_of(offered_features(), device_features_select_);
        case kQueueSizeMax:
            return ring ? kMaxQueueSize : 0;
        case kQueueReady:
            return ring && ring->ready;
        case kInterruptStatus:
            return interrupt_status_;
        case kStatus:
            return status_;
        default:
            // A region of shared memory that is not there (4.2.2.1).
            return offset >= kSharedMemoryLengthLow && offset <= kSharedMemoryBaseHigh ? UINT32_MAX : 0;
    }
}

void Transport::write_register(uint64_t offset, uint32_t value) {
    const std::scoped_lock lock(mutex_);
    switch (offset) {
        case kDeviceFeaturesSelect:
            device_features_select_ = value;
            return;
        case kDriverFeaturesSelect:
            driver_features_select_ = value;
            return;
        case kDriverFeatures:
            return write_driver_features(value);
        case kQueueSelect:
            queue_select_ = value;
            return;
        case kQueueNotify:
            if (value < rings_.size()) signal_eventfd(rings_[value].kick.get());
            return;
        case kInterruptAcknowledge:
            interrupt_status_ &= ~value;
            return;
        case kStatus:
            return write_status(value);
        default:
            if (queue_select_ < rings_.size()) write_queue_register(rings_[queue_select_], offset, value);
    }
}

void Transport::write_driver_features(uint32_t value) {
    if (driver_features_select_ < 2 && !(status_ & kStatusFeaturesOk))
        set_half(&driver_features_, driver_features_select_ == 1, value);
}

void Transport::write_queue_register(Ring& ring, uint64_t offset, uint32_t value) {
    if (offset == kQueueReady && value == 0 && ring.ready) {
        run_on_loop([&] { ring.queue.stop(); });
        ring.ready = false;
        return;
    }
    // Queues are laid out between FEATURES_OK and DRIVER_OK (3.1.1), and a ready one stays as it is.
    if (ring.ready || !(status_ & kStatusFeaturesOk) || (status_ & kStatusDriverOk)) return;
    QueueAddresses& a = ring.addresses;
    switch (offset) {
        case kQueueSize:
            if (value <= kMaxQueueSize) a.size = static_cast<uint16_t>(value);
            return;
        case kQueueReady:
            ring.ready = value == 1;
            return;
        case kQueueDescriptorsLow:
        case kQueueDescriptorsHigh:
            return set_half(&a.descriptors, offset == kQueueDescriptorsHigh, value);
        case kQueueDriverLow:
        case kQueueDriverHigh:
            return set_half(&a.available, offset == kQueueDriverHigh, value);
        case kQueueDeviceLow:
        case kQueueDeviceHigh:
            return set_half(&a.used, offset == kQueueDeviceHigh, value);
        default:
            return;
    }
}

void Transport::write_status(uint32_t value) {
    if (value == 0) return reset();
    status_ |= value & kDriverMaySet;
    if ((value & kStatusFeaturesOk) && !(driver_features_ & ~offered_features()) &&
        (driver_features_ & kFeatureVersion1))
        status_ |= kStatusFeaturesOk;
    if ((value & kStatusDriverOk) && (status_ & kStatusFeaturesOk) && !(status_ & kStatusDriverOk)) {
        status_ |= kStatusDriverOk;
        run_on_loop([this] { run_queues(); });
    }
}

// What the device is doing is finished before the driver goes on, so nothing of it reaches memory that the
// driver has by then put to another use (2.4.1).
void Transport::reset() {
    run_on_loop([this] {
        device_.reset();
        for (Ring& ring : rings_) ring.queue.stop();
    });
    for (Ring& ring : rings_) {
        ring.ready = false;
        ring.addresses = {};
    }
    device_features_select_ = driver_features_select_ = queue_select_ = 0;
    driver_features_ = 0;
    interrupt_status_ = 0;
    status_ = 0;
}

void Transport::run_queues() {
    device_.accept(driver_features_);
    for (size_t i = 0; i < rings_.size(); ++i) {
        if (!rings_[i].ready) continue;
        const auto started = rings_[i].queue.start(memory_, rings_[i].addresses, driver_features_);
        if (!started.ok()) needs_reset(i, started.error().message);
    }
    for (size_t i = 0; i < rings_.size(); ++i) kicked(i);
}

void Transport::run_on_loop(const std::function<void()>& call) {
    const auto done = std::make_shared<std::promise<void>>();
    loop_.post([&call, done] {
        call();
        done->set_value();
    });
    done->get_future().wait();
}

void Transport::kicked(size_t index) {
    Ring& ring = rings_[index];
    uint64_t count;
    (void)!::read(ring.kick.get(), &count, sizeof count);
    if (!ring.queue.running()) return;
    device_.process(index);
    if (ring.queue.broken().empty()) return;
    needs_reset(index, ring.queue.broken());
    ring.queue.stop();
}

void Transport::needs_reset(size_t index, const std::string& reason) {
    base::log_warn("the guest broke a virtqueue; it is stopped",
                   {{"device", device_.name()}, {"queue", std::to_string(index)}, {"reason", reason}});
    status_ |= kStatusNeedsReset;
    interrupt(kInterruptConfigChange);
}

void Transport::notify(size_t index) {
    if (rings_[index].queue.needs_notification()) interrupt(kInterruptUsedBuffer);
}

void Transport::config_changed() {
    if (status_ & kStatusDriverOk) interrupt(kInterruptConfigChange);
}

void Transport::resample_interrupt() {
    if (interrupt_status_ != 0) signal_eventfd(interrupt_.get());
}

void Transport::interrupt(uint32_t cause) {
    interrupt_status_ |= cause;
    signal_eventfd(interrupt_.get());
}

}  // namespace boxlite::virtio::mmio
