// The files of an image archive, wherever they are: a directory, or a tar archive of any common compression.
// Names in an archive are keys, never paths on this machine.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <stop_token>
#include <string>

#include "base/fd.h"
#include "base/result.h"
#include "image/digest.h"

namespace boxlite::image {

// A file whose content is in the staging folder.
struct StagedFile {
    std::string path;
    Digest digest;  // sha256
    uint64_t size = 0;
};

class ImportSource {
  public:
    virtual ~ImportSource() = default;
    virtual bool has(const std::string& name) = 0;
    // The file's content in the staging folder; the same file each time for one name. kNotFound when there
    // is no such file.
    virtual Result<StagedFile> stage(const std::string& name) = 0;

    // A small file as a string.
    Result<std::string> read(const std::string& name, size_t limit);
};

struct ImportLimits {
    uint64_t max_bytes;
    std::stop_token stop;
};

// Both keep `staging` (a folder) filled until the caller removes it. A directory's files are copied when they
// are asked for; symbolic links that lead out of it are refused. An archive is unpacked here, flat: its links
// are resolved among its own names.
Result<std::unique_ptr<ImportSource>> open_directory_source(const std::string& path,
                                                            const std::string& staging,
                                                            const ImportLimits& limits);
Result<std::unique_ptr<ImportSource>> open_archive_source(const std::string& path, const std::string& staging,
                                                          const ImportLimits& limits);

// The name in its one spelling: no empty and "." parts. kImage for absolute names and those with "..", unless
// `base` is given: then ".." is resolved against it, but never above the root.
Result<std::string> clean_archive_name(std::string_view name, const std::string* base = nullptr);

Result<Digest> digest_of_file(const std::string& path, DigestAlgorithm algorithm);

enum class Compression { kNone, kGzip, kZstd, kOther };
Result<Compression> sniff_compression(const std::string& path);
// sha256 of what the file decompresses to. kResourceExhausted past the limit.
Result<Digest> digest_of_decompressed(const std::string& path, const ImportLimits& limits);

}  // namespace boxlite::image
