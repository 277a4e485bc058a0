#include "disk/ext4_testing.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "base/bytes.h"
#include "base/file.h"
#include "base/process.h"
#include "disk/ext4_library.h"

namespace boxlite::disk {

namespace {

class ContentHash {
  public:
    void update(const char* data, size_t size) {
        for (size_t i = 0; i < size; ++i) hash_ = (hash_ ^ static_cast<uint8_t>(data[i])) * 0x100000001b3ULL;
    }
    std::string finish() const { return fmt::format("{:016x}", hash_); }

  private:
    uint64_t hash_ = 0xcbf29ce484222325ULL;  // FNV-1a
};

// Files with holes of many GiB are compared by their first and last part.
constexpr uint64_t kHashedBytes = uint64_t{64} << 20;

Error library_error(const std::string& what, errcode_t code) {
    return base::make_error(ErrorCode::kStorage, "cannot {}: {}", what, error_message(code));
}

// The kernel shows "no id" where libext2fs shows 0: in all entries but those for a named user or group.
void show_acl_like_kernel(std::string& acl) {
    constexpr uint16_t kNamed = 0x02 | 0x08;
    for (size_t at = 4; at + 8 <= acl.size(); at += 8)
        if ((base::load_le<uint16_t>(&acl[at]) & kNamed) == 0) base::store_le<uint32_t>(&acl[at + 4], ~0U);
}

class ImageReader {
  public:
    static Result<ImageReader> open(const std::string& image) {
        ext2_filsys fs = nullptr;
        if (const errcode_t code = ext2fs_open(image.c_str(), EXT2_FLAG_64BITS, 0, 0, unix_io_manager, &fs))
            return library_error("open " + image, code);
        return ImageReader(FileSystem(fs));
    }
    Result<Tree> read() {
        TRY(add("/", EXT2_ROOT_INO));
        for (auto& [path, node] : tree_)
            if (!S_ISDIR(node.mode)) node.first_name = first_names_[inos_[path]];
        return std::move(tree_);
    }
    Result<std::string> file(const std::string& path) {
        ext2_ino_t ino = 0;
        if (const errcode_t code = ext2fs_namei(fs_.get(), EXT2_ROOT_INO, EXT2_ROOT_INO, path.c_str(), &ino))
            return library_error("find " + path, code);
        std::string content;
        TRY(for_each_chunk(ino, [&](const char* data, size_t size) { content.append(data, size); }));
        return content;
    }

  private:
    explicit ImageReader(FileSystem fs) : fs_(std::move(fs)) {}

    template <typename Consumer>
    Result<void> for_each_chunk(ext2_ino_t ino, Consumer consume) {
        ext2_file_t file = nullptr;
        if (const errcode_t code = ext2fs_file_open(fs_.get(), ino, 0, &file))
            return library_error("open", code);
        const std::unique_ptr<ext2_file, errcode_t (*)(ext2_file_t)> closer(file, ext2fs_file_close);
        __u64 size = 0;
        ext2fs_file_get_lsize(file, &size);
        buffer_.resize(size_t{1} << 20);
        uint64_t done = 0;
        while (done < size) {
            if (done == kHashedBytes && size > 2 * kHashedBytes) {
                done = size - kHashedBytes;
                ext2fs_file_llseek(file, done, EXT2_SEEK_SET, nullptr);
            }
            unsigned got = 0;
            if (const errcode_t code =
                    ext2fs_file_read(file, buffer_.data(), static_cast<unsigned>(buffer_.size()), &got))
                return library_error("read a file", code);
            if (got == 0) break;
            consume(buffer_.data(), got);
            done += got;
        }
        return {};
    }

