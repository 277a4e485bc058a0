#include "disk/qcow2_allocator.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace boxlite::disk::qcow2 {

namespace {

constexpr uint64_t kCountsPerSector = kSector / 2;
constexpr int kRunsToTry = 256;  // bounds the search in a fragmented file
constexpr uint64_t kNowhere = UINT64_MAX;

base::Bytes encode_table(const std::vector<uint64_t>& entries) {
    base::Bytes out(entries.size() * 8);
    for (size_t i = 0; i < entries.size(); ++i) base::store_be<uint64_t>(&out[i * 8], entries[i]);
    return out;
}

}  // namespace

ClusterAllocator::ClusterAllocator(BlockIo& io, Header& header, std::vector<uint64_t> refcount_table)
    : io_(io), header_(header), table_(std::move(refcount_table)) {}

bool ClusterAllocator::used(uint64_t cluster) const {
    return cluster / 64 < bits_.size() && (bits_[cluster / 64] >> (cluster % 64) & 1) != 0;
}

bool ClusterAllocator::claim(uint64_t offset, uint64_t count) {
    const uint64_t first = offset >> header_.geometry.cluster_bits;
    if (next_used(first) < first + count) return false;
    set(first, count, true);
    return true;
}

void ClusterAllocator::set(uint64_t first, uint64_t count, bool used) {
    if (used && (first + count + 63) / 64 > bits_.size()) bits_.resize((first + count + 63) / 64);
    for (uint64_t i = first; i < first + count; ++i) {
        const uint64_t mask = uint64_t{1} << (i % 64);
        if (used)
            bits_[i / 64] |= mask;
        else
            bits_[i / 64] &= ~mask;
    }
    if (!used)
        hint_ = std::min(hint_, first);
    else if (first <= hint_ && hint_ < first + count)
        hint_ = first + count;
}

void ClusterAllocator::mark_dirty(uint64_t cluster) {
    dirty_.insert(cluster / kCountsPerSector);
}

uint64_t ClusterAllocator::next_free(uint64_t cluster) const {
    while (cluster / 64 < bits_.size()) {
        const uint64_t free = ~bits_[cluster / 64] >> (cluster % 64);
        if (free != 0) return cluster + static_cast<uint64_t>(std::countr_zero(free));
        cluster = (cluster / 64 + 1) * 64;
    }
    return cluster;
}

uint64_t ClusterAllocator::next_used(uint64_t cluster) const {
    while (cluster / 64 < bits_.size()) {
        const uint64_t used = bits_[cluster / 64] >> (cluster % 64);
        if (used != 0) return cluster + static_cast<uint64_t>(std::countr_zero(used));
        cluster = (cluster / 64 + 1) * 64;
    }
    return kNowhere;
}

uint64_t ClusterAllocator::end() const {
    size_t words = bits_.size();
    while (words > 0 && bits_[words - 1] == 0) --words;
    if (words == 0) return 0;
    return (words * 64 - static_cast<size_t>(std::countl_zero(bits_[words - 1])))
           << header_.geometry.cluster_bits;
}

// The first run that is long enough, else the longest of those tried. Offset and count in clusters.
ClusterRun ClusterAllocator::find(uint64_t count) const {
    ClusterRun best;
    uint64_t at = next_free(hint_);
    for (int i = 0; i < kRunsToTry; ++i) {
        const uint64_t stop = next_used(at);
        const uint64_t length = std::min(stop - at, count);
        if (length > best.count) best = {at, length};
        if (best.count == count) break;
        at = next_free(stop);
    }
    return best;
}

Result<ClusterRun> ClusterAllocator::allocate(uint64_t count) {
    ClusterRun run;
    do run = find(count);
    while (TRY(ensure_blocks(run.offset, run.count)));
    set(run.offset, run.count, true);
    for (uint64_t i = 0; i < run.count; ++i) mark_dirty(run.offset + i);
    return ClusterRun{run.offset << header_.geometry.cluster_bits, run.count};
}

Result<ClusterRun> ClusterAllocator::allocate_at_end(uint64_t count) {
    uint64_t first;
    do first = end() >> header_.geometry.cluster_bits;
    while (TRY(ensure_blocks(first, count)));
    set(first, count, true);
    for (uint64_t i = 0; i < count; ++i) mark_dirty(first + i);
    return ClusterRun{first << header_.geometry.cluster_bits, count};
}

void ClusterAllocator::release(const ClusterRun& run) {
    const uint64_t first = run.offset >> header_.geometry.cluster_bits;
    set(first, run.count, false);
    for (uint64_t i = 0; i < run.count; ++i) mark_dirty(first + i);
}

void ClusterAllocator::release_later(uint64_t offset) {
    const uint64_t size = header_.geometry.cluster_size();
    if (!pending_.empty() && pending_.back().offset + pending_.back().count * size == offset)
        ++pending_.back().count;
    else
        pending_.push_back({offset, 1});
}

