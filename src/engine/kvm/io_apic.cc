#include "engine/kvm/io_apic.h"

#include <algorithm>

namespace boxlite::engine::kvm {

namespace {

constexpr uint64_t kSelect = 0x00, kWindow = 0x10, kEoi = 0x40;
constexpr uint32_t kId = 0, kVersion = 1, kArbitration = 2, kTable = 0x10;
constexpr uint32_t kIdMask = 0x0f00'0000;
constexpr uint32_t kVersionValue = 0x20 | (kIoApicPins - 1) << 16;

// Of a redirection table entry.
constexpr uint64_t kVectorMask = 0xff, kDeliveryMode = 0x700, kLogical = 1 << 11, kDeliveryStatus = 1 << 12,
                   kRemoteIrr = 1 << 14, kLevel = 1 << 15, kMasked = 1 << 16;
constexpr uint64_t kReadOnly = kDeliveryStatus | kRemoteIrr;
constexpr uint64_t kWritable = 0xff00'0000'0001'ffff & ~kReadOnly;
constexpr int kDestinationShift = 56;

constexpr uint32_t kMsiAddress = 0xfee0'0000;
constexpr uint32_t kMsiAsserted = 1 << 14;

}  // namespace

std::optional<MsiMessage> message_of(uint64_t entry) {
    if (entry & kMasked) return std::nullopt;
    MsiMessage message;
    message.address = kMsiAddress | static_cast<uint32_t>(entry >> kDestinationShift) << 12;
    if (entry & kLogical) message.address |= 1 << 2;
    message.data = static_cast<uint32_t>(entry & (kVectorMask | kDeliveryMode | kLevel)) | kMsiAsserted;
    return message;
}

IoApic::IoApic(Lines& lines) : lines_(lines) {
    entries_.fill(kMasked);
}

void IoApic::read(uint64_t offset, std::span<uint8_t> data) {
    const std::scoped_lock lock(mutex_);
    std::fill(data.begin(), data.end(), 0);
    if (data.size() != 4) return;
    if (offset == kSelect) base::store_le(data.data(), select_);
    if (offset == kWindow) base::store_le(data.data(), read_register());
}

void IoApic::write(uint64_t offset, base::ByteView data) {
    const std::scoped_lock lock(mutex_);
    if (data.size() != 4) return;
    const auto value = base::load_le<uint32_t>(data.data());
    if (offset == kSelect) select_ = value & 0xff;
    if (offset == kWindow) write_register(value);
    if (offset == kEoi) resample_level_pins(static_cast<uint8_t>(value));
}

IoApic::State IoApic::save() {
    const std::scoped_lock lock(mutex_);
    return {select_, id_, entries_};
}

void IoApic::restore(const State& state) {
    const std::scoped_lock lock(mutex_);
    select_ = state.select & 0xff;
    id_ = state.id & kIdMask;
    for (uint32_t pin = 0; pin < kIoApicPins; ++pin) update(pin, state.entries[pin] & kWritable);
}

void IoApic::end_of_interrupt(uint8_t vector) {
    const std::scoped_lock lock(mutex_);
    resample_level_pins(vector);
}

uint32_t IoApic::read_register() const {
    if (select_ == kId || select_ == kArbitration) return id_;
    if (select_ == kVersion) return kVersionValue;
    const uint32_t pin = (select_ - kTable) / 2;
    if (select_ < kTable || pin >= kIoApicPins) return 0;
    return static_cast<uint32_t>(entries_[pin] >> (select_ % 2 ? 32 : 0));
}

void IoApic::write_register(uint32_t value) {
    if (select_ == kId) id_ = value & kIdMask;
    const uint32_t pin = (select_ - kTable) / 2;
    if (select_ < kTable || pin >= kIoApicPins) return;
    const int shift = select_ % 2 ? 32 : 0;
    const uint64_t other_half = entries_[pin] & ~(uint64_t{UINT32_MAX} << shift);
    update(pin, (other_half | uint64_t{value} << shift) & kWritable);
}

void IoApic::update(uint32_t pin, uint64_t entry) {
    const auto before = message_of(entries_[pin]), after = message_of(entry);
    entries_[pin] = entry;
    if (before != after) lines_.route(pin, after);
    if (!before && after && (entry & kLevel)) lines_.resample(pin);
}

void IoApic::resample_level_pins(uint8_t vector) {
    for (uint32_t pin = 0; pin < kIoApicPins; ++pin)
        if ((entries_[pin] & kLevel) && !(entries_[pin] & kMasked) && (entries_[pin] & kVectorMask) == vector)
            lines_.resample(pin);
}

}  // namespace boxlite::engine::kvm
