// The machine's address space and ports.
#pragma once

#include <cstdint>

namespace boxlite::engine::kvm {

// Memory ends here and goes on at 4 GiB; devices are in between.
inline constexpr uint64_t kHoleStart = 0xd000'0000;
inline constexpr uint64_t kHoleEnd = 0x1'0000'0000;

inline constexpr uint64_t kMmioBase = kHoleStart;  // one page for each virtio device
inline constexpr uint64_t kIoApicBase = 0xfec0'0000;
inline constexpr uint64_t kIoApicSize = 0x1000;
inline constexpr uint64_t kLocalApicBase = 0xfee0'0000;
// Pages that KVM takes on Intel processors for real mode.
inline constexpr uint64_t kIdentityMapAddress = 0xfffb'c000;
inline constexpr uint64_t kTssAddress = 0xfffb'd000;

// Below 1 MiB.
inline constexpr uint64_t kStartInfo = 0x6000;
inline constexpr uint64_t kMemoryMap = 0x7000;
inline constexpr uint64_t kModuleList = 0x8000;
inline constexpr uint64_t kCommandLine = 0x2'0000;
inline constexpr uint64_t kCommandLineMax = 2048;  // COMMAND_LINE_SIZE of x86 Linux
inline constexpr uint64_t kLowMemoryEnd = 0x9'fc00;
inline constexpr uint64_t kMpTable = 0xf'0000;  // in the range that MultiProcessor 1.4, 4 has searched
inline constexpr uint64_t kHighMemory = 0x10'0000;

// Where firmware is told whether a restart was warm. The kernel is asked to make it so after a panic.
inline constexpr uint64_t kResetFlag = 0x472;
inline constexpr uint16_t kWarmReset = 0x1234;

inline constexpr uint32_t kMaxCpus = 32;
inline constexpr uint32_t kIoApicPins = 32;
inline constexpr uint32_t kFirstPin = 1;  // Linux takes interrupt 0 for "none"
inline constexpr uint32_t kMaxDevices = kIoApicPins - kFirstPin;

inline constexpr uint16_t kUartPort = 0x3f8;
inline constexpr uint16_t kUartPorts = 8;
inline constexpr uint16_t kKeyboardCommandPort = 0x64;
inline constexpr uint8_t kKeyboardReset = 0xfe;
// As an ACPI sleep control register (6.4, 4.8.3.7): sleep type 5, sleep enable.
inline constexpr uint16_t kSleepPort = 0x600;
inline constexpr uint8_t kSleepOff = 0x34;

}  // namespace boxlite::engine::kvm
