// Whole-file operations, directories and locks.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/fd.h"

namespace boxlite::base {

Result<std::string> read_file(const std::string& path, size_t limit = size_t{64} << 20);

// Readers see the old content or the new, also after a crash: temporary file, fsync, rename, fsync of
// the directory.
Result<void> write_file_atomically(const std::string& path, ByteView content, mode_t mode = 0644);

// mkdir -p. Existing directories keep their mode.
Result<void> make_directories(const std::string& path, mode_t mode = 0755);

// Removes a file or a tree without following symbolic links. A missing path is success.
Result<void> remove_tree(const std::string& path);

bool path_exists(const std::string& path);

// fsync of a directory: makes renames and new names in it durable.
Result<void> sync_directory(const std::string& path);

// A directory of its own name under `parent`, removed with its content when the object goes.
class TempDir {
  public:
    // `parent` empty: $TMPDIR, else /tmp.
    static Result<TempDir> make(const std::string& parent = "");
    TempDir(TempDir&& other) noexcept : path_(std::exchange(other.path_, {})) {}
    TempDir& operator=(TempDir&&) = delete;
    ~TempDir();
    const std::string& path() const { return path_; }

  private:
    explicit TempDir(std::string path) : path_(std::move(path)) {}
    std::string path_;
};

// An flock() on a file that is created when missing. Held until the object goes or the process ends.
class FileLock {
  public:
    // Waits until the lock is free.
    static Result<FileLock> acquire(const std::string& path);
    // Shared with other holders of this kind; waits while somebody has it alone.
    static Result<FileLock> acquire_shared(const std::string& path);
    // Fails with kInvalidState at once when another holder has it.
    static Result<FileLock> try_acquire(const std::string& path);
    int fd() const { return fd_.get(); }

  private:
    explicit FileLock(Fd fd) : fd_(std::move(fd)) {}
    Fd fd_;
};

}  // namespace boxlite::base