    Result<void> read_xattrs(ext2_ino_t ino, TreeNode& node) {
        ext2_xattr_handle* handle = nullptr;
        if (const errcode_t code = ext2fs_xattrs_open(fs_.get(), ino, &handle))
            return library_error("open", code);
        const auto close = [](ext2_xattr_handle* h) { ext2fs_xattrs_close(&h); };
        const std::unique_ptr<ext2_xattr_handle, decltype(close)> closer(handle, close);
        if (const errcode_t code = ext2fs_xattrs_read(handle)) return library_error("read xattrs", code);
        std::vector<std::string> names;
        ext2fs_xattrs_iterate(
            handle,
            [](char* name, char*, size_t, void* data) {
                static_cast<std::vector<std::string>*>(data)->emplace_back(name);
                return 0;
            },
            &names);
        for (const std::string& name : names) {
            void* value = nullptr;
            size_t size = 0;
            if (const errcode_t code = ext2fs_xattr_get(handle, name.c_str(), &value, &size))
                return library_error("read xattr " + name, code);
            node.xattrs[name] = std::string(static_cast<char*>(value), size);
            ext2fs_free_mem(&value);
            if (name.starts_with("system.posix_acl_")) show_acl_like_kernel(node.xattrs[name]);
        }
        return {};
    }

    Result<void> add(const std::string& path, ext2_ino_t ino) {
        ext2_inode_large inode{};
        if (const errcode_t code = ext2fs_read_inode_full(fs_.get(), ino, EXT2_INODE(&inode), sizeof inode))
            return library_error("read the inode of " + path, code);
        TreeNode node;
        node.mode = inode.i_mode;
        node.uid = inode_uid(inode);
        node.gid = inode_gid(inode);
        node.allocated = ext2fs_inode_i_blocks(fs_.get(), EXT2_INODE(&inode)) * 512;
        const int64_t epoch = inode.i_mtime_extra & EXT4_EPOCH_MASK;
        node.mtime = {static_cast<int32_t>(inode.i_mtime) + (epoch << 32),
                      inode.i_mtime_extra >> EXT4_EPOCH_BITS};
        if (!S_ISDIR(inode.i_mode)) node.links = inode.i_links_count;
        if (S_ISREG(inode.i_mode) || S_ISLNK(inode.i_mode)) node.size = EXT2_I_SIZE(&inode);
        if (S_ISCHR(inode.i_mode) || S_ISBLK(inode.i_mode)) {
            const uint32_t device = inode.i_block[0] ? inode.i_block[0] : inode.i_block[1];
            node.major = device >> 8 & 0xfff;
            node.minor = (device & 0xff) | (device >> 12 & 0xfff00);
        }
        if (S_ISLNK(inode.i_mode)) {
            if (node.size < 60) {
                node.target.assign(reinterpret_cast<const char*>(inode.i_block), node.size);
            } else {
                TRY(for_each_chunk(ino,
                                   [&](const char* data, size_t size) { node.target.append(data, size); }));
            }
        }
        if (S_ISREG(inode.i_mode)) {
            ContentHash hash;
            TRY(for_each_chunk(ino, [&](const char* data, size_t size) { hash.update(data, size); }));
            node.content_hash = hash.finish();
        }
        TRY(read_xattrs(ino, node));
        tree_[path] = std::move(node);
        inos_[path] = ino;
        std::string& first = first_names_[ino];
        if (first.empty() || path < first) first = path;
        if (!S_ISDIR(inode.i_mode)) return {};

        std::vector<std::pair<std::string, ext2_ino_t>> children;
        ext2fs_dir_iterate(
            fs_.get(), ino, 0, nullptr,
            [](ext2_dir_entry* entry, int, int, char*, void* data) {
                std::string name(entry->name, static_cast<size_t>(ext2fs_dirent_name_len(entry)));
                if (name != "." && name != "..")
                    static_cast<decltype(children)*>(data)->emplace_back(std::move(name), entry->inode);
                return 0;
            },
            &children);
        for (const auto& [name, child] : children)
            TRY(add(path == "/" ? "/" + name : path + "/" + name, child));
        return {};
    }

