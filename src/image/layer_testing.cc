#include "image/layer_testing.h"

#include <fcntl.h>

#include <algorithm>
#include <cstring>

#include "base/file.h"
#include "base/process.h"
#include "image/image.h"

namespace boxlite::image::testing {

namespace {

void put_octal(std::string& header, size_t offset, size_t size, uint64_t value) {
    const std::string digits = fmt::format("{:0{}o}", value, size - 1);
    if (digits.size() < size) {
        header.replace(offset, digits.size(), digits);
        return;
    }
    for (size_t i = 0; i < size; ++i, value >>= 8)  // base 256
        header[offset + size - 1 - i] = static_cast<char>(value & 0xff);
    header[offset] |= static_cast<char>(0x80);
}

std::string filter(const std::vector<std::string>& argv, std::string_view data) {
    const auto run = base::run_command(argv, data, size_t{256} << 20);
    return run.ok() && run->status.shell_code() == 0 ? run->out : std::string();
}

}  // namespace

std::string tar_header(char type, std::string_view path, std::string_view link, uint64_t size,
                       const EntryOptions& options) {
    std::string header(512, '\0');
    header.replace(0, std::min<size_t>(path.size(), 100), path.substr(0, 100));
    put_octal(header, 100, 8, options.mode);
    put_octal(header, 108, 8, options.uid);
    put_octal(header, 116, 8, options.gid);
    put_octal(header, 124, 12, size);
    put_octal(header, 136, 12, static_cast<uint64_t>(options.mtime));
    header[156] = type;
    header.replace(157, std::min<size_t>(link.size(), 100), link.substr(0, 100));
    header.replace(257, 8,
                   std::string("ustar\0"
                               "00",
                               8));
    put_octal(header, 329, 8, options.major);
    put_octal(header, 337, 8, options.minor);
    header.replace(148, 8, "        ");
    uint32_t sum = 0;
    for (const char c : header) sum += static_cast<uint8_t>(c);
    header.replace(148, 7, fmt::format("{:06o}", sum) + std::string(1, '\0'));
    return header;
}

std::string pax_record(std::string_view key, std::string_view value) {
    const size_t rest = key.size() + value.size() + 3;
    size_t length = rest + 1;
    while (fmt::formatted_size("{}", length) + rest != length) ++length;
    return fmt::format("{} {}={}\n", length, key, value);
}

std::string padded(std::string_view content) {
    std::string out(content);
    out.resize((out.size() + 511) / 512 * 512, '\0');
    return out;
}

TarBuilder& TarBuilder::add(char type, std::string_view path, std::string_view link, std::string_view content,
                            const EntryOptions& options) {
    std::string records;
    for (const auto& [key, value] : options.pax) records += pax_record(key, value);
    if (path.size() > 100) records += pax_record("path", path);
    if (link.size() > 100) records += pax_record("linkpath", link);
    if (!records.empty()) archive_ += tar_header('x', "pax", "", records.size()) + padded(records);
    archive_ += tar_header(type, path, link, content.size(), options) + padded(content);
    return *this;
}

std::string gzip(std::string_view data) {
    return filter({"gzip", "-c"}, data);
}
std::string zstd(std::string_view data) {
    return filter({"zstd", "-q", "-c"}, data);
}

Result<size_t> StringBlob::read(std::span<uint8_t> buffer) {
    const size_t n = std::min({buffer.size(), data_.size() - at_, piece_});
    std::memcpy(buffer.data(), data_.data() + at_, n);
    at_ += n;
    return n;
}

TestLayer make_layer(const std::string& archive, Compression compression) {
    TestLayer layer;
    layer.spec.diff_id = Digest::of(base::as_bytes(archive)).value();
    switch (compression) {
        case Compression::kNone:
            layer.blob = archive;
            layer.spec.media_type = media_type::kOciLayer;
            break;
        case Compression::kGzip:
            layer.blob = gzip(archive);
            layer.spec.media_type = media_type::kOciLayerGzip;
            break;
        case Compression::kZstd:
            layer.blob = zstd(archive);
            layer.spec.media_type = media_type::kOciLayerZstd;
            break;
    }
    layer.spec.digest = Digest::of(base::as_bytes(layer.blob)).value();
    layer.spec.size = layer.blob.size();
    return layer;
}

Result<void> write_oci_layout(const std::string& path, const std::vector<TestLayer>& layers) {
    const std::string blobs = path + "/blobs/sha256";
    TRY(base::make_directories(blobs));
    const auto put = [&](std::string_view type, const std::string& content) -> Result<std::string> {
        const Digest digest = TRY(Digest::of(base::as_bytes(content)));
        TRY(base::write_file_atomically(blobs + "/" + std::string(digest.hex()), base::as_bytes(content)));
        return fmt::format(R"({{"mediaType":"{}","digest":"{}","size":{}}})", type, digest.to_string(),
                           content.size());
    };
    std::string diff_ids;
    std::string descriptors;
    for (const TestLayer& layer : layers) {
        diff_ids += fmt::format(R"({}"{}")", diff_ids.empty() ? "" : ",", layer.spec.diff_id->to_string());
        descriptors += (descriptors.empty() ? "" : ",") + TRY(put(layer.spec.media_type, layer.blob));
    }
    const std::string config = TRY(put(
        media_type::kOciConfig,
        fmt::format(R"({{"architecture":"amd64","os":"linux","rootfs":{{"type":"layers","diff_ids":[{}]}}}})",
                    diff_ids)));
    std::string manifest =
        TRY(put(media_type::kOciManifest,
                fmt::format(R"({{"schemaVersion":2,"mediaType":"{}","config":{},"layers":[{}]}})",
                            media_type::kOciManifest, config, descriptors)));
    manifest.insert(manifest.size() - 1, R"(,"annotations":{"org.opencontainers.image.ref.name":"test"})");
    TRY(base::write_file_atomically(
        path + "/index.json",
        base::as_bytes(fmt::format(R"({{"schemaVersion":2,"manifests":[{}]}})", manifest))));
    return base::write_file_atomically(path + "/oci-layout",
                                       base::as_bytes(R"({"imageLayoutVersion":"1.0.0"})"));
}

}  // namespace boxlite::image::testing
