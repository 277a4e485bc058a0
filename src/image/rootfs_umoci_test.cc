// The same layers through umoci: every path, mode, owner, time, link, device, xattr and byte must agree.
#include <gtest/gtest.h>
#include <unistd.h>

#include <optional>

#include "base/file.h"
#include "base/process.h"
#include "disk/ext4_testing.h"
#include "image/layer_testing.h"
#include "image/rootfs.h"

namespace boxlite::image {
namespace {

using testing::EntryOptions;
using testing::make_layer;
using testing::StringBlob;
using testing::TarBuilder;
using testing::TestLayer;

class UmociTest : public ::testing::Test {
  protected:
    void SetUp() override { ASSERT_EQ(::geteuid(), 0U) << "needs root: umoci makes devices and sets owners"; }

    // nullopt when umoci refuses the layers.
    std::optional<disk::Tree> umoci_tree(const std::vector<TestLayer>& layers) {
        bundle_.emplace(base::TempDir::make().value());
        const std::string layout = bundle_->path() + "/layout";
        EXPECT_TRUE(testing::write_oci_layout(layout, layers).ok());
        const auto run =
            base::run_command({"umoci", "unpack", "--image", layout + ":test", bundle_->path() + "/out"}, {},
                              size_t{1} << 20, std::chrono::minutes(5));
        EXPECT_TRUE(run.ok());
        umoci_says_ = run->err;
        if (run->status.shell_code() != 0) return std::nullopt;
        return disk::read_host_tree(bundle_->path() + "/out/rootfs").value();
    }
    Result<disk::Tree> our_tree(const std::vector<TestLayer>& layers,
                                uint64_t disk_size = uint64_t{64} << 20) {
        const std::string output = bundle_->path() + "/base.ext4";
        RootfsOptions options;
        options.disk_size = disk_size;
        RootfsBuilder builder = TRY(RootfsBuilder::create(output, "test", options));
        for (const TestLayer& layer : layers) {
            StringBlob blob(layer.blob);
            TRY(builder.add_layer(layer.spec, blob));
        }
        TRY(builder.finish());
        EXPECT_EQ(disk::check_image(output), "");
        return disk::read_image_tree(output);
    }
    void expect_equal(const std::vector<TestLayer>& layers) {
        const auto expected = umoci_tree(layers);
        ASSERT_TRUE(expected.has_value()) << umoci_says_;
        const auto actual = our_tree(layers);
        ASSERT_TRUE(actual.ok()) << actual.error().message;
        for (const std::string& difference : disk::compare_trees(*expected, *actual))
            ADD_FAILURE() << difference;
    }

    std::optional<base::TempDir> bundle_;
    std::string umoci_says_;
};

TEST_F(UmociTest, EveryKindOfEntry) {
    const std::string capability(
        "\x01\x00\x00\x02\x00\x20\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", 20);
    const std::string acl(
        "\x02\x00\x00\x00\x01\x00\x07\x00\xff\xff\xff\xff\x02\x00\x05\x00\xe8\x03\x00\x00"
        "\x04\x00\x05\x00\xff\xff\xff\xff\x10\x00\x05\x00\xff\xff\xff\xff\x20\x00\x05\x00\xff\xff\xff\xff",
        44);
    EntryOptions with_xattrs{.mode = 0755};
    with_xattrs.pax = {{"SCHILY.xattr.security.capability", capability},
                       {"SCHILY.xattr.user.large", std::string(2000, 'v')},
                       {"SCHILY.xattr.trusted.t", "t"},
                       {"mtime", "1600000000.123456789"}};
    EntryOptions with_acl{.mode = 0755};
    with_acl.pax = {{"SCHILY.xattr.system.posix_acl_access", acl}};
    const TarBuilder base =
        TarBuilder()
            .directory("./", {.mode = 0755})
            .directory("etc/", {.mode = 0750, .uid = 7, .gid = 8})
            .file("etc/ping", "ping", with_xattrs)
            .file("etc/acl", "acl", with_acl)
            .hard_link("etc/pong", "etc/ping")
            .symlink("etc/link", "/etc/ping")
            .symlink("etc/long", std::string(300, 'l'))
            .add('3', "etc/null", "", "", {.mode = 0666, .major = 1, .minor = 3})
            .add('4', "etc/disk", "", "", {.mode = 0660, .gid = 6, .major = 259, .minor = 70000})
            .add('6', "etc/pipe", "", "", {.mode = 0600})
            .file("etc/su", "su", {.mode = 06755, .uid = 1000})
            .file("etc/big", std::string(300'000, 'b'), {.uid = 4'000'000'000})
            .directory("tmp", {.mode = 01777})
            .file("tmp/" + std::string(200, 'n'), "long name");
    const TarBuilder second = TarBuilder()
                                  .directory("etc", {.mode = 0711})
                                  .file("etc/.wh.su", "")
                                  .file("etc/ping", "new")
                                  .hard_link("etc/su2", "etc/pong")
                                  .file("tmp/.wh..wh..opq", "")
                                  .file("tmp/only", "this");
    expect_equal({make_layer(base.finish(), Compression::kGzip), make_layer(second.finish())});
}

TEST_F(UmociTest, ReplacementsAndWhiteouts) {
    const TarBuilder one = TarBuilder()
                               .directory("./")
                               .directory("usr")
                               .directory("usr/bin")
                               .file("usr/bin/a", "a")
                               .symlink("bin", "usr/bin")
                               .directory("gone")
                               .file("gone/x", "")
                               .directory("d")
                               .directory("d/sub")
                               .file("d/sub/old", "");
    const TarBuilder two = TarBuilder()
                               .file("bin/b", "through the link")
                               .file("bin/.wh.a", "")
                               .file(".wh.gone", "")
                               .directory("d")
                               .file("d/.wh..wh..opq", "")
                               .directory("d/sub")
                               .file("d/sub/new", "");
    const TarBuilder three =
        TarBuilder().file("usr/bin", "now a file").directory("gone").file("gone/y", "y").symlink("d", "gone");
    for (size_t count = 1; count <= 3; ++count) {
        std::vector<TestLayer> layers;
        for (size_t i = 0; i < count; ++i)
            layers.push_back(make_layer((i == 0 ? one : i == 1 ? two : three).finish(), Compression::kGzip));
        expect_equal(layers);
    }
}

// Layers over few names, so that everything meets everything: links through links, whiteouts of what was just
// made, replacements of parents.
class RandomLayers {
  public:
    explicit RandomLayers(uint32_t seed) : state_(seed * 2654435761U) {}