    FileSystem fs_;
    std::vector<char> buffer_;
    Tree tree_;
    std::map<std::string, ext2_ino_t> inos_;
    std::map<ext2_ino_t, std::string> first_names_;
};

Result<TreeNode> host_node(const std::string& path) {
    struct stat st;
    if (::lstat(path.c_str(), &st) < 0) return base::errno_error(ErrorCode::kStorage, "stat {}", path);
    TreeNode node;
    node.mode = st.st_mode;
    node.uid = st.st_uid;
    node.gid = st.st_gid;
    node.mtime = {st.st_mtim.tv_sec, static_cast<uint32_t>(st.st_mtim.tv_nsec)};
    if (!S_ISDIR(st.st_mode)) node.links = st.st_nlink;
    if (S_ISREG(st.st_mode) || S_ISLNK(st.st_mode)) node.size = static_cast<uint64_t>(st.st_size);
    if (S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode)) {
        node.major = major(st.st_rdev);
        node.minor = minor(st.st_rdev);
    }
    if (S_ISLNK(st.st_mode)) {
        node.target.resize(node.size);
        if (::readlink(path.c_str(), node.target.data(), node.size) < 0)
            return base::errno_error(ErrorCode::kStorage, "read link {}", path);
    }
    if (S_ISREG(st.st_mode)) {
        ContentHash hash;
        const std::string content = TRY(base::read_file(path, size_t{1} << 30));
        hash.update(content.data(), content.size());
        node.content_hash = hash.finish();
    }
    std::vector<char> names(size_t{64} << 10);
    std::vector<char> value(size_t{64} << 10);
    const ssize_t size = ::llistxattr(path.c_str(), names.data(), names.size());
    for (const char* name = names.data(); name < names.data() + size; name += std::strlen(name) + 1) {
        const ssize_t length = ::lgetxattr(path.c_str(), name, value.data(), value.size());
        if (length >= 0) node.xattrs[name] = std::string(value.data(), static_cast<size_t>(length));
    }
    return node;
}

}  // namespace

std::string TreeNode::to_string() const {
    std::string text = fmt::format(
        "mode {:o} owner {}:{} size {} links {} mtime {}.{:09} device {}:{} target '{}' content {}", mode,
        uid, gid, size, links, mtime.seconds, mtime.nanoseconds, major, minor, target, content_hash);
    for (const auto& [name, value] : xattrs) {
        text += " " + name + "=";
        for (const char c : value) text += fmt::format("{:02x}", static_cast<uint8_t>(c));
    }
    return text + " same as " + first_name;
}

Result<Tree> read_image_tree(const std::string& image) {
    ImageReader reader = TRY(ImageReader::open(image));
    return reader.read();
}

Result<std::string> read_image_file(const std::string& image, const std::string& path) {
    ImageReader reader = TRY(ImageReader::open(image));
    return reader.file(path);
}

Result<Tree> read_host_tree(const std::string& root) {
    Tree tree;
    std::map<std::pair<dev_t, ino_t>, std::string> first_names;
    std::map<std::string, std::pair<dev_t, ino_t>> inos;
    const auto add = [&](const std::string& host_path, const std::string& path) -> Result<void> {
        tree[path] = TRY(host_node(host_path));
        struct stat st;
        if (::lstat(host_path.c_str(), &st) < 0)
            return base::errno_error(ErrorCode::kStorage, "stat {}", path);
        std::string& first = first_names[{st.st_dev, st.st_ino}];
        if (first.empty() || path < first) first = path;
        inos[path] = {st.st_dev, st.st_ino};
        return {};
    };
    TRY(add(root, "/"));
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root))
        TRY(add(entry.path().string(), entry.path().string().substr(root.size())));
    for (auto& [path, node] : tree)
        if (!S_ISDIR(node.mode)) node.first_name = first_names[inos[path]];
    return tree;
}

std::vector<std::string> compare_trees(const Tree& expected, const Tree& actual) {
    std::vector<std::string> differences;
    for (const auto& [path, node] : expected) {
        const auto found = actual.find(path);
        if (found == actual.end()) {
            differences.push_back("missing: " + path);
        } else if (node.to_string() != found->second.to_string()) {
            differences.push_back(fmt::format("{}:\n  expected {}\n  actual   {}", path, node.to_string(),
                                              found->second.to_string()));
        }
    }
    for (const auto& [path, node] : actual)
        if (!expected.contains(path)) differences.push_back("not expected: " + path + " " + node.to_string());
    return differences;
}

std::string check_image(const std::string& image) {
    const auto run = base::run_command({"e2fsck", "-fn", image});
    if (!run.ok()) return run.error().message;
    if (run->status.shell_code() == 0) return "";
    return fmt::format("e2fsck exit {}: {}{}", run->status.shell_code(), run->out, run->err);
}

}  // namespace boxlite::disk
