#include "disk/qcow2_check.h"

#include <utility>

namespace boxlite::disk::qcow2 {

namespace {

using base::make_error;

class Check {
  public:
    Check(BlockIo& io, Header& header, const Tables& tables, uint64_t file_size)
        : io_(io), header_(header), g_(header.geometry), tables_(tables), end_(g_.clusters(file_size)) {}

    Result<std::unique_ptr<ClusterAllocator>> run() {
        if (header_.snapshots != 0)
            return refuse(
                "it has internal snapshots, so it can only be opened read only; delete them with "
                "'qemu-img snapshot -d'");
        if (header_.has_bitmaps)
            return refuse(
                "it has persistent bitmaps, so it can only be opened read only; remove them with "
                "'qemu-img bitmap --remove'");
        refcount_table_ = TRY(read_table(io_, header_.refcount_table_offset,
                                         (uint64_t{header_.refcount_table_clusters} << g_.cluster_bits) / 8));
        allocator_ = std::make_unique<ClusterAllocator>(io_, header_, refcount_table_);
        TRY(claim("header", 0, 1));
        TRY(claim("refcount table", header_.refcount_table_offset, header_.refcount_table_clusters));
        TRY(claim("L1 table", header_.l1_offset, g_.clusters(uint64_t{header_.l1_entries} * 8)));
        for (const uint64_t offset : refcount_table_)
            if (offset != 0) TRY(claim("refcount block", offset, 1));
        for (uint64_t i = 0; i < tables_.l1().size(); ++i)
            if (tables_.has_l2(i)) TRY(claim_l2(i));
        for (uint64_t i = 0; i < refcount_table_.size(); ++i) TRY(compare_counts(i));
        const uint64_t counted = refcount_table_.size() * g_.block_entries();
        if (allocator_->end() >> g_.cluster_bits > counted) return uncounted(counted);
        return std::move(allocator_);
    }

  private:
    Error refuse(std::string_view why) const { return make_error(ErrorCode::kStorage, "qcow2: {}", why); }
    Error uncounted(uint64_t cluster) const {
        return refuse(fmt::format("the cluster at {} is in use but not counted; try 'qemu-img check -r all'",
                                  cluster << g_.cluster_bits));
    }

    Result<void> claim(const char* what, uint64_t offset, uint64_t count) {
        const uint64_t first = offset >> g_.cluster_bits;
        if (g_.in_cluster(offset) != 0 || first > end_ || count > end_ - first)
            return refuse(fmt::format("its {} at {} is not inside the file", what, offset));
        if (count > 0 && !allocator_->claim(offset, count))
            return refuse(fmt::format("its {} at {} lies on something else", what, offset));
        return {};
    }

    Result<void> claim_l2(uint64_t index) {
        const uint64_t offset = tables_.l1()[index] & kOffsetMask;
        TRY(claim("L2 table", offset, 1));
        for (const uint64_t entry : TRY(read_table(io_, offset, g_.l2_entries()))) {
            if (entry == 0) continue;
            if (entry & kCompressed)
                return refuse(
                    "it has compressed clusters, which are not supported; convert it with 'qemu-img "
                    "convert'");
            if (entry & kL2Reserved) return refuse(fmt::format("an L2 entry ({:#x}) is not valid", entry));
            if ((entry & kOffsetMask) != 0) TRY(claim("data cluster", entry & kOffsetMask, 1));
        }
        return {};
    }

    Result<void> compare_counts(uint64_t index) {
        const uint64_t first = index * g_.block_entries();
        if (refcount_table_[index] == 0) {
            for (uint64_t i = first; i < std::min(first + g_.block_entries(), end_); ++i)
                if (allocator_->used(i)) return uncounted(i);
            return {};
        }
        base::Bytes block(g_.cluster_size());
        TRY(io_.read(refcount_table_[index], block));
        for (uint64_t i = 0; i < g_.block_entries(); ++i) {
            const uint16_t count = base::load_be<uint16_t>(&block[i * 2]);
            const bool used = allocator_->used(first + i);
            if (used && count == 0) return uncounted(first + i);
            if (count > (used ? 1 : 0)) allocator_->mark_dirty(first + i);
        }
        return {};
    }

    BlockIo& io_;
    Header& header_;
    const Geometry& g_;
    const Tables& tables_;
    const uint64_t end_;  // clusters of the file
    std::vector<uint64_t> refcount_table_;
    std::unique_ptr<ClusterAllocator> allocator_;
};

}  // namespace

Result<std::unique_ptr<ClusterAllocator>> check_image(BlockIo& io, Header& header, const Tables& tables,
                                                      uint64_t file_size) {
    return Check(io, header, tables, file_size).run();
}

}  // namespace boxlite::disk::qcow2
