#include "engine/kvm/uart.h"

namespace boxlite::engine::kvm {

namespace {

constexpr uint16_t kTransmit = 0, kLineControl = 3, kLineStatus = 5, kModemStatus = 6, kScratch = 7;
constexpr uint8_t kDivisorLatch = 0x80;
constexpr uint8_t kTransmitterEmpty = 0x60;
constexpr uint8_t kClearToSend = 0xb0;  // with data set ready and carrier
constexpr size_t kLongestLine = 256;

}  // namespace

uint8_t Uart::read(uint16_t reg) {
    const std::scoped_lock lock(mutex_);
    switch (reg) {
        case kLineControl:
            return line_control_;
        case kLineStatus:
            return kTransmitterEmpty;
        case kModemStatus:
            return kClearToSend;
        case kScratch:
            return scratch_;
        default:
            return 0;
    }
}

void Uart::write(uint16_t reg, uint8_t value) {
    {
        const std::scoped_lock lock(mutex_);
        if (reg == kLineControl) line_control_ = value;
        if (reg == kScratch) scratch_ = value;
        if (reg != kTransmit || (line_control_ & kDivisorLatch)) return;
        line_ += static_cast<char>(value);
        if (value != '\n' && line_.size() < kLongestLine) return;
    }
    flush();
}

void Uart::flush() {
    std::string line;
    {
        const std::scoped_lock lock(mutex_);
        line.swap(line_);
    }
    if (!line.empty()) sink_(base::as_bytes(line));
}

}  // namespace boxlite::engine::kvm
