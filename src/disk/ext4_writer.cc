#include "disk/ext4_writer.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <deque>

#include "disk/ext4_blocks.h"
#include "disk/ext4_directory.h"
#include "disk/ext4_format.h"
#include "disk/ext4_inode.h"

namespace boxlite::disk {

namespace {

constexpr uint32_t kMaxLinks = 65000;
constexpr Ino kFirstIno = 11;
constexpr uint64_t kMaxTextBytes = uint64_t{512} << 20;
constexpr uint64_t kMaxFileBlocks = uint64_t{1} << 32;

// One file's content, cut into blocks.
struct OpenFile {
    Ino ino = 0;  // 0: none is open
    uint64_t size = 0;
    std::vector<uint8_t> partial;  // the block that `size` lies in
};

bool is_zero(const uint8_t* block) {
    uint64_t first = 0;
    std::memcpy(&first, block, sizeof first);
    return first == 0 && std::memcmp(block, block + sizeof first, kExt4BlockSize - sizeof first) == 0;
}

uint8_t entry_type(uint32_t mode) {
    switch (mode & S_IFMT) {
        case S_IFREG:
            return EXT2_FT_REG_FILE;
        case S_IFDIR:
            return EXT2_FT_DIR;
        case S_IFLNK:
            return EXT2_FT_SYMLINK;
        case S_IFCHR:
            return EXT2_FT_CHRDEV;
        case S_IFBLK:
            return EXT2_FT_BLKDEV;
        case S_IFIFO:
            return EXT2_FT_FIFO;
        case S_IFSOCK:
            return EXT2_FT_SOCK;
        default:
            return EXT2_FT_UNKNOWN;
    }
}

Result<void> check_name(std::string_view name) {
    const bool valid = !name.empty() && name.size() <= kMaxNameBytes && name != "." && name != ".." &&
                       name.find('/') == std::string_view::npos && name.find('\0') == std::string_view::npos;
    if (valid) return {};
    return base::make_error(
        ErrorCode::kInvalidArgument,
        "'{}' cannot be a file name: it is empty, '.', '..', longer than {} bytes or holds "
        "a '/' or NUL",
        name.substr(0, kMaxNameBytes), kMaxNameBytes);
}

}  // namespace

struct Ext4Writer::State {
    State(int fd, FileSystem&& file_system) : fs(std::move(file_system)), blocks(fd, fs.get()) {}

    Inode& inode(Ino ino) { return ino == kRootIno ? root : inodes[ino - kFirstIno]; }
    Result<Ino> add(Ino directory, std::string_view name, const Attributes& attributes, uint32_t type);
    Result<Ino> new_inode();
    Result<void> account(size_t name_bytes, const Xattrs* xattrs);
    void drop_name(Ino ino, std::vector<std::unique_ptr<DirectoryEntries>>& orphans);
    Result<void> write_blocks(std::span<const uint8_t> data);
    Result<void> store_run(uint64_t logical, std::span<const uint8_t> data);
    Result<void> write_directory(Ino ino);
    Result<void> write_all();
    void count_inode(Ino ino);

