// Reads tar archives as layers hold them: ustar, GNU (long names, sparse files) and PAX, with extended
// attributes. Written for hostile input: every number is checked, names are passed on byte for byte, and
// where a PAX record and the header disagree about a size the record counts for both the entry and the place
// of the next header (CVE-2025-62518). Follows POSIX.1-2017 pax, "ustar Interchange Format", and GNU tar's
// description of its formats. Not thread safe.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "disk/ext4_writer.h"

namespace boxlite::image {

// Bytes in pieces of any size.
class ChunkSource {
  public:
    virtual ~ChunkSource() = default;
    // Empty at the end. Valid until the next call.
    virtual Result<std::span<const uint8_t>> next() = 0;
};

enum class TarType { kFile, kHardLink, kSymlink, kCharDevice, kBlockDevice, kDirectory, kFifo };

struct TarEntry {
    TarType type = TarType::kFile;
    std::string path;   // as in the archive, unchecked
    std::string link;   // of hard and symbolic links
    uint32_t mode = 0;  // permissions
    uint32_t uid = 0;
    uint32_t gid = 0;
    uint32_t major = 0;
    uint32_t minor = 0;
    uint64_t size = 0;  // of a file, holes included
    disk::FileTime mtime;
    disk::FileTime atime;  // the same as mtime when the archive has none
    disk::Xattrs xattrs;
};

// A piece of a file: data, or that many bytes of hole, or neither at the end.
struct TarPiece {
    std::span<const uint8_t> data;
    uint64_t hole = 0;
    bool at_end() const { return data.empty() && hole == 0; }
};

class TarReader {
  public:
    // `source` must outlive the reader.
    explicit TarReader(ChunkSource& source) : source_(source) {}

    // The next entry, skipping what is left of the one before; false at the archive's end. kImage when the
    // archive is damaged or asks for something impossible.
    Result<bool> next(TarEntry& entry);
    // The content of the current file, in order. Valid until the next call.
    Result<TarPiece> read();

  private:
    struct Header;
    struct Extensions;
    struct Segment {
        uint64_t offset = 0;
        uint64_t length = 0;
    };

    Result<bool> refill();
    Result<bool> read_block(std::span<uint8_t> block, bool end_allowed);
    Result<void> skip(uint64_t length);
    Result<std::string> read_text(uint64_t length);
    Result<bool> read_header(Header& header);
    Result<void> read_extension(const Header& header, uint64_t size, Extensions& extensions);
    Result<void> build_entry(const Header& header, Extensions& extensions, TarEntry& entry);
    Result<void> read_attributes(const Header& header, Extensions& extensions, TarEntry& entry);
    Result<void> begin_content(const Header& header, const Extensions& extensions, TarType type);
    Result<void> read_old_sparse_map(const Header& header);
    Result<void> read_sparse_map_in_data();
    Result<uint64_t> read_sparse_number();
    Result<void> check_sparse_map(uint64_t size);
    Error damaged(std::string_view what) const;

    ChunkSource& source_;
    std::span<const uint8_t> chunk_;
    uint64_t body_left_ = 0;  // bytes of the current entry's data not read yet
    uint64_t padding_ = 0;    // behind them
    uint64_t position_ = 0;   // in the logical file
    uint64_t logical_size_ = 0;
    std::vector<Segment> segments_;  // of a sparse file
    size_t segment_ = 0;
    bool sparse_ = false;
    bool ended_ = false;
    std::string path_;  // for messages
};

}  // namespace boxlite::image
