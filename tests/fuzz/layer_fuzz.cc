// Any bytes as the layers of an image: unpacking them neither crashes nor leaves an ext4 file system that
// libext2fs cannot read back.
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "base/fd.h"
#include "disk/ext4_testing.h"
#include "disk/ext4_writer.h"
#include "image/layer_apply.h"
#include "image/layer_stream.h"
#include "image/layer_testing.h"
#include "tests/fuzz/fuzz.h"

namespace {

using namespace boxlite;

// A wrong checksum would end nearly every attempt at its first header.
void fix_checksums(std::string& archive) {
    for (size_t at = 0; at + 512 <= archive.size(); at += 512) {
        if (archive.compare(at + 257, 5, "ustar") != 0) continue;
        archive.replace(at + 148, 8, "        ");
        unsigned sum = 0;
        for (size_t i = 0; i < 512; ++i) sum += static_cast<uint8_t>(archive[at + i]);
        archive.replace(at + 148, 7, fmt::format("{:06o}", sum) + '\0');
    }
}

constexpr std::string_view kCut = "NEXT LAYER";

// Input is cut into layers at each kCut.
Result<uint64_t> build(int fd, std::string_view input) {
    auto writer = TRY(disk::Ext4Writer::create(fd, {.size = uint64_t{16} << 20}));
    image::ImageRoot root(*writer, 1);
    for (;;) {
        const size_t cut = input.find(kCut);
        std::string layer(input.substr(0, cut));
        fix_checksums(layer);
        image::testing::StringBlob blob(std::move(layer));
        image::LayerStream stream(blob, {}, {.max_bytes = uint64_t{32} << 20});
        image::TarReader archive(stream);
        TRY(image::apply_layer(root, archive, 2000));
        TRY(stream.finish());
        if (cut == std::string_view::npos) break;
        input.remove_prefix(cut + kCut.size());
    }
    return TRY(writer->finish()).inodes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const base::Fd fd = base::make_memfd("fuzz", 0).value();
    const auto inodes = build(fd.get(), {reinterpret_cast<const char*>(data), size});
    if (!inodes.ok()) return 0;
    const auto tree = disk::read_image_tree(fmt::format("/proc/self/fd/{}", fd.get()));
    if (!tree.ok() || tree->size() < *inodes) std::abort();
    return 0;
}

std::vector<std::string> boxlite::fuzz::seeds() {
    using namespace image::testing;
    const std::string first =
        TarBuilder()
            .directory("etc/")
            .file("etc/passwd", "root:x:0:0::/:/bin/sh\n")
            .symlink("etc/link", "../etc/passwd")
            .hard_link("etc/hard", "etc/passwd")
            .add('3', "null", "", "", {.mode = 0666, .major = 1, .minor = 3})
            .file(std::string(150, 'n'), std::string(3000, 'c'), {.uid = 1000, .gid = 7})
            .file("capable", "x",
                  {.pax = {{"SCHILY.xattr.security.capability", std::string(20, '\1')},
                           {"mtime", "1234567890.5"}}})
            .finish();
    const std::string second =
        TarBuilder().file("etc/.wh.passwd", "").file("etc/.wh..wh..opq", "").file("etc/new", "new").finish();
    const std::string cut(kCut);
    return {first, first + cut + second, gzip(first), zstd(first) + cut + gzip(second)};
}
