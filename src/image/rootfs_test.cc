#include "image/rootfs.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "base/file.h"
#include "base/process.h"
#include "disk/ext4_testing.h"
#include "image/layer_testing.h"

namespace boxlite::image {
namespace {

using disk::Tree;
using testing::EntryOptions;
using testing::make_layer;
using testing::StringBlob;
using testing::TarBuilder;
using testing::TestLayer;

class RootfsTest : public ::testing::Test {
  protected:
    void SetUp() override {
        dir_.emplace(base::TempDir::make().value());
        output_ = dir_->path() + "/base.ext4";
        options_.disk_size = uint64_t{64} << 20;
    }
    Result<RootfsInfo> build_layers(const std::vector<TestLayer>& layers) {
        RootfsBuilder builder = TRY(RootfsBuilder::create(output_, "test", options_));
        for (const TestLayer& layer : layers) {
            StringBlob blob(layer.blob);
            TRY(builder.add_layer(layer.spec, blob));
        }
        return builder.finish();
    }
    Result<RootfsInfo> try_build(const std::vector<TarBuilder>& archives) {
        std::vector<TestLayer> layers;
        for (const TarBuilder& archive : archives) layers.push_back(make_layer(archive.finish()));
        return build_layers(layers);
    }
    // The tree that the layers give, after e2fsck has found nothing to say about it.
    Tree build(const std::vector<TarBuilder>& archives) {
        const auto info = try_build(archives);
        EXPECT_TRUE(info.ok()) << info.error().message;
        if (!info.ok()) return {};
        EXPECT_EQ(disk::check_image(output_), "");
        auto tree = disk::read_image_tree(output_);
        EXPECT_TRUE(tree.ok());
        EXPECT_EQ(tree->size(), info->entries + extra_names(*tree));
        return std::move(tree).value();
    }
    static size_t extra_names(const Tree& tree) {
        size_t extra = 0;
        for (const auto& [path, node] : tree) extra += S_ISDIR(node.mode) || node.first_name == path ? 0 : 1;
        return extra;
    }
    // The layers are refused, and nothing is left.
    std::string refused(const std::vector<TarBuilder>& archives, ErrorCode code = ErrorCode::kImage) {
        ::unlink(output_.c_str());
        const auto info = try_build(archives);
        EXPECT_FALSE(info.ok());
        if (info.ok()) return "";
        EXPECT_EQ(info.error().code, code) << info.error().message;
        EXPECT_TRUE(std::filesystem::is_empty(dir_->path()));
        return info.error().message;
    }
    static std::vector<std::string> paths(const Tree& tree) {
        std::vector<std::string> names;
        for (const auto& [path, node] : tree) names.push_back(path);
        return names;
    }
    std::string content(const std::string& path) { return disk::read_image_file(output_, path).value(); }

