// The messages of the vhost-user protocol that a driver with one memory table and split rings sends, as
// laid down in QEMU's docs/interop/vhost-user.rst. All integers are in host byte order.
#pragma once

#include <cstdint>

namespace boxlite::virtio::vhost_user {

enum Request : uint32_t {
    kGetFeatures = 1,
    kSetFeatures = 2,
    kSetOwner = 3,
    kResetOwner = 4,
    kSetMemTable = 5,
    kSetVringNum = 8,
    kSetVringAddr = 9,
    kSetVringBase = 10,
    kGetVringBase = 11,
    kSetVringKick = 12,
    kSetVringCall = 13,
    kSetVringErr = 14,
    kGetProtocolFeatures = 15,
    kSetProtocolFeatures = 16,
    kGetQueueNum = 17,
    kSetVringEnable = 18,
    kGetConfig = 24,
    kSetConfig = 25,
};

struct Header {
    uint32_t request;
    uint32_t flags;
    uint32_t size;  // of the payload
};
static_assert(sizeof(Header) == 12);

inline constexpr uint32_t kVersion = 1;
inline constexpr uint32_t kFlagVersionMask = 3;
inline constexpr uint32_t kFlagReply = 1 << 2;
inline constexpr uint32_t kFlagNeedReply = 1 << 3;

inline constexpr uint64_t kFeatureProtocolFeatures = 1ull << 30;
inline constexpr uint64_t kProtocolMultiQueue = 1ull << 0;
inline constexpr uint64_t kProtocolConfig = 1ull << 9;

struct VringState {
    uint32_t index;
    uint32_t value;
};

struct VringAddress {
    uint32_t index;
    uint32_t flags;
    uint64_t descriptors;
    uint64_t used;
    uint64_t available;
    uint64_t log;
};

struct MemoryRegion {
    uint64_t guest_address;
    uint64_t size;
    uint64_t driver_address;
    uint64_t file_offset;
};

inline constexpr uint32_t kMaxRegions = 8;
struct MemoryTable {
    uint32_t count;
    uint32_t padding;
    MemoryRegion regions[kMaxRegions];
};
inline constexpr uint32_t kMemoryTableHeader = 8;

inline constexpr uint32_t kMaxConfig = 256;
struct Config {
    uint32_t offset;
    uint32_t size;
    uint32_t flags;
    uint8_t data[kMaxConfig];
};
inline constexpr uint32_t kConfigHeader = 12;

inline constexpr uint64_t kVringIndexMask = 0xff;
inline constexpr uint64_t kVringNoFd = 1 << 8;

union Payload {
    uint64_t u64;
    VringState state;
    VringAddress address;
    MemoryTable memory;
    Config config;
};

}  // namespace boxlite::virtio::vhost_user
