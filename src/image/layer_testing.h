// For tests: archives made by hand, honest and hostile, and OCI layouts for foreign tools to unpack.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "image/blob_reader.h"
#include "image/layer_stream.h"

namespace boxlite::image::testing {

struct EntryOptions {
    uint32_t mode = 0644;
    uint64_t uid = 0;
    uint64_t gid = 0;
    int64_t mtime = 1'700'000'000;
    uint32_t major = 0;
    uint32_t minor = 0;
    std::vector<std::pair<std::string, std::string>> pax;  // records of an 'x' header before the entry
};

// Writes ustar headers with whatever they are told; names that are too long get a PAX record.
class TarBuilder {
  public:
    TarBuilder& add(char type, std::string_view path, std::string_view link, std::string_view content,
                    const EntryOptions& options = {});
    TarBuilder& file(std::string_view path, std::string_view content, const EntryOptions& options = {}) {
        return add('0', path, "", content, options);
    }
    TarBuilder& directory(std::string_view path, const EntryOptions& options = {.mode = 0755}) {
        return add('5', path, "", "", options);
    }
    TarBuilder& symlink(std::string_view path, std::string_view target) { return add('2', path, target, ""); }
    TarBuilder& hard_link(std::string_view path, std::string_view target) {
        return add('1', path, target, "");
    }
    TarBuilder& raw(std::string_view bytes) {
        archive_ += bytes;
        return *this;
    }
    // With the two zero blocks at the end.
    std::string finish() const { return archive_ + std::string(1024, '\0'); }

  private:
    std::string archive_;
};

// One 512-byte header with a correct checksum; `size` need not fit the content.
std::string tar_header(char type, std::string_view path, std::string_view link, uint64_t size,
                       const EntryOptions& options = {});
std::string pax_record(std::string_view key, std::string_view value);
// Content padded to whole blocks.
std::string padded(std::string_view content);

std::string gzip(std::string_view data);
std::string zstd(std::string_view data);

class StringBlob : public BlobReader {
  public:
    // At most `piece` bytes at a time.
    explicit StringBlob(std::string data, size_t piece = SIZE_MAX) : data_(std::move(data)), piece_(piece) {}
    Result<size_t> read(std::span<uint8_t> buffer) override;

  private:
    std::string data_;
    size_t piece_;
    size_t at_ = 0;
};

struct TestLayer {
    LayerSpec spec;
    std::string blob;
};
// A layer as an image would describe it: media type, digests and size are right.
TestLayer make_layer(const std::string& archive, Compression compression = Compression::kNone);

// An OCI image layout with one image, tagged "test", in the new folder `path`.
Result<void> write_oci_layout(const std::string& path, const std::vector<TestLayer>& layers);

}  // namespace boxlite::image::testing