    std::vector<TestLayer> make() {
        std::vector<TestLayer> layers;
        for (int i = 0; i < 3; ++i) {
            TarBuilder archive;
            archive.directory("./");
            story_ += fmt::format("layer {}\n", i);
            for (int n = 0; n < 8; ++n) add(archive, i > 0);
            layers.push_back(make_layer(archive.finish()));
        }
        return layers;
    }
    const std::string& story() const { return story_; }  // what the layers do, for messages

  private:
    uint32_t pick(uint32_t n) {
        state_ = state_ * 1664525 + 1013904223;
        return (state_ >> 16) % n;
    }
    std::string folder() {
        std::string text;
        for (uint32_t depth = pick(3); depth > 0; --depth) text += std::string(1, "abc"[pick(3)]) + "/";
        return text;
    }
    void add(TarBuilder& archive, bool whiteouts) {
        const std::string in = folder();
        const std::string leaf = pick(25) == 0 ? "a" : pick(2) == 0 ? "x" : "y";
        const std::string path = in + leaf;
        const uint32_t kind = pick(whiteouts ? 12 : 8);
        story_ += fmt::format("  {} {}", kind, path);
        if (kind < 2) {
            const std::string directory = in + "abc"[pick(3)];
            story_ += " directory " + directory;
            archive.directory(directory, {.mode = 0700 + pick(8)});
        } else if (kind < 5) {
            archive.file(path, "content " + std::to_string(pick(1000)));
        } else if (kind == 5) {
            const std::string target = (pick(2) ? "/" : pick(2) ? "../" : "") + folder() + "abcxy"[pick(5)];
            story_ += " -> " + target;
            archive.symlink(pick(2) ? path : in + "abc"[pick(3)], target);
        } else if (kind < 8) {
            const std::string target = pick(40) == 0 ? path : fmt::format("target{}", ++targets_);
            if (target != path) archive.file(target, target);
            story_ += " = " + target;
            archive.hard_link(path, target);
        } else if (kind < 11) {
            archive.file(in + ".wh." + "abcxy"[pick(5)], "");
        } else {
            archive.file(in + ".wh..wh..opq", "");
        }
        story_ += "\n";
    }

    uint32_t state_;
    std::string story_;
    int targets_ = 0;
};

TEST_F(UmociTest, RandomLayersAgree) {
    constexpr uint32_t kRounds = 40;
    int compared = 0;
    for (uint32_t seed = 1; seed <= kRounds; ++seed) {
        RandomLayers random(seed);
        const std::vector<TestLayer> layers = random.make();
        auto expected = umoci_tree(layers);
        auto actual = our_tree(layers);
        EXPECT_EQ(expected.has_value(), actual.ok())
            << "seed " << seed << "\n"
            << random.story() << umoci_says_ << (actual.ok() ? "" : actual.error().message);
        if (!expected.has_value() || !actual.ok()) continue;
        ++compared;
        // Directories that no layer has get the time of day from umoci.
        for (auto* tree : {&*expected, &*actual})
            for (auto& [path, node] : *tree) node.mtime = {};
        for (const std::string& difference : disk::compare_trees(*expected, *actual))
            ADD_FAILURE() << "seed " << seed << "\n" << random.story() << difference;
    }
    EXPECT_GT(compared, 10);
}

}  // namespace
}  // namespace boxlite::image
