// The transmitting half of a 16550 serial port, without interrupts: for a kernel that fails before it has
// found its console. It is always ready to send and never receives.
// Thread safety: any thread.
#pragma once

#include <functional>
#include <mutex>
#include <string>

#include "base/bytes.h"

namespace boxlite::engine::kvm {

class Uart {
  public:
    // Gets what is sent, line by line. Called on the thread that writes.
    using Sink = std::function<void(base::ByteView)>;
    explicit Uart(Sink sink) : sink_(std::move(sink)) {}

    uint8_t read(uint16_t reg);
    void write(uint16_t reg, uint8_t value);
    // Passes on what is left of a line.
    void flush();

  private:
    Sink sink_;
    std::mutex mutex_;
    std::string line_;
    uint8_t line_control_ = 0;
    uint8_t scratch_ = 0;
};

}  // namespace boxlite::engine::kvm
