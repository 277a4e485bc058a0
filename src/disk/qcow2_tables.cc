#include "disk/qcow2_tables.h"

#include <algorithm>
#include <utility>

namespace boxlite::disk::qcow2 {

namespace {

constexpr size_t kEntriesPerSector = kSector / 8;

}  // namespace

Result<std::vector<uint64_t>> read_table(BlockIo& io, uint64_t offset, size_t entries) {
    std::vector<uint64_t> table(entries);
    TRY(io.read(offset, {reinterpret_cast<uint8_t*>(table.data()), entries * 8}));
    for (uint64_t& entry : table) entry = base::byte_swap(entry);
    return table;
}

Result<void> write_table(BlockIo& io, uint64_t offset, const std::vector<uint64_t>& entries,
                         const DirtyRange& range) {
    const size_t begin = range.begin / kEntriesPerSector * kEntriesPerSector;
    const size_t end = (range.end + kEntriesPerSector - 1) / kEntriesPerSector * kEntriesPerSector;
    base::Bytes out((end - begin) * 8);
    for (size_t i = begin; i < std::min(end, entries.size()); ++i)
        base::store_be<uint64_t>(&out[(i - begin) * 8], entries[i]);
    return io.write(offset + begin * 8, out);
}

Tables::Tables(BlockIo& io, const Header& header, uint64_t file_size, uint64_t cache_bytes)
    : io_(io),
      header_(header),
      file_size_(file_size),
      capacity_(std::max<size_t>(2, cache_bytes >> header.geometry.cluster_bits)) {}

Result<void> Tables::load_l1() {
    l1_ = TRY(read_table(io_, header_.l1_offset, header_.l1_entries));
    // What lies past the end of the disk is never used; it is kept as it is.
    for (size_t i = 0; i < l1_.size(); ++i) {
        const uint64_t offset = l1_[i] & kOffsetMask;
        if ((l1_[i] & kL1Reserved) == 0 && header_.geometry.in_cluster(offset) == 0 &&
            (offset == 0 ? l1_[i] == 0 : offset < file_size_))
            continue;
        return base::make_error(ErrorCode::kStorage, "qcow2: L1 entry {} ({:#x}) is not valid", i, l1_[i]);
    }
    return {};
}

bool Tables::has_room() const {
    return lru_.size() < capacity_ ||
           std::ranges::any_of(lru_, [](const L2Table& t) { return t.dirty_.empty() && !t.fresh_; });
}

Result<L2Table*> Tables::get(uint64_t l1_index) {
    const auto found = by_index_.find(l1_index);
    if (found != by_index_.end()) {
        lru_.splice(lru_.begin(), lru_, found->second);
        return &lru_.front();
    }
    L2Table table;
    table.l1_index_ = l1_index;
    table.offset_ = l1_[l1_index] & kOffsetMask;
    if (!has_room()) return static_cast<L2Table*>(nullptr);
    table.entries_ = TRY(read_table(io_, table.offset_, header_.geometry.l2_entries()));
    return insert(std::move(table));
}

L2Table* Tables::add(uint64_t l1_index, uint64_t offset) {
    if (!has_room()) return nullptr;
    L2Table table;
    table.l1_index_ = l1_index;
    table.offset_ = offset;
    table.fresh_ = true;
    table.entries_.resize(header_.geometry.l2_entries());
    table.dirty_.add(0, table.entries_.size());
    l1_[l1_index] = offset | kCopied;
    l1_dirty_.add(l1_index);
    return insert(std::move(table));
}

L2Table* Tables::insert(L2Table table) {
    if (lru_.size() >= capacity_) {
        auto victim = std::prev(lru_.end());
        while (!victim->dirty_.empty() || victim->fresh_) --victim;  // has_room() said there is one
        by_index_.erase(victim->l1_index_);
        lru_.erase(victim);
    }
    lru_.push_front(std::move(table));
    by_index_[lru_.front().l1_index_] = lru_.begin();
    return &lru_.front();
}

Result<void> Tables::write(L2Table& table) {
    TRY(write_table(io_, table.offset_, table.entries_, table.dirty_));
    table.dirty_ = {};
    return {};
}

Result<bool> Tables::write_fresh() {
    bool wrote = false;
    for (L2Table& table : lru_) {
        if (!table.fresh_ || table.dirty_.empty()) continue;
        TRY(write(table));
        wrote = true;
    }
    return wrote;
}

Result<bool> Tables::write_changed() {
    bool wrote = false;
    for (L2Table& table : lru_) {
        if (table.fresh_ || table.dirty_.empty()) continue;
        TRY(write(table));
        wrote = true;
    }
    if (l1_dirty_.empty()) return wrote;
    TRY(write_table(io_, header_.l1_offset, l1_, l1_dirty_));
    l1_dirty_ = {};
    for (L2Table& table : lru_) table.fresh_ = false;
    return true;
}

}  // namespace boxlite::disk::qcow2
