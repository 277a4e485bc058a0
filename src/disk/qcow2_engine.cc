#include "disk/qcow2_engine.h"

#include <algorithm>
#include <utility>

#include "disk/qcow2_check.h"

namespace boxlite::disk::qcow2 {

namespace {

constexpr uint64_t kCacheBytes = uint64_t{2} << 20;
constexpr size_t kMaxPending = 65536;
constexpr uint64_t kPunchUnit = 4096;
constexpr uint64_t kMaxRun = uint64_t{64} << 20;  // bytes of one allocation

}  // namespace

Engine::Engine(std::unique_ptr<BlockIo> io, Header header, std::unique_ptr<BlockBackend> backing)
    : io_(std::move(io)), header_(std::move(header)), g_(header_.geometry), backing_(std::move(backing)) {}

Result<void> Engine::start(bool read_only) {
    const uint64_t file_size = TRY(io_->size());
    tables_ = std::make_unique<Tables>(*io_, header_, file_size, kCacheBytes);
    TRY(tables_->load_l1());
    if (read_only) return {};
    allocator_ = TRY(check_image(*io_, header_, *tables_, file_size));
    zero_from_ = g_.clusters(file_size) << g_.cluster_bits;
    unsynced_ = true;  // a process that was killed may have left unsynced bytes, which we will show as ours
    if (allocator_->dirty()) {
        // The tables as we read them must be on disk before clusters that they do not name are freed.
        TRY(io_->sync());
        TRY(allocator_->write_counts());
    }
    if (header_.autoclear_features != 0) {
        TRY(io_->write(kAutoclearPosition, base::Bytes(8)));
        header_.autoclear_features = 0;
    }
    return {};
}

Engine::Kind Engine::kind_of(uint64_t entry) {
    if (entry & kZero) return Kind::kZero;
    return (entry & kOffsetMask) != 0 ? Kind::kData : Kind::kNone;
}

Result<L2Table*> Engine::table(uint64_t l1_index) {
    L2Table* table = TRY(tables_->get(l1_index));
    if (table) return table;
    TRY(flush());
    return tables_->get(l1_index);
}

Result<L2Table*> Engine::table_for_change(uint64_t l1_index) {
    if (tables_->has_l2(l1_index)) return table(l1_index);
    if (!tables_->has_room()) TRY(flush());
    const ClusterRun run = TRY(allocator_->allocate(1));
    new_data_ = true;
    zero_from_ = std::max(zero_from_, run.offset + g_.cluster_size());
    return tables_->add(l1_index, run.offset);
}

Result<Engine::Extent> Engine::find(uint64_t offset, uint64_t length) {
    length = std::min(length, g_.l2_span() - offset % g_.l2_span());
    if (!tables_->has_l2(l1_index(offset))) return Extent{Kind::kNone, 0, length};
    const L2Table& l2 = *TRY(table(l1_index(offset)));
    const size_t first = l2_index(offset);
    const uint64_t entry = l2[first];
    // For an image opened for writing the check at open has seen to this.
    if (entry & (kCompressed | kL2Reserved) || g_.in_cluster(entry & kOffsetMask) != 0)
        return base::make_error(ErrorCode::kStorage, "qcow2: the cluster at {} of the disk is {}", offset,
                                entry & kCompressed ? "compressed, which is not supported" : "not valid");
    Extent extent{kind_of(entry), entry & kOffsetMask, g_.cluster_size() - g_.in_cluster(offset)};
    const auto continues = [&](uint64_t next, size_t distance) {
        if (next & (kCompressed | kL2Reserved) || kind_of(next) != extent.kind) return false;
        return extent.kind != Kind::kData ||
               (next & kOffsetMask) == extent.host + (distance << g_.cluster_bits);
    };
    for (size_t i = 1; extent.length < length && continues(l2[first + i], i); ++i)
        extent.length += g_.cluster_size();
    extent.length = std::min(extent.length, length);
    if (extent.kind == Kind::kData) extent.host += g_.in_cluster(offset);
    return extent;
}

Result<void> Engine::read_backing(uint64_t offset, uint64_t length, IovCursor& cursor) {
    const uint64_t there = backing_has(offset) ? std::min(length, backing_->size() - offset) : 0;
    if (there > 0) {
        std::vector<iovec> parts;
        cursor.take(there, parts);
        TRY(backing_->readv(offset, parts));
    }
    cursor.take_zeroes(length - there);
    return {};
}

Result<Engine::Run> Engine::run_at(uint64_t offset, uint64_t length) {
    TRY(check_range(offset, length, header_.virtual_size));
    const Extent extent = TRY(find(offset, length));
    if (extent.kind != Kind::kNone) return Run{true, extent.length};
    if (!backing_) return Run{false, extent.length};
    // Beyond the end of what is below are zeroes, which the bottom may not have there.
    if (!backing_has(offset)) return Run{true, extent.length};
    return backing_->run_at(offset, std::min(extent.length, backing_->size() - offset));
}

Result<void> Engine::readv(uint64_t offset, std::span<const iovec> into) {
    uint64_t left = iov_length(into).value_or(UINT64_MAX);
    TRY(check_range(offset, left, header_.virtual_size));
    IovCursor cursor(into);
    while (left > 0) {
        const Extent extent = TRY(find(offset, left));
        if (extent.kind == Kind::kNone) {
            TRY(read_backing(offset, extent.length, cursor));
        } else if (extent.kind == Kind::kZero) {
            cursor.take_zeroes(extent.length);
        } else {
            parts_.clear();
            cursor.take(extent.length, parts_);
            TRY(io_->readv(extent.host, parts_));
        }
        offset += extent.length;
        left -= extent.length;
    }
    return {};
}

Result<void> Engine::check_change(uint64_t offset, uint64_t length) const {
    if (read_only()) return base::make_error(ErrorCode::kInvalidState, "the disk is read only");
    return check_range(offset, length, header_.virtual_size);
}

// Released clusters wait for a flush; a guest that never asks for one must not fill our memory with them.
Result<void> Engine::bound_pending() {
    if (allocator_->pending() < kMaxPending) return {};
    return flush();
}

Result<void> Engine::writev(uint64_t offset, std::span<const iovec> from) {
    uint64_t left = iov_length(from).value_or(UINT64_MAX);
    TRY(check_change(offset, left));
    TRY(bound_pending());
    IovCursor cursor(from);
    while (left > 0) {
        const Extent extent = TRY(find(offset, left));
        uint64_t done = extent.length;
        if (extent.kind == Kind::kData) {
            parts_.clear();
            cursor.take(extent.length, parts_);
            unsynced_ = true;
            TRY(io_->writev(extent.host, parts_));
        } else {
            done = TRY(write_new(offset, extent, cursor));
        }
        offset += done;
        left -= done;
    }
    return {};
}

// The bytes of a new cluster that the guest does not write itself. True when they are all zeroes.
Result<bool> Engine::fill_pad(Kind kind, uint64_t offset, uint64_t length, base::Bytes& pad) {
    pad.assign(length, 0);
    if (length == 0 || kind == Kind::kZero || !backing_has(offset)) return true;
    const iovec whole{pad.data(), pad.size()};
    IovCursor cursor({&whole, 1});
    TRY(read_backing(offset, length, cursor));
    return false;
}

// Writes the beginning of an extent that has no data yet, as much as one run of new clusters takes.
// Returns the bytes written. Nothing on disk names the clusters before the next flush.
Result<uint64_t> Engine::write_new(uint64_t offset, const Extent& extent, IovCursor& cursor) {
    L2Table& l2 = *TRY(table_for_change(l1_index(offset)));
    const uint64_t skew = g_.in_cluster(offset);
    const ClusterRun run = TRY(allocator_->allocate(g_.clusters(std::min(skew + extent.length, kMaxRun))));
    const uint64_t room = run.count << g_.cluster_bits;
    const uint64_t length = std::min(extent.length, room - skew);
    const bool pristine = run.offset >= zero_from_;
    zero_from_ = std::max(zero_from_, run.offset + room);
    new_data_ = unsynced_ = true;

    const auto write = [&]() -> Result<void> {
        const bool front_zero = TRY(fill_pad(extent.kind, offset - skew, skew, front_));
        const bool back_zero = TRY(fill_pad(extent.kind, offset + length, room - skew - length, back_));
        const bool write_front = !front_.empty() && !(front_zero && pristine);
        parts_.clear();
        if (write_front) parts_.push_back({front_.data(), front_.size()});
        cursor.take(length, parts_);
        if (!back_.empty() && !(back_zero && pristine)) parts_.push_back({back_.data(), back_.size()});
        return io_->writev(run.offset + (write_front ? 0 : skew), parts_);
    };
    auto written = write();
    if (!written.ok()) {
        allocator_->release(run);
        return std::move(written).error();
    }
    const size_t first = l2_index(offset);
    for (uint64_t i = 0; i < run.count; ++i) {
        const uint64_t old = l2[first + i] & kOffsetMask;  // of a zero cluster that has room in the file
        if (old != 0) allocator_->release_later(old);
        l2.set(first + i, (run.offset + (i << g_.cluster_bits)) | kCopied);
    }
    return length;
}

Result<void> Engine::clear(uint64_t offset, uint64_t length, bool must) {
    TRY(check_change(offset, length));
    TRY(bound_pending());
    while (length > 0) {
        // The last cluster of the disk counts as whole although it may reach past the end.
        const bool to_end = offset + length == header_.virtual_size;
        const uint64_t skew = g_.in_cluster(offset);
        const uint64_t in_table = g_.l2_span() - offset % g_.l2_span();
        uint64_t done = std::min(length, in_table);
        const uint64_t clusters = to_end && done == length ? g_.clusters(done) : done >> g_.cluster_bits;
        if (skew == 0 && clusters > 0) {
            done = std::min(done, clusters << g_.cluster_bits);
            TRY(clear_clusters(offset, clusters, must));
        } else {
            done = std::min(length, g_.cluster_size() - skew);
            TRY(clear_part(offset, done, must));
        }
        offset += done;
        length -= done;
    }
    return {};
}

// Whole clusters of one L2 table.
Result<void> Engine::clear_clusters(uint64_t offset, uint64_t count, bool must) {
    const bool has_l2 = tables_->has_l2(l1_index(offset));
    if (!has_l2 && !(must && backing_has(offset))) return {};
    L2Table& l2 = *TRY(has_l2 ? table(l1_index(offset)) : table_for_change(l1_index(offset)));
    const size_t first = l2_index(offset);
    for (uint64_t i = 0; i < count; ++i) {
        const uint64_t old = l2[first + i];
        // An entry of 0 would show the backing file again.
        const uint64_t empty = backing_has(offset + (i << g_.cluster_bits)) ? kZero : 0;
        if ((old & kOffsetMask) != 0)
            allocator_->release_later(old & kOffsetMask);
        else if (old == empty || old == kZero || !must)
            continue;
        l2.set(first + i, empty);
    }
    return {};
}

// Bytes inside one cluster.
Result<void> Engine::clear_part(uint64_t offset, uint64_t length, bool must) {
    const Extent extent = TRY(find(offset, length));
    if (extent.kind == Kind::kData) {
        unsynced_ = true;
        if (must) return io_->zero(extent.host, length);
        const uint64_t begin = (extent.host + kPunchUnit - 1) / kPunchUnit * kPunchUnit;
        const uint64_t end = (extent.host + length) / kPunchUnit * kPunchUnit;
        if (begin < end) TRY(io_->punch(begin, end - begin));
        return {};
    }
    if (extent.kind == Kind::kZero || !must || !backing_has(offset)) return {};
    base::Bytes zeroes(length);
    const iovec whole{zeroes.data(), zeroes.size()};
    return writev(offset, {&whole, 1});
}

Result<void> Engine::sync() {
    TRY(io_->sync());
    unsynced_ = false;
    return {};
}

Result<void> Engine::flush() {
    if (read_only()) return {};
    if (new_data_) {
        TRY(allocator_->write_counts());
        TRY(tables_->write_fresh());
        TRY(sync());
        new_data_ = false;
    }
    if (TRY(tables_->write_changed())) unsynced_ = true;
    if (unsynced_) TRY(sync());
    return allocator_->free_pending();
}

Result<void> Engine::grow(uint64_t new_size) {
    TRY(check_change(0, 0));
    const uint64_t old_size = header_.virtual_size;
    if (new_size < old_size || new_size % kSector != 0 || new_size > kMaxVirtualSize)
        return base::make_error(
            ErrorCode::kInvalidArgument,
            "a disk of {} bytes cannot become one of {}: only larger, in steps of 512, up to 64 TiB",
            old_size, new_size);
    const uint64_t entries = g_.l1_entries(new_size);
    if (entries * 8 > kMaxL1Bytes)
        return base::make_error(ErrorCode::kInvalidArgument,
                                "a disk of {} bytes needs larger clusters than {}", new_size,
                                g_.cluster_size());
    TRY(flush());
    if (entries > header_.l1_entries) TRY(move_l1(entries));

    // What the last cluster and the backing file hold past the old end must not show.
    const uint64_t cluster_end = g_.clusters(old_size) << g_.cluster_bits;
    const uint64_t hidden_end = std::min(new_size, std::max(cluster_end, backing_ ? backing_->size() : 0));
    header_.virtual_size = new_size;
    const auto publish = [&]() -> Result<void> {
        if (hidden_end > old_size) TRY(clear(old_size, hidden_end - old_size, true));
        TRY(flush());
        return write_size_fields(header_);
    };
    auto published = publish();
    if (!published.ok()) header_.virtual_size = old_size;
    return published;
}

// A longer L1 table elsewhere. Precondition: nothing is dirty.
Result<void> Engine::move_l1(uint64_t entries) {
    std::vector<uint64_t> l1 = tables_->l1();
    l1.resize(entries);
    const ClusterRun old{header_.l1_offset, g_.clusters(uint64_t{header_.l1_entries} * 8)};
    const ClusterRun run = TRY(allocator_->allocate_at_end(g_.clusters(entries * 8)));
    zero_from_ = std::max(zero_from_, run.offset + (run.count << g_.cluster_bits));
    Header changed = header_;
    changed.l1_offset = run.offset;
    changed.l1_entries = static_cast<uint32_t>(entries);
    const auto write = [&]() -> Result<void> {
        TRY(allocator_->write_counts());
        TRY(write_table(*io_, run.offset, l1, {0, l1.size()}));
        TRY(sync());
        return write_size_fields(changed);
    };
    auto written = write();
    if (!written.ok()) {
        allocator_->release(run);
        return written;
    }
    header_ = std::move(changed);
    tables_->set_l1(std::move(l1));
    allocator_->release(old);
    return {};
}

Result<void> Engine::write_size_fields(const Header& changed) {
    TRY(io_->write(kSizePosition, encode_size_fields(changed)));
    return sync();
}

}  // namespace boxlite::disk::qcow2
