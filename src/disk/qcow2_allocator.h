// Which clusters of an image file are in use, in memory as one bit each and on disk as 16-bit reference
// counts of 0 or 1 (there are no internal snapshots, so nothing is referred to twice).
// Not thread safe.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "disk/qcow2_format.h"

namespace boxlite::disk::qcow2 {

struct ClusterRun {
    uint64_t offset = 0;  // in the file
    uint64_t count = 0;   // clusters
};

class ClusterAllocator {
  public:
    // `header` and `io` outlive the allocator, which updates the header's refcount table fields.
    // `refcount_table` holds the entries as on disk, in host byte order.
    ClusterAllocator(BlockIo& io, Header& header, std::vector<uint64_t> refcount_table);

    // For the check at open: takes a run; false when a part of it is taken already.
    [[nodiscard]] bool claim(uint64_t offset, uint64_t count);
    bool used(uint64_t cluster) const;
    // The on-disk counts around this cluster are to be written again.
    void mark_dirty(uint64_t cluster);
    bool dirty() const { return !dirty_.empty(); }

    // 1..`count` clusters in one run. Their counts reach the disk with write_counts().
    Result<ClusterRun> allocate(uint64_t count);
    // Exactly `count` clusters in one run, after everything in use.
    Result<ClusterRun> allocate_at_end(uint64_t count);

    // Of clusters that nothing on disk refers to.
    void release(const ClusterRun& run);
    // Of clusters that something on disk still refers to: they stay in use until free_pending().
    void release_later(uint64_t offset);
    size_t pending() const { return pending_.size(); }

    // Writes changed counts, without sync.
    Result<void> write_counts();
    // Precondition: no reference to the pending clusters is on disk any more, and that is synced.
    Result<void> free_pending();

    uint64_t end() const;  // bytes up to the last cluster in use

  private:
    uint64_t next_free(uint64_t cluster) const;
    uint64_t next_used(uint64_t cluster) const;
    ClusterRun find(uint64_t count) const;
    void set(uint64_t first, uint64_t count, bool used);
    // Makes refcount blocks for these clusters; true when it had to, in which case some may be taken now.
    Result<bool> ensure_blocks(uint64_t first, uint64_t count);
    Result<void> add_block(uint64_t index);
    Result<void> grow_table(uint64_t index);
    base::Bytes encode_counts(uint64_t first, uint64_t count) const;

    BlockIo& io_;
    Header& header_;
    std::vector<uint64_t> table_;
    std::vector<uint64_t> bits_;
    uint64_t hint_ = 0;         // no free cluster below
    std::set<uint64_t> dirty_;  // sectors of counts: cluster / kCountsPerSector
    std::vector<ClusterRun> pending_;
};

}  // namespace boxlite::disk::qcow2
