#include "engine/kvm/mp_table.h"

#include <cstring>

#include "engine/kvm/layout.h"

namespace boxlite::engine::kvm {

namespace {

constexpr size_t kFloatingPointerSize = 16;
constexpr size_t kHeaderSize = 44;
constexpr uint8_t kSpecification = 4;  // 1.4
constexpr uint8_t kProcessor = 0, kBus = 1, kIoApic = 2, kInterrupt = 3, kLocalInterrupt = 4;
constexpr uint8_t kEnabled = 1, kBootProcessor = 2;
constexpr uint8_t kApicVersion = 0x14;
constexpr uint8_t kIoApicVersion = 0x20;
constexpr uint8_t kVectored = 0, kNmi = 1, kExternal = 3;
constexpr uint16_t kEdgeActiveHigh = 0x5;
constexpr uint8_t kIsaBus = 0;
constexpr uint8_t kAllLocalApics = 0xff;

class Writer {
  public:
    Writer& u8(uint8_t v) {
        bytes.push_back(v);
        return *this;
    }
    Writer& u16(uint16_t v) { return u8(static_cast<uint8_t>(v)).u8(static_cast<uint8_t>(v >> 8)); }
    Writer& u32(uint32_t v) { return u16(static_cast<uint16_t>(v)).u16(static_cast<uint16_t>(v >> 16)); }
    Writer& text(std::string_view v) {
        bytes.insert(bytes.end(), v.begin(), v.end());
        return *this;
    }
    base::Bytes bytes;
};

uint8_t checksum(base::ByteView bytes) {
    uint8_t sum = 0;
    for (const uint8_t byte : bytes) sum = static_cast<uint8_t>(sum + byte);
    return static_cast<uint8_t>(-sum);
}

}  // namespace

base::Bytes make_mp_table(uint64_t address, uint32_t cpus) {
    Writer entries;
    uint16_t count = 0;
    for (uint32_t cpu = 0; cpu < cpus; ++cpu, ++count) {
        const uint8_t flags = kEnabled | (cpu == 0 ? kBootProcessor : 0);
        entries.u8(kProcessor).u8(static_cast<uint8_t>(cpu)).u8(kApicVersion).u8(flags);
        entries.u32(0).u32(0).u32(0).u32(0);  // signature and features: read from the processor
    }
    const auto io_apic_id = static_cast<uint8_t>(cpus);
    entries.u8(kBus).u8(kIsaBus).text("ISA   ");
    entries.u8(kIoApic).u8(io_apic_id).u8(kIoApicVersion).u8(kEnabled).u32(kIoApicBase);
    for (uint32_t pin = kFirstPin; pin < kIoApicPins; ++pin) {
        const auto number = static_cast<uint8_t>(pin);
        entries.u8(kInterrupt).u8(kVectored).u16(kEdgeActiveHigh);
        entries.u8(kIsaBus).u8(number).u8(io_apic_id).u8(number);
    }
    entries.u8(kLocalInterrupt).u8(kExternal).u16(0).u8(kIsaBus).u8(0).u8(0).u8(0);
    entries.u8(kLocalInterrupt).u8(kNmi).u16(0).u8(kIsaBus).u8(0).u8(kAllLocalApics).u8(1);
    count = static_cast<uint16_t>(count + 2 + kMaxDevices + 2);

    Writer pointer;
    pointer.text("_MP_").u32(static_cast<uint32_t>(address + kFloatingPointerSize));
    pointer.u8(kFloatingPointerSize / 16).u8(kSpecification).u8(0);
    pointer.u8(0).u32(0);  // a configuration table is there, no PIC mode
    pointer.bytes[10] = checksum(pointer.bytes);

    Writer header;
    header.text("PCMP").u16(static_cast<uint16_t>(kHeaderSize + entries.bytes.size()));
    header.u8(kSpecification).u8(0);
    header.text("BOXLITE ").text("MICROVM     ");
    header.u32(0).u16(0).u16(count).u32(kLocalApicBase).u16(0).u8(0).u8(0);
    header.bytes.insert(header.bytes.end(), entries.bytes.begin(), entries.bytes.end());
    header.bytes[7] = checksum(header.bytes);

    pointer.bytes.insert(pointer.bytes.end(), header.bytes.begin(), header.bytes.end());
    return std::move(pointer.bytes);
}

}  // namespace boxlite::engine::kvm
