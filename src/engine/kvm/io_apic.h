// The I/O APIC (Intel 82093AA, with the EOI register of later versions), beside local APICs that are in KVM.
// Its pins are driven by irqfds that KVM routes by the redirection table, so an interrupt never comes through
// here. What is left to do for a level-triggered pin is to look at its line again where a real one would:
// when it is unmasked and at the end of the interrupt.
// Thread safety: any thread.
#pragma once

#include <array>
#include <mutex>
#include <optional>

#include "base/bytes.h"
#include "engine/kvm/layout.h"

namespace boxlite::engine::kvm {

// A message-signalled interrupt (Intel SDM 3A, 11.11).
struct MsiMessage {
    uint32_t address = 0;
    uint32_t data = 0;
    bool operator==(const MsiMessage&) const = default;
};

// What a redirection table entry sends; nothing while it is masked.
std::optional<MsiMessage> message_of(uint64_t entry);

class IoApic {
  public:
    class Lines {
      public:
        virtual ~Lines() = default;
        // What a signal on `pin` sends from now on.
        virtual void route(uint32_t pin, std::optional<MsiMessage> message) = 0;
        // Signals `pin` again if its line is still high.
        virtual void resample(uint32_t pin) = 0;
    };

    explicit IoApic(Lines& lines);

    // At `offset` into its page. Other than 32-bit accesses do nothing.
    void read(uint64_t offset, std::span<uint8_t> data);
    void write(uint64_t offset, base::ByteView data);
    // What a snapshot keeps. restore() routes each pin again.
    struct State {
        uint32_t select = 0;
        uint32_t id = 0;
        std::array<uint64_t, kIoApicPins> entries{};
    };
    State save();
    void restore(const State& state);

    // A local APIC has seen the end of a level-triggered interrupt.
    void end_of_interrupt(uint8_t vector);

  private:
    uint32_t read_register() const;
    void write_register(uint32_t value);
    void update(uint32_t pin, uint64_t entry);
    void resample_level_pins(uint8_t vector);

    Lines& lines_;
    std::mutex mutex_;
    uint32_t select_ = 0;
    uint32_t id_ = 0;
    std::array<uint64_t, kIoApicPins> entries_;
};

}  // namespace boxlite::engine::kvm