    std::optional<base::TempDir> dir_;
    std::string output_;
    RootfsOptions options_;
};

using Paths = std::vector<std::string>;

TEST_F(RootfsTest, LayersAreAppliedInOrder) {
    const Tree tree = build({TarBuilder().directory("etc").file("etc/a", "1").file("etc/b", "1"),
                             TarBuilder().file("etc/a", "two").file("etc/c", "2")});
    EXPECT_EQ(paths(tree), (Paths{"/", "/etc", "/etc/a", "/etc/b", "/etc/c"}));
    EXPECT_EQ(content("/etc/a"), "two");
    EXPECT_EQ(content("/etc/b"), "1");
}

TEST_F(RootfsTest, NamesMayBeWrittenInManyWays) {
    const Tree tree = build({TarBuilder()
                                 .directory("./", {.mode = 0711, .uid = 3})
                                 .directory("./a/")
                                 .file("/a/absolute", "")
                                 .file("a//double", "")
                                 .file("a/./dot", "")
                                 .file("a/Case", "")
                                 .file("a/case", "")
                                 .file("a/\xff\xfe", "")
                                 .file("a/new\nline", "")
                                 .file("missing/parents/file", "")});
    EXPECT_EQ(paths(tree),
              (Paths{"/", "/a", "/a/Case", "/a/absolute", "/a/case", "/a/dot", "/a/double", "/a/new\nline",
                     "/a/\xff\xfe", "/missing", "/missing/parents", "/missing/parents/file"}));
    EXPECT_EQ(tree.at("/").mode, S_IFDIR | 0711U);
    EXPECT_EQ(tree.at("/").uid, 3U);
    EXPECT_EQ(tree.at("/missing/parents").mode, S_IFDIR | 0755U);
}

TEST_F(RootfsTest, WhiteoutsRemoveLowerLayersOnly) {
    const TarBuilder base =
        TarBuilder().directory("d").file("d/a", "1").file("d/b", "1").directory("d/sub").file("d/sub/x", "1");
    // A whiteout counts for the layers below, wherever it stands among the entries of its own layer.
    for (const bool first : {true, false}) {
        TarBuilder layer;
        if (first) layer.file("d/.wh.a", "").file("d/.wh.sub", "").file("d/.wh.nothing", "");
        layer.file("d/a", "new").file("d/sub/y", "new");
        if (!first) layer.file("d/.wh.a", "").file("d/.wh.sub", "").file("d/.wh.nothing", "");
        const Tree tree = build({base, layer});
        EXPECT_EQ(paths(tree), (Paths{"/", "/d", "/d/a", "/d/b", "/d/sub", "/d/sub/y"})) << first;
        EXPECT_EQ(content("/d/a"), "new");
    }
    EXPECT_EQ(paths(build({base, TarBuilder().file(".wh.d", "")})), (Paths{"/"}));
}

TEST_F(RootfsTest, OpaqueDirectoriesHideLowerLayersOnly) {
    const TarBuilder base = TarBuilder()
                                .directory("d")
                                .file("d/a", "1")
                                .directory("d/sub")
                                .file("d/sub/x", "1")
                                .directory("d/gone")
                                .file("keep", "1");
    for (const bool first : {true, false}) {
        TarBuilder layer;
        layer.directory("d", {.mode = 0700});
        if (first) layer.file("d/.wh..wh..opq", "");
        layer.file("d/new", "2").file("d/sub/y", "2");
        if (!first) layer.file("d/.wh..wh..opq", "");
        const Tree tree = build({base, layer});
        EXPECT_EQ(paths(tree), (Paths{"/", "/d", "/d/new", "/d/sub", "/d/sub/y", "/keep"})) << first;
        EXPECT_EQ(tree.at("/d").mode, S_IFDIR | 0700U);
    }
    EXPECT_EQ(paths(build({base, TarBuilder().file(".wh..wh..opq", "")})), (Paths{"/"}));
}

TEST_F(RootfsTest, AufsMetadataIsNoContent) {
    const Tree tree = build({TarBuilder()
                                 .directory(".wh..wh.plnk")
                                 .file(".wh..wh.plnk/7.8", "")
                                 .file(".wh..wh.aufs", "")
                                 .file("a", "")});
    EXPECT_EQ(paths(tree), (Paths{"/", "/a"}));
}

TEST_F(RootfsTest, WhiteoutsThatNameNothingAreRefused) {
    for (const char* name : {".wh.", "d/.wh.", "d/.wh..", "d/.wh...", ".wh.../x", "d/.wh.x/y"})
        refused({TarBuilder().directory("d").file("d/a", ""), TarBuilder().file(name, "")});
}

// Row 1 of the faults: parents that are symbolic links lead to where they would lead inside the image.
TEST_F(RootfsTest, ParentsThatAreLinksStayInside) {
    const std::string probe = dir_->path() + "/probe";
    ASSERT_TRUE(base::make_directories(probe).ok());
    const TarBuilder base = TarBuilder()
                                .symlink("absolute", probe)
                                .symlink("upward", "../../../../../../../../" + probe)
                                .directory("real")
                                .file("real/file", "1")
                                .symlink("deep", "absolute/../real")
                                .symlink("chain", "deep");
    EntryOptions with_xattr;
    with_xattr.pax = {{"SCHILY.xattr.user.x", "v"}};
    const Tree tree = build({base, TarBuilder()
                                       .file("absolute/a", "a")
                                       .file("upward/b", "b", with_xattr)
                                       .hard_link("absolute/c", "absolute/a")
                                       .directory("upward/d", {.mode = 0700})
                                       .file("chain/e", "e")});
    EXPECT_TRUE(std::filesystem::is_empty(probe));
    EXPECT_EQ(content(probe + "/a"), "a");
    EXPECT_EQ(tree.at(probe + "/b").xattrs.at("user.x"), "v");
    EXPECT_EQ(tree.at(probe + "/c").first_name, probe + "/a");
    EXPECT_EQ(tree.at(probe + "/d").mode, S_IFDIR | 0700U);
    EXPECT_EQ(content(dir_->path() + "/real/e"), "e");
    ASSERT_TRUE(base::remove_tree(probe).ok());
}

// Row 2: whiteouts through links.
TEST_F(RootfsTest, WhiteoutsThroughLinksStayInside) {
    const std::string probe = dir_->path() + "/probe";
    ASSERT_TRUE(base::make_directories(probe).ok());
    ASSERT_TRUE(base::write_file_atomically(probe + "/victim", base::as_bytes("host")).ok());
    const TarBuilder base = TarBuilder()
                                .symlink("out", probe)
                                .directory("real")
                                .file("real/victim", "")
                                .file("real/other", "")
                                .symlink("in", "/real");
    EXPECT_FALSE(build({base, TarBuilder().file("out/.wh.victim", "").file("in/.wh.victim", "")})
                     .contains("/real/victim"));
    EXPECT_FALSE(build({base, TarBuilder().file("out/.wh..wh..opq", "").file("in/.wh..wh..opq", "")})
                     .contains("/real/other"));
    // Removing a link never removes what it points to.
    EXPECT_TRUE(build({base, TarBuilder().file(".wh.in", "")}).contains("/real/other"));
    EXPECT_EQ(base::read_file(probe + "/victim").value(), "host");
    ASSERT_TRUE(base::remove_tree(probe).ok());
}

// Row 3: absolute links are legal, and a layer may replace a link by a file and the other way round.
TEST_F(RootfsTest, LinksAndFilesReplaceEachOther) {
    const TarBuilder base = TarBuilder()
                                .directory("bin")
                                .file("bin/busybox", "busybox")
                                .symlink("bin/sh", "/bin/busybox")
                                .symlink("bin/cat", "/bin/busybox")
                                .symlink("lib", "bin");
    const Tree tree = build({base, TarBuilder()
                                       .file("bin/cat", "coreutils")
                                       .symlink("bin/busybox", "/bin/cat")
                                       .directory("lib")
                                       .file("lib/so", "")});
    EXPECT_EQ(content("/bin/cat"), "coreutils");
    EXPECT_EQ(tree.at("/bin/sh").target, "/bin/busybox");
    EXPECT_EQ(tree.at("/bin/busybox").target, "/bin/cat");
    EXPECT_TRUE(tree.contains("/lib/so"));  // a directory entry replaces a link to a directory
    EXPECT_FALSE(tree.contains("/bin/so"));
}

TEST_F(RootfsTest, FilesAndDirectoriesReplaceEachOther) {
    const Tree tree = build({TarBuilder().directory("a").file("a/b", "").file("c", ""),
                             TarBuilder().file("a", "file").directory("c").file("c/d", ""),
                             TarBuilder().directory("a").file("a/e", "")});
    EXPECT_EQ(paths(tree), (Paths{"/", "/a", "/a/e", "/c", "/c/d"}));
    refused({TarBuilder().file("a", ""), TarBuilder().file("a/b", "")});
}

TEST_F(RootfsTest, DirectoriesKeepTheirContentAndTakeNewAttributes) {
    EntryOptions changed{.mode = 01777, .uid = 5, .gid = 6, .mtime = 77};
    changed.pax = {{"SCHILY.xattr.user.new", "2"}};
    EntryOptions before{.mode = 0755};
    before.pax = {{"SCHILY.xattr.user.old", "1"}};
    const Tree tree = build(
        {TarBuilder().directory("tmp", before).file("tmp/a", ""), TarBuilder().directory("tmp", changed)});
    EXPECT_TRUE(tree.contains("/tmp/a"));
    EXPECT_EQ(tree.at("/tmp").mode, S_IFDIR | 01777U);
    EXPECT_EQ(tree.at("/tmp").gid, 6U);
    EXPECT_EQ(tree.at("/tmp").mtime.seconds, 77);
    const std::map<std::string, std::string> expected = {{"user.new", "2"}};
    EXPECT_EQ(tree.at("/tmp").xattrs, expected);
}

TEST_F(RootfsTest, DuplicateEntriesLastOneWins) {
    const Tree tree =
        build({TarBuilder().file("a", "first").file("a", "second").symlink("b", "x").file("b", "y")});
    EXPECT_EQ(content("/a"), "second");
    EXPECT_EQ(content("/b"), "y");
    EXPECT_EQ(tree.at("/a").links, 1U);
}

// Row 4: hard links.
TEST_F(RootfsTest, HardLinksReachAcrossLayers) {
    const Tree tree =
        build({TarBuilder().file("a", "1").symlink("s", "a").directory("d"),
               TarBuilder().hard_link("d/b", "a").hard_link("/c", "/d/b").hard_link("s2", "s")});
    EXPECT_EQ(tree.at("/a").links, 3U);
    EXPECT_EQ(tree.at("/c").first_name, "/a");
    EXPECT_EQ(tree.at("/s2").first_name, "/s");
    // Opaque spares this layer's name of a lower layer's file.
    const Tree opaque = build({TarBuilder().directory("d").file("d/a", "1"),
                               TarBuilder().hard_link("d/b", "d/a").file("d/.wh..wh..opq", "")});
    EXPECT_EQ(paths(opaque), (Paths{"/", "/d", "/d/b"}));
    EXPECT_EQ(opaque.at("/d/b").links, 1U);
    // Writing a new file over one name leaves the other one alone.
    build({TarBuilder().file("a", "old").hard_link("b", "a"), TarBuilder().file("a", "new")});
    EXPECT_EQ(content("/b"), "old");
}

TEST_F(RootfsTest, HardLinksToNothingAreRefused) {
    const TarBuilder base = TarBuilder().directory("d").file("d/f", "");
    for (const char* target :
         {"missing", "/etc/passwd", "../../etc/passwd", "d", "d/f/x", "", "/", "d/../d/f"})
        refused({TarBuilder(base).hard_link("link", target)});
    refused({TarBuilder(base).hard_link("d", "d/f")});  // replaces what it points to
    refused({TarBuilder(base).hard_link("d/f", "d/./f")});
}

// Row 5: names and numbers.
TEST_F(RootfsTest, ImpossibleNamesAreRefused) {
    for (const std::string& name :
         {std::string(".."), std::string("../a"), std::string("a/../b"), std::string("/../a"),
          std::string("a/.."), std::string(256, 'n'), "d/" + std::string(256, 'n') + "/f"}) {
        refused({TarBuilder().file(name, "")});
        refused({TarBuilder().directory(name)});
    }
    EntryOptions nul;
    nul.pax = {{"path", std::string("a\0b", 3)}};
    refused({TarBuilder().file("a", "", nul)});
    nul.pax = {{"linkpath", std::string("a\0b", 3)}};
    refused({TarBuilder().add('2', "a", "x", "", nul)});
    refused({TarBuilder().symlink("a", std::string(4096, 't'))});
    refused({TarBuilder().symlink("a", "")});
    refused({TarBuilder().file("", "")});
    refused({TarBuilder().file(".", "")});
    std::string deep;
    for (int i = 0; i < 2100; ++i) deep += "d/";
    refused({TarBuilder().file(deep + "f", "")});
}

TEST_F(RootfsTest, LoopsOfLinksAreRefused) {
    refused({TarBuilder().symlink("a", "b").symlink("b", "a").file("a/f", "")});
    refused({TarBuilder().symlink("a", "a").file("a/f", "")});
    refused({TarBuilder().symlink("a", "a/x").file("a/f", "")});
    EXPECT_TRUE(
        build({TarBuilder().symlink("a", "b").symlink("b", "a")}).contains("/a"));  // only to be there
}

TEST_F(RootfsTest, DevicesSetuidAndLargeOwners) {
    const Tree tree = build({TarBuilder()
                                 .add('3', "dev/null", "", "", {.mode = 0666, .major = 1, .minor = 3})
                                 .add('4', "dev/nvme", "", "", {.mode = 0660, .major = 259, .minor = 70000})
                                 .add('6', "pipe", "", "")
                                 .file("su", "", {.mode = 06755, .uid = 4'294'967'294, .gid = 100'000})});
    EXPECT_EQ(tree.at("/dev/nvme").major, 259U);
    EXPECT_EQ(tree.at("/dev/nvme").minor, 70000U);
    EXPECT_EQ(tree.at("/dev/null").mode, S_IFCHR | 0666U);
    EXPECT_EQ(tree.at("/su").mode, S_IFREG | 06755U);
    EXPECT_EQ(tree.at("/su").uid, 4'294'967'294U);
    refused({TarBuilder().add('3', "dev/x", "", "", {.major = 5000})});
    refused({TarBuilder().file("x", "", {.uid = UINT32_MAX})});
}

// Row 8: more entries than anybody needs, and a file that is larger than the disk.
TEST_F(RootfsTest, EntriesAreLimitedOverAllLayers) {
    TarBuilder layer;
    for (int i = 0; i < 60; ++i) layer.file("f" + std::to_string(i), "");
    options_.limits.max_entries = 120;
    build({layer, layer});
    options_.limits.max_entries = 119;
    refused({layer, layer}, ErrorCode::kResourceExhausted);
}

TEST_F(RootfsTest, ContentThatDoesNotFitTheDiskIsAnError) {
    std::string noise(size_t{70} << 20, '\0');
    uint32_t seed = 1;
    for (char& c : noise) c = static_cast<char>((seed = seed * 1664525 + 1013904223) >> 24);
    EXPECT_NE(refused({TarBuilder().file("large", noise)}, ErrorCode::kResourceExhausted).find("disk size"),
              std::string::npos);
}

TEST_F(RootfsTest, SparseFilesTakeNoSpace) {
    EntryOptions options;
    options.pax = {{"GNU.sparse.map", "0,4,5368709120,4"}, {"GNU.sparse.size", "5368709124"}};
    const auto info = try_build({TarBuilder().file("disk", "headtail", options)});
    ASSERT_TRUE(info.ok()) << info.error().message;
    EXPECT_LT(info->file_bytes, 4'000'000U);
    EXPECT_EQ(disk::check_image(output_), "");
    const Tree tree = disk::read_image_tree(output_).value();
    EXPECT_EQ(tree.at("/disk").size, 5'368'709'124U);
    EXPECT_LE(tree.at("/disk").allocated, 8192U);
}

TEST_F(RootfsTest, ManyFilesInOneDirectory) {
    options_.disk_size = uint64_t{1} << 30;
    TarBuilder layer;
    for (int i = 0; i < 20000; ++i) layer.file("many/file-with-a-longer-name-" + std::to_string(i), "");
    EXPECT_EQ(build({layer}).size(), 20002U);
}

// Row 9, and the promise that nothing is kept of what is refused.
TEST_F(RootfsTest, WrongContentLeavesNothing) {
    TestLayer layer = make_layer(TarBuilder().file("a", "x").finish(), Compression::kGzip);
    layer.spec.diff_id = make_layer("other").spec.diff_id;
    const auto info = build_layers({layer});
    ASSERT_FALSE(info.ok());
    EXPECT_EQ(info.error().code, ErrorCode::kImage);
    EXPECT_TRUE(std::filesystem::is_empty(dir_->path()));
}

TEST_F(RootfsTest, LeftoversOfKilledBuildersGo) {
    const std::string left = output_ + ".tmp-abcdefgh";
    const std::string other = dir_->path() + "/other.ext4.tmp-abcdefgh";
    for (const std::string& path : {left, other})
        ASSERT_TRUE(base::write_file_atomically(path, base::as_bytes("x")).ok());
    auto running = RootfsBuilder::create(output_, "test", options_);
    ASSERT_TRUE(running.ok());
    EXPECT_FALSE(base::path_exists(left));
    build({TarBuilder().file("a", "")});  // while another builder works on the same image
    EXPECT_TRUE(base::path_exists(other));
    EXPECT_TRUE(running->finish().ok());
}

TEST_F(RootfsTest, ChainIdIsTheSpecifications) {
    const TestLayer one = make_layer(TarBuilder().file("a", "").finish());
    const TestLayer two = make_layer(TarBuilder().file("b", "").finish(), Compression::kZstd);
    EXPECT_EQ(build_layers({one})->chain_id, one.spec.diff_id->to_string());
    const std::string text = one.spec.diff_id->to_string() + " " + two.spec.diff_id->to_string();
    const std::string sum = base::run_command({"sha256sum"}, text)->out.substr(0, 64);
    EXPECT_EQ(build_layers({one, two})->chain_id, "sha256:" + sum);
}

TEST_F(RootfsTest, SameLayersGiveTheSameBytes) {
    const std::vector<TestLayer> layers = {
        make_layer(TarBuilder().file("a/b/c", "1").file("x", "2").finish()),
        make_layer(TarBuilder().file("a/.wh.b", "").file("y", "3").finish())};
    ASSERT_TRUE(build_layers(layers).ok());
    const std::string first = dir_->path() + "/first";
    ASSERT_EQ(::rename(output_.c_str(), first.c_str()), 0);
    ASSERT_TRUE(build_layers(layers).ok());
    EXPECT_EQ(base::run_command({"cmp", first, output_})->status.shell_code(), 0);
}

TEST_F(RootfsTest, ArchivesInMemory) {
    const std::string archive = TarBuilder().file("hello", "world").finish();
    for (const std::string& data : {archive, testing::gzip(archive), testing::zstd(archive)}) {
        ASSERT_TRUE(build_rootfs_from_tar(output_, base::as_bytes(data), options_).ok());
        EXPECT_EQ(content("/hello"), "world");
    }
}

}  // namespace
}  // namespace boxlite::image
