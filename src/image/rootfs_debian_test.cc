// A whole Debian, made by mmdebstrap, as one gzip layer with a second one on top: the same tree as umoci
// unpacks.
#include <gtest/gtest.h>

#include "base/file.h"
#include "base/process.h"
#include "disk/ext4_testing.h"
#include "image/layer_testing.h"
#include "image/rootfs.h"

namespace boxlite::image {
namespace {

using testing::StringBlob;
using testing::TarBuilder;

TEST(Debian, UnpacksAsUmociDoes) {
    const auto dir = base::TempDir::make().value();
    const std::string tar = dir.path() + "/debian.tar";
    const auto made = base::run_command({"mmdebstrap", "--variant=minbase", "bookworm", tar}, {},
                                        size_t{1} << 20, std::chrono::minutes(8));
    ASSERT_TRUE(made.ok()) << made.error().message;
    ASSERT_EQ(made->status.shell_code(), 0) << made->err;

    const std::vector<testing::TestLayer> layers = {
        testing::make_layer(base::read_file(tar, size_t{1} << 30).value(), Compression::kGzip),
        testing::make_layer(TarBuilder()
                                .directory("./")
                                .file("etc/.wh.passwd", "")
                                .file("usr/share/doc/.wh..wh..opq", "")
                                .file("bin/tool", "through the link", {.mode = 0755})
                                .finish(),
                            Compression::kGzip)};
    ASSERT_TRUE(testing::write_oci_layout(dir.path() + "/layout", layers).ok());
    const auto unpacked =
        base::run_command({"umoci", "unpack", "--image", dir.path() + "/layout:test", dir.path() + "/bundle"},
                          {}, size_t{1} << 20, std::chrono::minutes(5));
    ASSERT_TRUE(unpacked.ok()) << unpacked.error().message;
    ASSERT_EQ(unpacked->status.shell_code(), 0) << unpacked->err;

    const std::string output = dir.path() + "/base.ext4";
    auto builder = RootfsBuilder::create(output, "debian", {}).value();
    for (const testing::TestLayer& layer : layers) {
        StringBlob blob(layer.blob);
        const auto added = builder.add_layer(layer.spec, blob);
        ASSERT_TRUE(added.ok()) << added.error().message;
    }
    const auto info = builder.finish();
    ASSERT_TRUE(info.ok()) << info.error().message;
    EXPECT_EQ(disk::check_image(output), "");

    const disk::Tree expected = disk::read_host_tree(dir.path() + "/bundle/rootfs").value();
    const disk::Tree actual = disk::read_image_tree(output).value();
    EXPECT_GT(actual.size(), 3000U);
    for (const std::string& difference : disk::compare_trees(expected, actual)) ADD_FAILURE() << difference;
}

}  // namespace
}  // namespace boxlite::image
