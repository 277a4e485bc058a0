// The fields of a qcow2 header and of table entries: qcow2 specification (QEMU docs/interop/qcow2.txt),
// "Header", "Header extensions", "Cluster mapping". All numbers on disk are big endian.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/bytes.h"
#include "disk/qcow2.h"

namespace boxlite::disk::qcow2 {

inline constexpr uint64_t kSector = 512;  // what a disk writes whole or not at all
inline constexpr unsigned kMinClusterBits = 9;
inline constexpr unsigned kMaxClusterBits = 21;
inline constexpr uint64_t kMaxVirtualSize = uint64_t{64} << 40;
inline constexpr uint64_t kMaxFileClusters = uint64_t{1} << 28;
inline constexpr uint64_t kMaxL1Bytes = uint64_t{32} << 20;
inline constexpr uint64_t kMaxRefcountTableBytes = uint64_t{8} << 20;

// L1 and L2 entries.
inline constexpr uint64_t kOffsetMask = 0x00ff'ffff'ffff'fe00;
inline constexpr uint64_t kCopied = uint64_t{1} << 63;      // reference count is exactly one
inline constexpr uint64_t kCompressed = uint64_t{1} << 62;  // L2 only
inline constexpr uint64_t kZero = 1;                        // L2 only: reads as zeroes
inline constexpr uint64_t kL1Reserved = ~(kOffsetMask | kCopied);
inline constexpr uint64_t kL2Reserved = ~(kOffsetMask | kCopied | kCompressed | kZero);

// Byte positions in the header that are changed in place.
inline constexpr uint64_t kSizePosition = 24;           // size, crypt method, L1 size, L1 offset
inline constexpr uint64_t kRefcountTablePosition = 48;  // refcount table offset, its clusters
inline constexpr uint64_t kAutoclearPosition = 88;

struct Geometry {
    unsigned cluster_bits = 16;
    uint64_t cluster_size() const { return uint64_t{1} << cluster_bits; }
    uint64_t clusters(uint64_t bytes) const {
        return (bytes >> cluster_bits) + ((bytes & (cluster_size() - 1)) != 0);
    }
    uint64_t in_cluster(uint64_t offset) const { return offset & (cluster_size() - 1); }
    uint64_t l2_entries() const { return cluster_size() / 8; }
    uint64_t l2_span() const { return cluster_size() * l2_entries(); }  // guest bytes of one L2 table
    uint64_t block_entries() const { return cluster_size() / 2; }       // refcounts of one block
    uint64_t l1_entries(uint64_t virtual_size) const {
        return virtual_size / l2_span() + (virtual_size % l2_span() != 0);
    }
};

struct Header {
    Geometry geometry;
    uint64_t virtual_size = 0;
    uint64_t l1_offset = 0;
    uint32_t l1_entries = 0;
    uint64_t refcount_table_offset = 0;
    uint32_t refcount_table_clusters = 0;
    uint32_t snapshots = 0;
    uint64_t autoclear_features = 0;
    bool has_bitmaps = false;
    std::optional<Backing> backing;
};

// Reads and checks the header: limits, features, and that it, the L1 and the refcount table lie in the
// file without touching each other.
Result<Header> read_header(BlockIo& io);

// Writes an empty image. The header goes last, so that an unfinished image is none.
Result<void> write_new_image(BlockIo& io, const Qcow2CreateOptions& options);

// The 24 bytes at kSizePosition and the 12 bytes at kRefcountTablePosition.
base::Bytes encode_size_fields(const Header& header);
base::Bytes encode_refcount_table_fields(const Header& header);

// kInvalidArgument unless it is a path, not the name of a protocol ("json:", "nbd://", ...).
Result<void> check_backing_path(const std::string& path);

}  // namespace boxlite::disk::qcow2