base::Bytes ClusterAllocator::encode_counts(uint64_t first, uint64_t count) const {
    base::Bytes out(count * 2);
    for (uint64_t i = 0; i < count; ++i) base::store_be<uint16_t>(&out[i * 2], used(first + i) ? 1 : 0);
    return out;
}

Result<void> ClusterAllocator::write_counts() {
    const uint64_t sectors_per_block = header_.geometry.cluster_size() / kSector;
    while (!dirty_.empty()) {
        // Neighbours in the same block go out together.
        const uint64_t first = *dirty_.begin();
        const uint64_t block = first / sectors_per_block;
        auto last = dirty_.begin();
        uint64_t count = 0;
        while (last != dirty_.end() && *last == first + count && *last / sectors_per_block == block)
            ++last, ++count;
        TRY(io_.write(table_[block] + first % sectors_per_block * kSector,
                      encode_counts(first * kCountsPerSector, count * kCountsPerSector)));
        dirty_.erase(dirty_.begin(), last);
    }
    return {};
}

Result<void> ClusterAllocator::free_pending() {
    std::vector<ClusterRun> runs = std::exchange(pending_, {});
    for (const ClusterRun& run : runs) release(run);
    TRY(write_counts());
    // A host that cannot give room back has lost nothing: no error.
    for (const ClusterRun& run : runs)
        (void)io_.punch(run.offset, run.count << header_.geometry.cluster_bits);
    return {};
}

Result<bool> ClusterAllocator::ensure_blocks(uint64_t first, uint64_t count) {
    if (first + count > kMaxFileClusters)
        return base::make_error(ErrorCode::kResourceExhausted,
                                "qcow2: the image file would have more than {} clusters", kMaxFileClusters);
    const uint64_t entries = header_.geometry.block_entries();
    bool added = false;
    for (uint64_t index = first / entries; index <= (first + count - 1) / entries; ++index) {
        if (index < table_.size() && table_[index] != 0) continue;
        TRY(index < table_.size() ? add_block(index) : grow_table(index));
        added = true;
    }
    return added;
}

// Without a block no cluster of its range is in use, so its first one is free for the block itself.
Result<void> ClusterAllocator::add_block(uint64_t index) {
    const Geometry& g = header_.geometry;
    const uint64_t cluster = index * g.block_entries();
    const uint64_t offset = cluster << g.cluster_bits;
    set(cluster, 1, true);
    const auto write = [&]() -> Result<void> {
        TRY(io_.write(offset, encode_counts(cluster, g.block_entries())));
        TRY(io_.sync());
        base::Bytes entry(8);
        base::store_be<uint64_t>(entry.data(), offset);
        return io_.write(header_.refcount_table_offset + index * 8, entry);
    };
    auto written = write();
    if (!written.ok())
        set(cluster, 1, false);
    else
        table_[index] = offset;
    return written;
}

// A longer table and blocks that count it go right after all clusters that the old one can count.
Result<void> ClusterAllocator::grow_table(uint64_t index) {
    const Geometry& g = header_.geometry;
    const uint64_t first = table_.size() * g.block_entries();
    const uint64_t clusters = g.clusters(std::max<uint64_t>(index + 2, table_.size() * 2) * 8);
    if (clusters << g.cluster_bits > kMaxRefcountTableBytes)
        return base::make_error(ErrorCode::kResourceExhausted,
                                "qcow2: the image file is as large as it can be");
    const uint64_t blocks = clusters / (g.block_entries() - 1) + 1;
    std::vector<uint64_t> table = table_;
    table.resize(clusters * g.cluster_size() / 8);
    for (uint64_t i = 0; i < blocks; ++i)
        table[first / g.block_entries() + i] = (first + i) << g.cluster_bits;

    set(first, blocks + clusters, true);
    Header changed = header_;
    changed.refcount_table_offset = (first + blocks) << g.cluster_bits;
    changed.refcount_table_clusters = static_cast<uint32_t>(clusters);
    const auto write = [&]() -> Result<void> {
        TRY(io_.write(first << g.cluster_bits, encode_counts(first, blocks * g.block_entries())));
        TRY(io_.write(changed.refcount_table_offset, encode_table(table)));
        TRY(io_.sync());
        TRY(io_.write(kRefcountTablePosition, encode_refcount_table_fields(changed)));
        return io_.sync();
    };
    auto written = write();
    if (!written.ok()) {
        set(first, blocks + clusters, false);
        return written;
    }
    pending_.push_back({header_.refcount_table_offset, header_.refcount_table_clusters});
    header_ = changed;
    table_ = std::move(table);
    return {};
}

}  // namespace boxlite::disk::qcow2
