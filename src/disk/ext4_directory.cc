#include "disk/ext4_directory.h"

#include <algorithm>
#include <cstring>
#include <tuple>

#include "base/bytes.h"
#include "disk/ext4_format.h"

namespace boxlite::disk {

namespace {

constexpr size_t kTailSize = sizeof(ext2_dir_entry_tail);
constexpr size_t kRoom = kExt4BlockSize - kTailSize;
// A fifth of each leaf stays free, so that the first names added by the guest split nothing.
constexpr size_t kLeafFill = kRoom - kRoom / 5;

// Index entries are 8 bytes; the first one's hash holds the counts and the last place the checksum.
constexpr size_t kRootOffset = 32;
constexpr size_t kNodeOffset = 8;
constexpr size_t kRootLimit = (kExt4BlockSize - kRootOffset) / 8 - 1;
constexpr size_t kNodeLimit = (kExt4BlockSize - kNodeOffset) / 8 - 1;

size_t entry_size(std::string_view name) {
    return (8 + name.size() + 3) & ~size_t{3};
}

void put_entry(uint8_t* at, Ino ino, std::string_view name, uint8_t type, size_t length) {
    base::store_le<uint32_t>(at, ino);
    base::store_le<uint16_t>(at + 4, static_cast<uint16_t>(length));
    at[6] = static_cast<uint8_t>(name.size());
    at[7] = type;
    std::memcpy(at + 8, name.data(), name.size());
}

// Fills one block of entries; the last one reaches to the checksum.
class LeafWriter {
  public:
    LeafWriter(ext2_filsys fs, DirectoryBlock& block) : block_(block) {
        block_.fill(0);
        ext2fs_initialize_dirent_tail(fs, reinterpret_cast<ext2_dir_entry_tail*>(block_.data() + kRoom));
    }
    bool fits(std::string_view name, size_t fill) const { return used_ + entry_size(name) <= fill; }
    void add(Ino ino, std::string_view name, uint8_t type) {
        last_ = used_;
        used_ += entry_size(name);
        put_entry(block_.data() + last_, ino, name, type, entry_size(name));
    }
    void close() {
        base::store_le<uint16_t>(block_.data() + last_ + 4, static_cast<uint16_t>(kRoom - last_));
    }

