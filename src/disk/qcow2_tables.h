// The L1 table and a bounded cache of L2 tables: where each guest cluster is in the file.
// Not thread safe.
#pragma once

#include <cstdint>
#include <list>
#include <unordered_map>
#include <vector>

#include "disk/qcow2_format.h"

namespace boxlite::disk::qcow2 {

// Part of a table that differs from the disk, in entries.
struct DirtyRange {
    size_t begin = SIZE_MAX;
    size_t end = 0;
    bool empty() const { return begin >= end; }
    void add(size_t index) { add(index, index + 1); }
    void add(size_t first, size_t last) {
        begin = std::min(begin, first);
        end = std::max(end, last);
    }
};

class L2Table {
  public:
    uint64_t operator[](size_t index) const { return entries_[index]; }
    void set(size_t index, uint64_t entry) {
        entries_[index] = entry;
        dirty_.add(index);
    }

  private:
    friend class Tables;
    uint64_t l1_index_ = 0;
    uint64_t offset_ = 0;
    bool fresh_ = false;  // no L1 entry on disk names it yet
    std::vector<uint64_t> entries_;
    DirtyRange dirty_;
};

class Tables {
  public:
    // `io` and `header` outlive it. At most `cache_bytes` of L2 tables, and never less than two.
    Tables(BlockIo& io, const Header& header, uint64_t file_size, uint64_t cache_bytes);
    Result<void> load_l1();

    const std::vector<uint64_t>& l1() const { return l1_; }
    bool has_l2(uint64_t l1_index) const { return l1_index < l1_.size() && l1_[l1_index] != 0; }

    // The L2 table of an L1 entry; precondition: has_l2(). nullptr when the cache is full of changed
    // tables, which must be written first. Valid until the next call of get() or add().
    Result<L2Table*> get(uint64_t l1_index);
    // A new, empty L2 table at `offset`, to be named by the L1 table. nullptr as for get().
    L2Table* add(uint64_t l1_index, uint64_t offset);
    // Room for one more table could be made.
    bool has_room() const;

    // Steps 1 and 3 of a flush (disk/qcow2.h); true when something was written.
    Result<bool> write_fresh();
    Result<bool> write_changed();

    // After the L1 table moved and grew on disk.
    void set_l1(std::vector<uint64_t> l1) { l1_ = std::move(l1); }

  private:
    L2Table* insert(L2Table table);
    Result<void> write(L2Table& table);

    BlockIo& io_;
    const Header& header_;
    uint64_t file_size_;  // at open; what the tables of a read-only image may refer to
    size_t capacity_;
    std::vector<uint64_t> l1_;
    DirtyRange l1_dirty_;
    std::list<L2Table> lru_;  // most recently used first
    std::unordered_map<uint64_t, std::list<L2Table>::iterator> by_index_;
};

// Reads table entries into host byte order, and writes entries [begin, end), whole sectors.
Result<std::vector<uint64_t>> read_table(BlockIo& io, uint64_t offset, size_t entries);
Result<void> write_table(BlockIo& io, uint64_t offset, const std::vector<uint64_t>& entries,
                         const DirtyRange& range);

}  // namespace boxlite::disk::qcow2
