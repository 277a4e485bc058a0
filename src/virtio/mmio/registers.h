// The registers of virtio-mmio (virtio 1.2, 4.2.2) and the bits of the device status (2.1).
#pragma once

#include <cstdint>

namespace boxlite::virtio::mmio {

enum Register : uint64_t {
    kMagicValue = 0x000,
    kVersion = 0x004,
    kDeviceId = 0x008,
    kVendorId = 0x00c,
    kDeviceFeatures = 0x010,
    kDeviceFeaturesSelect = 0x014,
    kDriverFeatures = 0x020,
    kDriverFeaturesSelect = 0x024,
    kQueueSelect = 0x030,
    kQueueSizeMax = 0x034,
    kQueueSize = 0x038,
    kQueueReady = 0x044,
    kQueueNotify = 0x050,
    kInterruptStatus = 0x060,
    kInterruptAcknowledge = 0x064,
    kStatus = 0x070,
    kQueueDescriptorsLow = 0x080,
    kQueueDescriptorsHigh = 0x084,
    kQueueDriverLow = 0x090,
    kQueueDriverHigh = 0x094,
    kQueueDeviceLow = 0x0a0,
    kQueueDeviceHigh = 0x0a4,
    kSharedMemoryLengthLow = 0x0b0,
    kSharedMemoryBaseHigh = 0x0bc,
    kConfigGeneration = 0x0fc,
    kConfig = 0x100,
};

inline constexpr uint64_t kPageSize = 0x1000;   // what a device takes of the address space
inline constexpr uint32_t kMagic = 0x74726976;  // "virt"
inline constexpr uint32_t kModernVersion = 2;
inline constexpr uint32_t kVendor = 0x4c584f42;  // "BOXL"

inline constexpr uint32_t kStatusAcknowledge = 1, kStatusDriver = 2, kStatusDriverOk = 4,
                          kStatusFeaturesOk = 8, kStatusNeedsReset = 64, kStatusFailed = 128;
inline constexpr uint32_t kInterruptUsedBuffer = 1, kInterruptConfigChange = 2;

}  // namespace boxlite::virtio::mmio