  private:
    DirectoryBlock& block_;
    size_t used_ = 0;
    size_t last_ = 0;
};

struct HashedEntry {
    uint32_t hash;
    uint32_t minor;
    const NamedInode* entry;
};

struct IndexEntry {
    uint32_t hash;
    uint32_t block;
};

Result<std::vector<HashedEntry>> hash_entries(ext2_filsys fs, const std::vector<NamedInode>& entries) {
    std::vector<HashedEntry> hashed;
    hashed.reserve(entries.size());
    for (const NamedInode& entry : entries) {
        HashedEntry item{0, 0, &entry};
        EXT4_TRY(fs, "hash a file name",
                 ext2fs_dirhash2(EXT2_HASH_HALF_MD4_UNSIGNED, entry.name.data(),
                                 static_cast<int>(entry.name.size()), nullptr, 0, fs->super->s_hash_seed,
                                 &item.hash, &item.minor));
        hashed.push_back(item);
    }
    std::sort(hashed.begin(), hashed.end(), [](const HashedEntry& a, const HashedEntry& b) {
        return std::tie(a.hash, a.minor, a.entry->name) < std::tie(b.hash, b.minor, b.entry->name);
    });
    return hashed;
}

// Leaves in hash order, appended to `blocks`; what an index over them says.
std::vector<IndexEntry> pack_leaves(ext2_filsys fs, const std::vector<HashedEntry>& hashed,
                                    std::vector<DirectoryBlock>& blocks) {
    std::vector<IndexEntry> index;
    for (size_t i = 0; i < hashed.size();) {
        uint32_t first_hash = i == 0 ? 0 : hashed[i].hash;
        // The low bit tells that names with this hash begin in the block before.
        if (i > 0 && hashed[i - 1].hash == first_hash) first_hash |= 1;
        index.push_back({first_hash, static_cast<uint32_t>(blocks.size())});
        LeafWriter leaf(fs, blocks.emplace_back());
        for (; i < hashed.size() && leaf.fits(hashed[i].entry->name, kLeafFill); ++i)
            leaf.add(hashed[i].entry->ino, hashed[i].entry->name, hashed[i].entry->type);
        leaf.close();
    }
    return index;
}

void put_index(DirectoryBlock& block, size_t offset, size_t limit, const IndexEntry* entries, size_t count) {
    uint8_t* at = block.data() + offset;
    for (size_t i = 0; i < count; ++i) {
        base::store_le<uint32_t>(at + 8 * i, entries[i].hash);
        base::store_le<uint32_t>(at + 8 * i + 4, entries[i].block);
    }
    base::store_le<uint16_t>(at, static_cast<uint16_t>(limit));
    base::store_le<uint16_t>(at + 2, static_cast<uint16_t>(count));
}

// An index block below the root looks like one unused entry that fills the block.
std::vector<IndexEntry> pack_nodes(const std::vector<IndexEntry>& leaves,
                                   std::vector<DirectoryBlock>& blocks) {
    std::vector<IndexEntry> index;
    for (size_t i = 0; i < leaves.size(); i += kNodeLimit) {
        index.push_back({leaves[i].hash, static_cast<uint32_t>(blocks.size())});
        DirectoryBlock& node = blocks.emplace_back();
        node.fill(0);
        base::store_le<uint16_t>(node.data() + 4, kExt4BlockSize);
        put_index(node, kNodeOffset, kNodeLimit, &leaves[i], std::min(kNodeLimit, leaves.size() - i));
    }
    return index;
}

DirectoryBlock index_root(Ino self, Ino parent, const std::vector<IndexEntry>& index, uint8_t levels) {
    DirectoryBlock root{};
    put_entry(root.data(), self, ".", EXT2_FT_DIR, 12);
    put_entry(root.data() + 12, parent, "..", EXT2_FT_DIR, kExt4BlockSize - 12);
    ext2_dx_root_info info{};
    info.hash_version = EXT2_HASH_HALF_MD4;
    info.info_length = sizeof info;
    info.indirect_levels = levels;
    std::memcpy(root.data() + 24, &info, sizeof info);
    put_index(root, kRootOffset, kRootLimit, index.data(), index.size());
    return root;
}

}  // namespace

Result<DirectoryContent> encode_directory(ext2_filsys fs, Ino self, Ino parent,
                                          const std::vector<NamedInode>& entries) {
    DirectoryContent content;
    size_t size = 24;  // "." and ".."
    for (const NamedInode& entry : entries) size += entry_size(entry.name);
    if (size <= kRoom) {
        LeafWriter leaf(fs, content.blocks.emplace_back());
        leaf.add(self, ".", EXT2_FT_DIR);
        leaf.add(parent, "..", EXT2_FT_DIR);
        for (const NamedInode& entry : entries) leaf.add(entry.ino, entry.name, entry.type);
        leaf.close();
        return content;
    }

    content.indexed = true;
    const std::vector<HashedEntry> hashed = TRY(hash_entries(fs, entries));
    content.blocks.emplace_back();  // the root, known last
    std::vector<IndexEntry> index = pack_leaves(fs, hashed, content.blocks);
    uint8_t levels = 0;
    if (index.size() > kRootLimit) {
        index = pack_nodes(index, content.blocks);
        levels = 1;
    }
    if (index.size() > kRootLimit)
        return base::make_error(ErrorCode::kResourceExhausted,
                                "a directory of {} entries is too large for ext4", entries.size());
    content.blocks[0] = index_root(self, parent, index, levels);
    return content;
}

}  // namespace boxlite::disk
