// Reads, writes and flushes of one qcow2 image, over the tables and the allocator. The order of writes is
// the one that disk/qcow2.h promises. Not thread safe.
#pragma once

#include <memory>
#include <vector>

#include "disk/block_backend.h"
#include "disk/qcow2_allocator.h"
#include "disk/qcow2_tables.h"

namespace boxlite::disk::qcow2 {

class Engine final : public BlockBackend {
  public:
    // `backing` may be null. Formats, limits and the header are checked already.
    Engine(std::unique_ptr<BlockIo> io, Header header, std::unique_ptr<BlockBackend> backing);
    // Loads the tables; for writing, checks them and frees what a crash left behind.
    Result<void> start(bool read_only);

    const Header& header() const { return header_; }
    BlockIo& io() { return *io_; }
    Result<void> grow(uint64_t new_size);

    Result<void> readv(uint64_t offset, std::span<const iovec> into) override;
    Result<void> writev(uint64_t offset, std::span<const iovec> from) override;
    Result<void> discard(uint64_t offset, uint64_t length) override { return clear(offset, length, false); }
    Result<void> write_zeroes(uint64_t offset, uint64_t length) override {
        return clear(offset, length, true);
    }
    Result<void> flush() override;
    Result<Run> run_at(uint64_t offset, uint64_t length) override;
    uint64_t size() const override { return header_.virtual_size; }
    bool read_only() const override { return allocator_ == nullptr; }

  private:
    enum class Kind { kNone, kZero, kData };
    // Guest bytes in a row that are of one kind and, when data, in a row in the file too.
    struct Extent {
        Kind kind = Kind::kNone;
        uint64_t host = 0;  // file offset of data
        uint64_t length = 0;
    };
    static Kind kind_of(uint64_t entry);
    uint64_t l1_index(uint64_t offset) const { return offset / g_.l2_span(); }
    size_t l2_index(uint64_t offset) const { return (offset >> g_.cluster_bits) % g_.l2_entries(); }

    Result<void> check_change(uint64_t offset, uint64_t length) const;
    Result<Extent> find(uint64_t offset, uint64_t length);
    Result<L2Table*> table(uint64_t l1_index);
    Result<L2Table*> table_for_change(uint64_t l1_index);
    bool backing_has(uint64_t offset) const { return backing_ && offset < backing_->size(); }
    Result<void> read_backing(uint64_t offset, uint64_t length, IovCursor& cursor);
    Result<uint64_t> write_new(uint64_t offset, const Extent& extent, IovCursor& cursor);
    Result<bool> fill_pad(Kind kind, uint64_t offset, uint64_t length, base::Bytes& pad);
    // Zeroes; `must` false: as far as it frees room.
    Result<void> clear(uint64_t offset, uint64_t length, bool must);
    Result<void> clear_part(uint64_t offset, uint64_t length, bool must);
    Result<void> clear_clusters(uint64_t offset, uint64_t count, bool must);
    Result<void> bound_pending();
    Result<void> sync();
    Result<void> move_l1(uint64_t entries);
    Result<void> write_size_fields(const Header& changed);

    std::unique_ptr<BlockIo> io_;
    Header header_;
    const Geometry g_;
    std::unique_ptr<BlockBackend> backing_;
    std::unique_ptr<Tables> tables_;
    std::unique_ptr<ClusterAllocator> allocator_;  // null: read only

    bool unsynced_ = false;   // something was written since the last sync
    bool new_data_ = false;   // clusters were taken that the tables on disk do not name yet
    uint64_t zero_from_ = 0;  // the file was never written from here on
    std::vector<iovec> parts_;
    base::Bytes front_;
    base::Bytes back_;
};

}  // namespace boxlite::disk::qcow2