    FileSystem fs;
    uint64_t free_at_start = ext2fs_free_blocks_count(fs->super);
    BlockStore blocks;
    Inode root;
    std::deque<Inode> inodes;
    std::vector<Ino> free_inodes;
    uint64_t text_bytes = 0;  // of names and values ever taken
    OpenFile file;
};

Result<std::unique_ptr<Ext4Writer>> Ext4Writer::create(int fd, const Ext4Options& options) {
    auto state = std::make_unique<State>(fd, TRY(format_ext4(fd, options)));
    state->root.mode = S_IFDIR | 0755;
    state->root.parent = kRootIno;
    state->root.links = 2;
    state->root.mtime = state->root.atime = {options.timestamp, 0};
    state->root.entries = std::make_unique<DirectoryEntries>();
    return std::unique_ptr<Ext4Writer>(new Ext4Writer(std::move(state)));
}

Ext4Writer::Ext4Writer(std::unique_ptr<State> state) : state_(std::move(state)) {}
Ext4Writer::~Ext4Writer() = default;

DirectoryEntry* Ext4Writer::find(Ino directory, std::string_view name) {
    DirectoryEntries& entries = *state_->inode(directory).entries;
    const auto found = entries.find(name);
    return found == entries.end() ? nullptr : &found->second;
}
DirectoryEntry* Ext4Writer::entry_of(Ino directory) {
    return state_->inode(directory).entry;
}
const DirectoryEntries& Ext4Writer::entries(Ino directory) const {
    return *state_->inode(directory).entries;
}
uint32_t Ext4Writer::mode(Ino ino) const {
    return state_->inode(ino).mode;
}
bool Ext4Writer::is_directory(Ino ino) const {
    return S_ISDIR(mode(ino));
}
Ino Ext4Writer::parent(Ino directory) const {
    return state_->inode(directory).parent;
}
std::string_view Ext4Writer::symlink_target(Ino ino) const {
    const Inode& inode = state_->inode(ino);
    return inode.target ? std::string_view(*inode.target) : std::string_view();
}

// No real tree comes near the limit; a hostile one must not fill the memory.
Result<void> Ext4Writer::State::account(size_t name_bytes, const Xattrs* xattrs) {
    text_bytes += name_bytes;
    if (xattrs)
        for (const auto& [name, value] : *xattrs) text_bytes += name.size() + value.size();
    if (text_bytes <= kMaxTextBytes) return {};
    return base::make_error(ErrorCode::kResourceExhausted,
                            "names, link targets and extended attributes are larger than {} bytes together",
                            kMaxTextBytes);
}

Result<Ino> Ext4Writer::State::new_inode() {
    if (!free_inodes.empty()) {
        const Ino ino = free_inodes.back();
        free_inodes.pop_back();
        return ino;
    }
    if (inodes.size() + kFirstIno > fs->super->s_inodes_count)
        return ext4_error(fs.get(), "add a file", EXT2_ET_INODE_ALLOC_FAIL);
    inodes.emplace_back();
    return static_cast<Ino>(inodes.size() - 1 + kFirstIno);
}

Result<Ino> Ext4Writer::State::add(Ino directory, std::string_view name, const Attributes& attributes,
                                   uint32_t type) {
    TRY(check_name(name));
    DirectoryEntries& entries = *inode(directory).entries;
    if (entries.find(name) != entries.end())
        return base::make_error(ErrorCode::kAlreadyExists, "'{}' exists already", name);
    auto xattrs = TRY(check_xattrs(attributes.xattrs));
    TRY(account(name.size(), xattrs.get()));
    const Ino ino = TRY(new_inode());
    Inode& made = inode(ino);
    made = Inode{};
    made.mode = type | (attributes.mode & 07777);
    made.uid = attributes.uid;
    made.gid = attributes.gid;
    made.mtime = attributes.mtime;
    made.atime = attributes.atime;
    made.xattrs = std::move(xattrs);
    made.links = 1;
    entries.emplace(std::string(name), DirectoryEntry{ino, 0});
    return ino;
}

Result<Ino> Ext4Writer::add_directory(Ino directory, std::string_view name, const Attributes& attributes) {
    const Ino ino = TRY(state_->add(directory, name, attributes, S_IFDIR));
    Inode& made = state_->inode(ino);
    made.links = 2;
    made.parent = directory;
    made.entry = find(directory, name);
    made.entries = std::make_unique<DirectoryEntries>();
    ++state_->inode(directory).links;
    return ino;
}

Result<Ino> Ext4Writer::add_symlink(Ino directory, std::string_view name, const Attributes& attributes,
                                    std::string_view target) {
    if (target.empty() || target.size() > kMaxSymlinkBytes || target.find('\0') != std::string_view::npos)
        return base::make_error(
            ErrorCode::kInvalidArgument,
            "the target of symbolic link '{}' is empty, longer than {} bytes or holds a NUL", name,
            kMaxSymlinkBytes);
    TRY(state_->account(target.size(), nullptr));
    const Ino ino = TRY(state_->add(directory, name, attributes, S_IFLNK));
    Inode& made = state_->inode(ino);
    made.target = std::make_unique<std::string>(target);
    made.size = target.size();
    if (made.is_fast_symlink()) return ino;
    const BlockRun run = TRY(state_->blocks.allocate(1));
    state_->inode(ino).add_extent({0, run.start, 1});
    std::vector<uint8_t> block(kExt4BlockSize, 0);
    std::memcpy(block.data(), target.data(), target.size());
    TRY(state_->blocks.write(run.start, block));
    return ino;
}

Result<Ino> Ext4Writer::add_special(Ino directory, std::string_view name, const Attributes& attributes,
                                    uint32_t major, uint32_t minor) {
    const uint32_t type = attributes.mode & S_IFMT;
    const bool device = type == S_IFCHR || type == S_IFBLK;
    if (!device && type != S_IFIFO && type != S_IFSOCK)
        return base::make_error(ErrorCode::kInvalidArgument, "'{}' is not a device, fifo or socket", name);
    if (device && (major > 0xfff || minor > 0xfffff))
        return base::make_error(ErrorCode::kInvalidArgument, "device '{}' has the impossible number {}:{}",
                                name, major, minor);
    const Ino ino = TRY(state_->add(directory, name, attributes, type));
    if (device) state_->inode(ino).device = (minor & 0xff) | major << 8 | (minor & ~0xffU) << 12;
    return ino;
}

Result<Ino> Ext4Writer::begin_file(Ino directory, std::string_view name, const Attributes& attributes) {
    const Ino ino = TRY(state_->add(directory, name, attributes, S_IFREG));
    state_->file.ino = ino;
    state_->file.size = 0;
    state_->file.partial.clear();
    return ino;
}

// `data` is not zero and starts at block `logical` of the open file.
Result<void> Ext4Writer::State::store_run(uint64_t logical, std::span<const uint8_t> data) {
    while (!data.empty()) {
        const BlockRun run = TRY(blocks.allocate(data.size() / kExt4BlockSize));
        inode(file.ino).add_extent({logical, run.start, run.count});
        const size_t bytes = run.count * kExt4BlockSize;
        TRY(blocks.write(run.start, data.first(bytes)));
        logical += run.count;
        data = data.subspan(bytes);
    }
    return {};
}

// `data` is whole blocks, and the open file's size is at a block's start.
Result<void> Ext4Writer::State::write_blocks(std::span<const uint8_t> data) {
    while (!data.empty()) {
        size_t length = 0;
        const bool hole = is_zero(data.data());
        while (length < data.size() && is_zero(data.data() + length) == hole) length += kExt4BlockSize;
        if (!hole) TRY(store_run(file.size / kExt4BlockSize, data.first(length)));
        file.size += length;
        data = data.subspan(length);
    }
    return {};
}

Result<void> Ext4Writer::append(std::span<const uint8_t> data) {
    OpenFile& file = state_->file;
    if ((file.size + file.partial.size() + data.size()) / kExt4BlockSize >= kMaxFileBlocks)
        return base::make_error(ErrorCode::kInvalidArgument, "a file is larger than ext4's 16 TiB");
    if (!file.partial.empty()) {
        const size_t taken = std::min(data.size(), kExt4BlockSize - file.partial.size());
        file.partial.insert(file.partial.end(), data.begin(), data.begin() + static_cast<ptrdiff_t>(taken));
        data = data.subspan(taken);
        if (file.partial.size() < kExt4BlockSize) return {};
        TRY(state_->write_blocks(file.partial));
        file.partial.clear();
    }
    const size_t whole = data.size() - data.size() % kExt4BlockSize;
    TRY(state_->write_blocks(data.first(whole)));
    file.partial.assign(data.begin() + static_cast<ptrdiff_t>(whole), data.end());
    return {};
}

Result<void> Ext4Writer::append_hole(uint64_t length) {
    OpenFile& file = state_->file;
    static constexpr std::array<uint8_t, kExt4BlockSize> kZeroes{};
    if (length > kMaxFileBlocks * kExt4BlockSize)
        return base::make_error(ErrorCode::kInvalidArgument, "a file is larger than ext4's 16 TiB");
    if (!file.partial.empty()) {
        const uint64_t taken = std::min<uint64_t>(length, kExt4BlockSize - file.partial.size());
        TRY(append(std::span(kZeroes).first(taken)));
        length -= taken;
    }
    const uint64_t whole = length - length % kExt4BlockSize;
    if ((file.size + whole) / kExt4BlockSize >= kMaxFileBlocks)
        return base::make_error(ErrorCode::kInvalidArgument, "a file is larger than ext4's 16 TiB");
    file.size += whole;
    return append(std::span(kZeroes).first(length - whole));
}

Result<void> Ext4Writer::end_file() {
    OpenFile& file = state_->file;
    const uint64_t size = file.size + file.partial.size();
    if (!file.partial.empty()) {
        file.partial.resize(kExt4BlockSize, 0);
        TRY(state_->write_blocks(file.partial));
        file.partial.clear();
    }
    state_->inode(file.ino).size = size;
    file.ino = 0;
    return {};
}

Result<void> Ext4Writer::add_link(Ino directory, std::string_view name, Ino ino) {
    TRY(check_name(name));
    Inode& inode = state_->inode(ino);
    if (S_ISDIR(inode.mode))
        return base::make_error(ErrorCode::kInvalidArgument, "hard link '{}' to a directory", name);
    if (inode.links >= kMaxLinks)
        return base::make_error(ErrorCode::kResourceExhausted,
                                "hard link '{}': the file has {} names, ext4's limit", name, kMaxLinks);
    if (!state_->inode(directory).entries->emplace(std::string(name), DirectoryEntry{ino, 0}).second)
        return base::make_error(ErrorCode::kAlreadyExists, "'{}' exists already", name);
    ++inode.links;
    return state_->account(name.size(), nullptr);
}

Result<void> Ext4Writer::set_attributes(Ino ino, const Attributes& attributes) {
    Inode& inode = state_->inode(ino);
    auto xattrs = TRY(check_xattrs(attributes.xattrs));
    TRY(state_->account(0, xattrs.get()));
    inode.xattrs = std::move(xattrs);
    inode.mode = (inode.mode & S_IFMT) | (attributes.mode & 07777);
    inode.uid = attributes.uid;
    inode.gid = attributes.gid;
    inode.mtime = attributes.mtime;
    inode.atime = attributes.atime;
    return {};
}

// Takes one name from an inode. A directory's entries go to `orphans`: their names must follow.
void Ext4Writer::State::drop_name(Ino ino, std::vector<std::unique_ptr<DirectoryEntries>>& orphans) {
    Inode& gone = inode(ino);
    if (gone.entries) {
        if (Inode& above = inode(gone.parent); above.mode != 0) --above.links;
        orphans.push_back(std::move(gone.entries));
        gone.links = 0;
    } else {
        --gone.links;
    }
    if (gone.links > 0) return;
    for (const FileExtent& extent : gone.extents) blocks.release({extent.physical, extent.count});
    gone = Inode{};
    free_inodes.push_back(ino);
}

Result<void> Ext4Writer::remove(Ino directory, std::string_view name) {
    DirectoryEntries& entries = *state_->inode(directory).entries;
    const auto found = entries.find(name);
    if (found == entries.end())
        return base::make_error(ErrorCode::kNotFound, "cannot remove '{}': there is no such name", name);
    const Ino ino = found->second.ino;
    entries.erase(found);
    // A list instead of recursion: the depth of a tree is not ours to choose.
    std::vector<std::unique_ptr<DirectoryEntries>> orphans;
    state_->drop_name(ino, orphans);
    while (!orphans.empty()) {
        const auto children = std::move(orphans.back());
        orphans.pop_back();
        for (const auto& [child, entry] : *children) state_->drop_name(entry.ino, orphans);
    }
    return {};
}

Result<void> Ext4Writer::State::write_directory(Ino ino) {
    Inode& directory = inode(ino);
    std::vector<NamedInode> names;
    names.reserve(directory.entries->size());
    for (const auto& [name, entry] : *directory.entries)
        names.push_back({name, entry.ino, entry_type(inode(entry.ino).mode)});
    DirectoryContent content = TRY(encode_directory(fs.get(), ino, directory.parent, names));
    directory.indexed = content.indexed;
    directory.size = content.blocks.size() * kExt4BlockSize;
    if (directory.links > kMaxLinks) directory.links = 1;  // dir_nlink: "more than can be counted"
    for (size_t done = 0; done < content.blocks.size();) {
        const BlockRun run = TRY(blocks.allocate(content.blocks.size() - done));
        directory.add_extent({done, run.start, run.count});
        for (uint64_t i = 0; i < run.count; ++i, ++done) {
            DirectoryBlock& block = content.blocks[done];
            EXT4_TRY(
                fs.get(), "write a directory",
                ext2fs_dir_block_csum_set(fs.get(), ino, reinterpret_cast<ext2_dir_entry*>(block.data())));
            TRY(blocks.write(run.start + i, block));
        }
    }
    return {};
}

void Ext4Writer::State::count_inode(Ino ino) {
    ext2fs_inode_alloc_stats2(fs.get(), ino, +1, S_ISDIR(inode(ino).mode));
}

Result<void> Ext4Writer::State::write_all() {
    TRY(write_directory(kRootIno));
    TRY(write_inode(fs.get(), kRootIno, root));
    for (size_t i = 0; i < inodes.size(); ++i) {
        const auto ino = static_cast<Ino>(i + kFirstIno);
        if (inodes[i].mode == 0) continue;
        count_inode(ino);
        if (inodes[i].entries) TRY(write_directory(ino));
        TRY(write_inode(fs.get(), ino, inodes[i]));
    }
    TRY(blocks.finish());
    EXT4_TRY(fs.get(), "write the file system", ext2fs_set_gdt_csum(fs.get()));
    fs->super->s_state |= EXT2_VALID_FS;
    ext2fs_mark_super_dirty(fs.get());
    EXT4_TRY(fs.get(), "write the file system", ext2fs_flush2(fs.get(), EXT2_FLAG_FLUSH_NO_SYNC));
    EXT4_TRY(fs.get(), "write the file system", io_channel_flush(fs->io));
    return {};
}

Result<Ext4Summary> Ext4Writer::finish() {
    TRY(state_->write_all());
    Ext4Summary summary;
    summary.inodes = 1 + state_->inodes.size() - state_->free_inodes.size();
    summary.used_bytes =
        (state_->free_at_start - ext2fs_free_blocks_count(state_->fs->super)) * kExt4BlockSize;
    return summary;
}

}  // namespace boxlite::disk
