// Builds an ext4 file system in a plain file: as an ordinary user, without mounting it, without e2fsprogs'
// programs. Inodes are kept in memory until finish(), about 300 bytes each; names, targets of links and
// extended attributes too, 512 MiB at most; file content goes to the image as it comes, in large sequential
// writes. The same calls with the same options give the same bytes. Layout: ext4 as Linux 4.9 and
// e2fsprogs 1.43 read it; the file stays sparse. Not thread safe.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace boxlite::disk {

struct Ext4Options {
    uint64_t size = uint64_t{10} << 30;  // bytes, as the guest sees it
    std::array<uint8_t, 16> uuid{};
    std::array<uint8_t, 16> hash_seed{};  // of directory indexes
    int64_t timestamp = 1;                // seconds since the epoch: creation of the file system and inodes
    std::string label;                    // at most 16 bytes
};

using Ino = uint32_t;
inline constexpr Ino kRootIno = 2;
inline constexpr size_t kMaxNameBytes = 255;
inline constexpr size_t kMaxSymlinkBytes = 4095;

struct FileTime {
    int64_t seconds = 0;  // since the epoch; clamped to what ext4 can store (1901 to 2446)
    uint32_t nanoseconds = 0;
};

using Xattrs = std::vector<std::pair<std::string, std::string>>;  // full name ("user.x") and value

struct Attributes {
    uint32_t mode = 0;  // file type and permissions, as in st_mode
    uint32_t uid = 0;
    uint32_t gid = 0;
    FileTime mtime;
    FileTime atime;
    // "user.", "trusted.", "security." and the two "system.posix_acl_*", the latter as getxattr(2) gives
    // them.
    Xattrs xattrs;
};

struct DirectoryEntry {
    Ino ino = 0;
    uint32_t tag = 0;  // the caller's, not stored
};
using DirectoryEntries = std::map<std::string, DirectoryEntry, std::less<>>;

struct Ext4Summary {
    uint64_t inodes = 0;      // files, directories and everything else that has an inode
    uint64_t used_bytes = 0;  // taken from the space that the empty file system had
};

class Ext4Writer {
  public:
    // `fd` is an empty regular file open for reading and writing. It stays the caller's and must outlive the
    // writer. The root directory exists and is root's, mode 0755.
    static Result<std::unique_ptr<Ext4Writer>> create(int fd, const Ext4Options& options);
    ~Ext4Writer();
    Ext4Writer(const Ext4Writer&) = delete;
    Ext4Writer& operator=(const Ext4Writer&) = delete;

    // nullptr when `directory` has no such name. Valid until the entry is removed. Only the tag may be
    // changed.
    DirectoryEntry* find(Ino directory, std::string_view name);
    DirectoryEntry* entry_of(Ino directory);  // nullptr for the root
    const DirectoryEntries& entries(Ino directory) const;
    uint32_t mode(Ino ino) const;
    bool is_directory(Ino ino) const;
    Ino parent(Ino directory) const;  // the root is its own parent
    std::string_view symlink_target(Ino ino) const;

    // Each makes one name. kInvalidArgument for names and values that ext4 cannot hold, kAlreadyExists when
    // the name is taken, kResourceExhausted when the file system is full, kStorage when the host fails.
    Result<Ino> add_directory(Ino directory, std::string_view name, const Attributes& attributes);
    Result<Ino> add_symlink(Ino directory, std::string_view name, const Attributes& attributes,
                            std::string_view target);
    // Character and block devices, fifos and sockets; the numbers matter only for devices.
    Result<Ino> add_special(Ino directory, std::string_view name, const Attributes& attributes,
                            uint32_t major, uint32_t minor);
    // A regular file, then its content in order, then end_file(). One file at a time; other calls wait for
    // end_file(). Aligned zero blocks become holes.
    Result<Ino> begin_file(Ino directory, std::string_view name, const Attributes& attributes);
    Result<void> append(std::span<const uint8_t> data);
    Result<void> append_hole(uint64_t length);
    Result<void> end_file();
    // One more name for an inode that is not a directory.
    Result<void> add_link(Ino directory, std::string_view name, Ino ino);

    // Replaces everything but the file type.
    Result<void> set_attributes(Ino ino, const Attributes& attributes);
    // Removes a name and, for a directory, all that is below it.
    Result<void> remove(Ino directory, std::string_view name);

    // Writes all that is still in memory. The caller syncs the file. Nothing but destruction may follow, also
    // after an error.
    Result<Ext4Summary> finish();

  private:
    struct State;
    explicit Ext4Writer(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
};

}  // namespace boxlite::disk
