// qcow2 version 3 disk images: sparse, growable, copy-on-write over a read-only backing file. Format:
// the qcow2 specification in QEMU's docs/interop/qcow2.txt.
//
// Crash safety. The image file is never inconsistent, whatever subset of the writes since the last sync
// reached the disk. Changes collect in memory; flush() writes them out in this order:
//   1. data of new clusters, refcounts that rise, new L2 tables (nothing refers to any of them yet)
//   2. sync, only when step 1 wrote something that step 3 will refer to
//   3. L2 entries and L1 entries
//   4. sync, only when something was written since the last one
//   5. refcounts that fall and holes punched for clusters that step 3 let go: these are not reused before
// So a cluster is counted before it is referred to, and is not referred to when its count falls. A new
// refcount block is written and synced before the refcount table names it; a table that moves is written
// and synced before the header names it. A crash between 1 and 3 or 3 and 5 can leave clusters that are
// counted and unused; the next open for writing frees them.
//
// Memory: at most 2 MiB of L2 tables, 1 bit per cluster of the file, the L1 and refcount tables.
//
// Refused, with the reason: version 2, encryption, compressed clusters, external data files, internal
// snapshots (for writing), persistent bitmaps (for writing), images marked dirty or corrupt, unknown
// incompatible features, refcounts of other than 16 bits, tables outside the file or on top of each
// other, more than 64 TiB of disk or 2^28 clusters of file.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "disk/block_backend.h"
#include "disk/block_io.h"

namespace boxlite::disk {

enum class ImageFormat { kRaw, kQcow2 };

struct Backing {
    std::string path;  // absolute, or relative to the folder of the image that names it
    ImageFormat format = ImageFormat::kRaw;
};

struct Qcow2CreateOptions {
    uint64_t virtual_size = 0;  // bytes; a multiple of 512
    std::optional<Backing> backing;
    unsigned cluster_bits = 16;  // 9..21
    // false: the file survives a crash of the host only after the first flush() through open().
    bool durable = true;
};

struct Qcow2OpenOptions {
    bool read_only = false;
    // Folders that backing files may be in, at any depth and not through symbolic links. A backing file
    // elsewhere, or one that is not named by a plain path with a recorded format, is refused.
    std::vector<std::string> backing_dirs;
};

// What the header of an image says.
struct Qcow2Info {
    uint64_t virtual_size = 0;
    std::optional<Backing> backing;
};
// Without opening the image, which may be in use.
Result<Qcow2Info> qcow2_info(const std::string& path);

inline constexpr unsigned kMaxBackingDepth = 32;

class Qcow2 final : public BlockBackend {
  public:
    // Makes a new image; kAlreadyExists when there is something at `path`. Does not open the backing file.
    static Result<void> create(const std::string& path, const Qcow2CreateOptions& options);

    // Opens an image with its whole chain. Formats come from the header of the image above, never from
    // content. Opening for writing checks all tables and frees what a crash left behind.
    static Result<std::unique_ptr<Qcow2>> open(const std::string& path, const Qcow2OpenOptions& options);

    // The same on an already opened file; relative backing names start at `folder`.
    static Result<std::unique_ptr<Qcow2>> open_on(std::unique_ptr<BlockIo> io, const std::string& folder,
                                                  const Qcow2OpenOptions& options);

    // Flushes; an error is only logged. Call close() to see it.
    ~Qcow2() override;

    Result<void> readv(uint64_t offset, std::span<const iovec> into) override;
    Result<void> writev(uint64_t offset, std::span<const iovec> from) override;
    // Whole clusters are freed and read as zeroes.
    Result<void> discard(uint64_t offset, uint64_t length) override;
    Result<void> write_zeroes(uint64_t offset, uint64_t length) override;
    Result<void> flush() override;
    Result<Run> run_at(uint64_t offset, uint64_t length) override;
    uint64_t size() const override;
    bool read_only() const override;

    // Makes the disk larger, durably; new bytes read as zeroes. Smaller is kInvalidArgument.
    Result<void> grow(uint64_t new_size);

    // Bytes of host storage that this image takes, without its backing files.
    Result<uint64_t> allocated_size();

    // flush() and no further use: every later call fails with kInvalidState.
    Result<void> close();

    // What the header names; nullopt when there is none.
    const std::optional<Backing>& backing() const;

  private:
    struct State;
    explicit Qcow2(std::unique_ptr<State> state);
    static Result<std::unique_ptr<Qcow2>> open_image(std::unique_ptr<BlockIo> io, const std::string& name,
                                                     const std::string& folder,
                                                     const Qcow2OpenOptions& options);
    std::unique_ptr<State> state_;
};

}  // namespace boxlite::disk
