#include "disk/qcow2_format.h"

#include <algorithm>
#include <utility>

namespace boxlite::disk::qcow2 {

namespace {

using base::load_be;
using base::make_error;
using base::store_be;

constexpr uint32_t kMagic = 0x514649fb;  // "QFI\xfb"
constexpr size_t kHeaderLength = 112;
constexpr size_t kMaxBackingName = 1023;

constexpr uint64_t kIncompatibleDirty = 1;
constexpr uint64_t kIncompatibleCorrupt = 2;
constexpr uint64_t kIncompatibleDataFile = 4;
constexpr uint64_t kIncompatibleCompression = 8;
constexpr uint64_t kIncompatibleExtendedL2 = 16;

enum Extension : uint32_t {
    kExtensionEnd = 0,
    kExtensionBackingFormat = 0xe2792aca,
    kExtensionBitmaps = 0x23852875,
    kExtensionDataFile = 0x44415441,
};

template <typename... Args>
Error refuse(fmt::format_string<Args...> format, Args&&... args) {
    return make_error(ErrorCode::kStorage, "qcow2: {}", fmt::format(format, std::forward<Args>(args)...));
}

Result<void> check_features(uint64_t incompatible) {
    if (incompatible & kIncompatibleDataFile)
        return refuse("the image keeps its data in an external file, which is not allowed");
    if (incompatible & kIncompatibleCorrupt)
        return refuse("the image is marked corrupt; try 'qemu-img check -r all'");
    if (incompatible & kIncompatibleDirty)
        return refuse("the image has unfinished reference counts; run 'qemu-img check -r all'");
    if (incompatible & kIncompatibleExtendedL2)
        return refuse("extended L2 entries are not supported; convert the image with 'qemu-img convert'");
    if (incompatible & kIncompatibleCompression)
        return refuse("compressed clusters are not supported; convert the image with 'qemu-img convert'");
    if (incompatible != 0) return refuse("the image uses unknown features ({:#x})", incompatible);
    return {};
}

// A table that occupies whole clusters.
struct Extent {
    uint64_t start;
    uint64_t end;
};

Result<Extent> table_extent(const char* what, const Geometry& g, uint64_t offset, uint64_t bytes,
                            uint64_t limit, uint64_t file_size) {
    if (bytes > limit) return refuse("its {} has {} bytes, more than {}", what, bytes, limit);
    const uint64_t room = g.clusters(bytes) << g.cluster_bits;
    if (bytes == 0) return Extent{0, 0};
    if (g.in_cluster(offset) != 0) return refuse("its {} is not at the start of a cluster", what);
    if (offset == 0 || offset >= file_size || bytes > file_size - offset)
        return refuse("its {} ({} bytes at {}) is not inside the file of {} bytes", what, bytes, offset,
                      file_size);
    return Extent{offset, offset + room};
}

bool overlap(const Extent& a, const Extent& b) {
    return a.start < b.end && b.start < a.end;
}

Result<void> check_tables(const Header& h, uint64_t file_size) {
    const Geometry& g = h.geometry;
    const Extent head{0, g.cluster_size()};
    const Extent l1 =
        TRY(table_extent("L1 table", g, h.l1_offset, uint64_t{h.l1_entries} * 8, kMaxL1Bytes, file_size));
    const Extent refcounts = TRY(table_extent("refcount table", g, h.refcount_table_offset,
                                              uint64_t{h.refcount_table_clusters} << g.cluster_bits,
                                              kMaxRefcountTableBytes, file_size));
    if (h.refcount_table_clusters == 0) return refuse("it has no refcount table");
    if (overlap(l1, refcounts) || overlap(l1, head) || overlap(refcounts, head))
        return refuse("its tables overlap");
    if (h.l1_entries < g.l1_entries(h.virtual_size)) return refuse("its L1 table is too short for its size");
    return {};
}

Result<ImageFormat> backing_format(const std::string& name) {
    if (name == "raw") return ImageFormat::kRaw;
    if (name == "qcow2") return ImageFormat::kQcow2;
    if (name.empty())
        return refuse(
            "it does not record the format of its backing file; set it with 'qemu-img rebase -u -F'");
    return refuse("the format '{}' of its backing file is not supported", name);
}

// What the header extensions say. `at` is the header's length, `end` where the extension area ends.
struct Extensions {
    std::string backing_format;
    bool has_bitmaps = false;
};

Result<Extensions> read_extensions(base::ByteView cluster, uint64_t at, uint64_t end) {
    Extensions found;
    while (end - at >= 8) {
        const uint32_t type = load_be<uint32_t>(cluster.data() + at);
        const uint32_t length = load_be<uint32_t>(cluster.data() + at + 4);
        at += 8;
        if (type == kExtensionEnd) break;
        if (length > end - at) return refuse("a header extension is longer than the header");
        if (type == kExtensionDataFile)
            return refuse("the image keeps its data in an external file, which is not allowed");
        if (type == kExtensionBitmaps) found.has_bitmaps = true;
        if (type == kExtensionBackingFormat)
            found.backing_format = base::as_text(cluster.subspan(at, length));
        at += std::min<uint64_t>((uint64_t{length} + 7) & ~uint64_t{7}, end - at);
    }
    return found;
}

// Fields that need no other part of the file.
Result<Header> parse_fixed(base::ByteView raw) {
    if (load_be<uint32_t>(raw.data()) != kMagic) return refuse("the file is not a qcow2 image");
    const uint32_t version = load_be<uint32_t>(raw.data() + 4);
    if (version != 3)
        return refuse("version {} is not supported; upgrade the image with 'qemu-img amend -o compat=1.1'",
                      version);
    Header h;
    h.geometry.cluster_bits = load_be<uint32_t>(raw.data() + 20);
    if (h.geometry.cluster_bits < kMinClusterBits || h.geometry.cluster_bits > kMaxClusterBits)
        return refuse("clusters of 2^{} bytes are not allowed", h.geometry.cluster_bits);
    h.virtual_size = load_be<uint64_t>(raw.data() + 24);
    if (h.virtual_size > kMaxVirtualSize)
        return refuse("a disk of {} bytes is more than {}", h.virtual_size, kMaxVirtualSize);
    if (load_be<uint32_t>(raw.data() + 32) != 0) return refuse("encrypted images are not supported");
    h.l1_entries = load_be<uint32_t>(raw.data() + 36);
    h.l1_offset = load_be<uint64_t>(raw.data() + 40);
    h.refcount_table_offset = load_be<uint64_t>(raw.data() + 48);
    h.refcount_table_clusters = load_be<uint32_t>(raw.data() + 56);
    h.snapshots = load_be<uint32_t>(raw.data() + 60);
    TRY(check_features(load_be<uint64_t>(raw.data() + 72)));
    h.autoclear_features = load_be<uint64_t>(raw.data() + 88);
    const uint32_t refcount_order = load_be<uint32_t>(raw.data() + 96);
    if (refcount_order != 4)
        return refuse("reference counts of 2^{} bits are not supported, only of 16 bits", refcount_order);
    return h;
}

}  // namespace

Result<void> check_backing_path(const std::string& path) {
    const auto bad = [&](const char* why) {
        return make_error(ErrorCode::kInvalidArgument, "backing file name '{}' is refused: {}", path, why);
    };
    if (path.empty()) return bad("it is empty");
    if (path.size() > kMaxBackingName) return bad("it is longer than 1023 bytes");
    if (path.find('\0') != std::string::npos) return bad("it has a zero byte");
    if (path.substr(0, path.find('/')).find(':') != std::string::npos)
        return bad("it names a protocol; only plain paths are allowed");
    return {};
}

Result<Header> read_header(BlockIo& io) {
    const uint64_t file_size = TRY(io.size());
    base::Bytes raw(kSector);
    if (file_size < kSector) return refuse("the file is not a qcow2 image");
    TRY(io.read(0, raw));
    Header h = TRY(parse_fixed(raw));
    const uint64_t cluster_size = h.geometry.cluster_size();
    if (h.geometry.clusters(file_size) > kMaxFileClusters)
        return refuse("the file has more than {} clusters", kMaxFileClusters);
    TRY(check_tables(h, file_size));

    raw.resize(cluster_size);
    TRY(io.read(0, raw));
    const uint64_t name_offset = load_be<uint64_t>(raw.data() + 8);
    const uint32_t name_length = load_be<uint32_t>(raw.data() + 16);
    const uint32_t header_length = load_be<uint32_t>(raw.data() + 100);
    const uint64_t area_end = name_offset != 0 ? name_offset : cluster_size;
    if (header_length < 104 || header_length % 8 != 0 || area_end > cluster_size || header_length > area_end)
        return refuse("its header does not fit into the first cluster");
    const Extensions extensions = TRY(read_extensions(raw, header_length, area_end));
    h.has_bitmaps = extensions.has_bitmaps;
    if (name_offset == 0) return h;
    if (name_length > kMaxBackingName || name_length > cluster_size - name_offset)
        return refuse("the name of its backing file is too long");
    Backing backing;
    backing.path = base::as_text(base::ByteView(raw).subspan(name_offset, name_length));
    TRY(check_backing_path(backing.path));
    backing.format = TRY(backing_format(extensions.backing_format));
    h.backing = std::move(backing);
    return h;
}

base::Bytes encode_size_fields(const Header& h) {
    base::Bytes out(24);
    store_be<uint64_t>(out.data(), h.virtual_size);
    store_be<uint32_t>(out.data() + 8, 0);  // not encrypted
    store_be<uint32_t>(out.data() + 12, h.l1_entries);
    store_be<uint64_t>(out.data() + 16, h.l1_offset);
    return out;
}

base::Bytes encode_refcount_table_fields(const Header& h) {
    base::Bytes out(12);
    store_be<uint64_t>(out.data(), h.refcount_table_offset);
    store_be<uint32_t>(out.data() + 8, h.refcount_table_clusters);
    return out;
}

namespace {

// The first sectors of an image: fixed fields, backing format, backing name.
base::Bytes encode_header(const Header& h) {
    base::Bytes out(kHeaderLength);
    store_be<uint32_t>(out.data(), kMagic);
    store_be<uint32_t>(out.data() + 4, 3);
    store_be<uint32_t>(out.data() + 20, h.geometry.cluster_bits);
    std::ranges::copy(encode_size_fields(h), out.data() + kSizePosition);
    std::ranges::copy(encode_refcount_table_fields(h), out.data() + kRefcountTablePosition);
    store_be<uint32_t>(out.data() + 96, 4);
    store_be<uint32_t>(out.data() + 100, kHeaderLength);
    if (h.backing) {
        const std::string_view format = h.backing->format == ImageFormat::kRaw ? "raw" : "qcow2";
        out.resize(out.size() + 16);
        store_be<uint32_t>(out.data() + kHeaderLength, kExtensionBackingFormat);
        store_be<uint32_t>(out.data() + kHeaderLength + 4, static_cast<uint32_t>(format.size()));
        std::ranges::copy(format, out.data() + kHeaderLength + 8);
    }
    out.resize(out.size() + 8);  // end of extensions
    if (h.backing) {
        store_be<uint64_t>(out.data() + 8, out.size());
        store_be<uint32_t>(out.data() + 16, static_cast<uint32_t>(h.backing->path.size()));
        out.insert(out.end(), h.backing->path.begin(), h.backing->path.end());
    }
    out.resize((out.size() + kSector - 1) / kSector * kSector);
    return out;
}

Result<void> check_create(const Qcow2CreateOptions& options, const Geometry& g) {
    const auto bad = [](std::string why) {
        return make_error(ErrorCode::kInvalidArgument, "cannot make a qcow2 image: {}", why);
    };
    if (options.cluster_bits < kMinClusterBits || options.cluster_bits > kMaxClusterBits)
        return bad(fmt::format("clusters of 2^{} bytes are not allowed", options.cluster_bits));
    if (options.virtual_size % kSector != 0 || options.virtual_size > kMaxVirtualSize)
        return bad(
            fmt::format("a size of {} bytes is not a multiple of 512 up to 64 TiB", options.virtual_size));
    if (g.l1_entries(options.virtual_size) * 8 > kMaxL1Bytes)
        return bad(fmt::format("{} bytes need larger clusters than 2^{}", options.virtual_size,
                               options.cluster_bits));
    if (!options.backing) return {};
    TRY(check_backing_path(options.backing->path));
    if (kHeaderLength + 24 + options.backing->path.size() > g.cluster_size())
        return bad("the name of the backing file does not fit into the first cluster");
    return {};
}

// Clusters of a refcount table that serves a file with every cluster of the disk in use.
uint64_t refcount_table_clusters(const Geometry& g, uint64_t virtual_size, uint64_t l1_clusters) {
    const uint64_t most =
        std::min(g.clusters(virtual_size) + g.l1_entries(virtual_size) + l1_clusters + 16, kMaxFileClusters);
    const uint64_t blocks = most / (g.block_entries() - 1) + 2;
    return g.clusters(std::min(blocks * 8, kMaxRefcountTableBytes));
}

}  // namespace

Result<void> write_new_image(BlockIo& io, const Qcow2CreateOptions& options) {
    Header h;
    Geometry& g = h.geometry;
    g.cluster_bits = options.cluster_bits;
    TRY(check_create(options, g));
    h.virtual_size = options.virtual_size;
    h.backing = options.backing;
    h.l1_entries = static_cast<uint32_t>(std::max<uint64_t>(g.l1_entries(h.virtual_size), 1));

    // Header, refcount table, refcount blocks for all this, L1 table.
    const uint64_t l1_clusters = g.clusters(uint64_t{h.l1_entries} * 8);
    h.refcount_table_clusters =
        static_cast<uint32_t>(refcount_table_clusters(g, h.virtual_size, l1_clusters));
    const uint64_t others = 1 + h.refcount_table_clusters + l1_clusters;
    const uint64_t blocks = others / (g.block_entries() - 1) + 1;
    const uint64_t first_block = 1 + h.refcount_table_clusters;
    h.refcount_table_offset = g.cluster_size();
    h.l1_offset = (first_block + blocks) << g.cluster_bits;

    base::Bytes table(blocks * 8);
    for (uint64_t i = 0; i < blocks; ++i)
        store_be<uint64_t>(&table[i * 8], (first_block + i) << g.cluster_bits);
    base::Bytes counts((others + blocks) * 2);
    for (uint64_t i = 0; i < others + blocks; ++i) store_be<uint16_t>(&counts[i * 2], 1);

    TRY(io.write((h.l1_offset + (l1_clusters << g.cluster_bits)) - kSector,
                 base::Bytes(kSector)));  // the file's end
    TRY(io.write(h.refcount_table_offset, table));
    TRY(io.write(first_block << g.cluster_bits, counts));
    TRY(io.write(0, encode_header(h)));
    if (options.durable) TRY(io.sync());
    return {};
}

}  // namespace boxlite::disk::qcow2
