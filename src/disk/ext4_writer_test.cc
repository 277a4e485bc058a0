#include "disk/ext4_writer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <optional>

#include "base/file.h"
#include "base/process.h"
#include "disk/ext4_testing.h"

namespace boxlite::disk {
namespace {

std::span<const uint8_t> bytes(const std::string& text) {
    return base::as_bytes(text);
}

Attributes attributes(uint32_t mode, uint32_t uid = 0, uint32_t gid = 0) {
    return {.mode = mode,
            .uid = uid,
            .gid = gid,
            .mtime = {1'700'000'000, 123'456'789},
            .atime = {1'600'000'000, 5}};
}

// Bytes without zero blocks or repetition.
std::string noise(size_t size, uint32_t seed = 1) {
    std::string out(size, '\0');
    for (char& c : out) {
        seed = seed * 1664525 + 1013904223;
        c = static_cast<char>(seed >> 24);
    }
    return out;
}

class Ext4WriterTest : public testing::Test {
  protected:
    void SetUp() override {
        dir_.emplace(base::TempDir::make().value());
        path_ = dir_->path() + "/image";
        start();
    }
    void start(Ext4Options options = {}) {
        writer_.reset();
        fd_ = base::open_file(path_, O_RDWR | O_CREAT | O_TRUNC).value();
        auto made = Ext4Writer::create(fd_.get(), options);
        ASSERT_TRUE(made.ok()) << made.error().message;
        writer_ = std::move(made).value();
    }
    Ino file(Ino parent, const std::string& name, const std::string& content, uint32_t mode = 0644) {
        const auto ino = writer_->begin_file(parent, name, attributes(mode));
        EXPECT_TRUE(ino.ok()) << ino.error().message;
        EXPECT_TRUE(writer_->append(bytes(content)).ok());
        EXPECT_TRUE(writer_->end_file().ok());
        return *ino;
    }
    Ino directory(Ino parent, const std::string& name) {
        const auto ino = writer_->add_directory(parent, name, attributes(0755));
        EXPECT_TRUE(ino.ok()) << ino.error().message;
        return *ino;
    }
    Ext4Summary finish() {
        auto summary = writer_->finish();
        EXPECT_TRUE(summary.ok()) << summary.error().message;
        EXPECT_EQ(check_image(path_), "");
        return *summary;
    }
    Tree tree() {
        auto read = read_image_tree(path_);
        EXPECT_TRUE(read.ok()) << read.error().message;
        return std::move(read).value();
    }
    uint64_t host_bytes() {
        struct stat st;
        EXPECT_EQ(::stat(path_.c_str(), &st), 0);
        return static_cast<uint64_t>(st.st_blocks) * 512;
    }
    std::string command(const std::vector<std::string>& argv) {
        const auto run = base::run_command(argv);
        EXPECT_TRUE(run.ok() && run->status.shell_code() == 0) << argv[0];
        return run.ok() ? run->out : "";
    }

    std::optional<base::TempDir> dir_;
    std::string path_;
    base::Fd fd_;
    std::unique_ptr<Ext4Writer> writer_;
};

TEST_F(Ext4WriterTest, EmptyFileSystemIsCleanAndSparse) {
    finish();
    struct stat st;
    ASSERT_EQ(::stat(path_.c_str(), &st), 0);
    EXPECT_EQ(st.st_size, off_t{10} << 30);
    EXPECT_LT(host_bytes(), 2'000'000U);
    EXPECT_EQ(tree().size(), 1U);  // not even lost+found
}

TEST_F(Ext4WriterTest, HasTheFeaturesThatGuestsNeed) {
    finish();
    const std::string super = command({"dumpe2fs", "-h", path_});
    for (const char* feature :
         {"has_journal", "ext_attr", "resize_inode", "dir_index", "filetype", "extent", "64bit", "flex_bg",
          "sparse_super", "large_file", "huge_file", "dir_nlink", "extra_isize", "metadata_csum"})
        EXPECT_NE(super.find(feature), std::string::npos) << feature;
    EXPECT_EQ(super.find("orphan_file"), std::string::npos);
    EXPECT_NE(super.find("Inode size:	          256"), std::string::npos) << super;
}

TEST_F(Ext4WriterTest, KeepsEveryKindOfFile) {
    const Ino etc = directory(kRootIno, "etc");
    file(etc, "passwd", "root:x:0:0\n", 04755);
    file(etc, "empty", "");
    const std::string long_target(200, 't');
    ASSERT_TRUE(writer_->add_symlink(etc, "short", attributes(0777, 5, 6), "/etc/passwd").ok());
    ASSERT_TRUE(writer_->add_symlink(etc, "long", attributes(0777), long_target).ok());
    ASSERT_TRUE(writer_->add_special(etc, "null", attributes(S_IFCHR | 0666), 1, 3).ok());
    ASSERT_TRUE(writer_->add_special(etc, "big", attributes(S_IFBLK | 0600), 4095, 1048575).ok());
    ASSERT_TRUE(writer_->add_special(etc, "pipe", attributes(S_IFIFO | 0600), 0, 0).ok());
    ASSERT_TRUE(writer_->add_special(etc, "socket", attributes(S_IFSOCK | 0600), 0, 0).ok());
    ASSERT_TRUE(writer_->set_attributes(etc, attributes(01777, 70000, 4'000'000'000)).ok());
    finish();

    Tree read = tree();
    EXPECT_EQ(read["/etc"].mode, S_IFDIR | 01777U);
    EXPECT_EQ(read["/etc"].uid, 70000U);
    EXPECT_EQ(read["/etc"].gid, 4'000'000'000U);
    EXPECT_EQ(read["/etc/passwd"].mode, S_IFREG | 04755U);
    EXPECT_EQ(read["/etc/passwd"].mtime.seconds, 1'700'000'000);
    EXPECT_EQ(read["/etc/passwd"].mtime.nanoseconds, 123'456'789U);
    EXPECT_EQ(read_image_file(path_, "/etc/passwd").value(), "root:x:0:0\n");
    EXPECT_EQ(read["/etc/empty"].size, 0U);
    EXPECT_EQ(read["/etc/short"].target, "/etc/passwd");
    EXPECT_EQ(read["/etc/short"].uid, 5U);
    EXPECT_EQ(read["/etc/long"].target, long_target);
    EXPECT_EQ(read["/etc/null"].major, 1U);
    EXPECT_EQ(read["/etc/null"].minor, 3U);
    EXPECT_EQ(read["/etc/big"].major, 4095U);
    EXPECT_EQ(read["/etc/big"].minor, 1048575U);
    EXPECT_EQ(read["/etc/pipe"].mode, S_IFIFO | 0600U);
    EXPECT_EQ(read["/etc/socket"].mode, S_IFSOCK | 0600U);
}

TEST_F(Ext4WriterTest, StreamsContentInAnyPieces) {
    const std::string content = noise(3'000'001);
    for (const size_t piece : {size_t{1000}, size_t{4096}, size_t{70'001}, content.size()}) {
        const std::string name = "pieces-" + std::to_string(piece);
        ASSERT_TRUE(writer_->begin_file(kRootIno, name, attributes(0644)).ok());
        for (size_t at = 0; at < content.size(); at += piece)
            ASSERT_TRUE(
                writer_->append(bytes(content).subspan(at, std::min(piece, content.size() - at))).ok());
        ASSERT_TRUE(writer_->end_file().ok());
    }
    finish();
    for (const auto& [path, node] : tree()) {
        if (path == "/") continue;
        EXPECT_TRUE(read_image_file(path_, path).value() == content) << path;
    }
}

TEST_F(Ext4WriterTest, HolesTakeNoSpace) {
    ASSERT_TRUE(writer_->begin_file(kRootIno, "sparse", attributes(0644)).ok());
    ASSERT_TRUE(writer_->append(bytes("start")).ok());
    ASSERT_TRUE(writer_->append_hole(uint64_t{5} << 30).ok());
    ASSERT_TRUE(writer_->append(bytes("end")).ok());
    ASSERT_TRUE(writer_->end_file().ok());
    file(kRootIno, "zeroes", std::string(size_t{8} << 20, '\0'));
    finish();
    Tree read = tree();
    EXPECT_EQ(read["/sparse"].size, (uint64_t{5} << 30) + 8);
    EXPECT_LE(read["/sparse"].allocated, 8192U);
    EXPECT_EQ(read["/zeroes"].size, size_t{8} << 20);
    EXPECT_EQ(read["/zeroes"].allocated, 0U);
    EXPECT_LT(host_bytes(), 2'000'000U);
    EXPECT_EQ(read_image_file(path_, "/zeroes").value(), std::string(size_t{8} << 20, '\0'));
}

TEST_F(Ext4WriterTest, FragmentedFilesGetAnExtentTree) {
    const std::string block = noise(4096);
    ASSERT_TRUE(writer_->begin_file(kRootIno, "comb", attributes(0644)).ok());
    for (int i = 0; i < 3000; ++i) {
        ASSERT_TRUE(writer_->append(bytes(block)).ok());
        ASSERT_TRUE(writer_->append_hole(4096).ok());
    }
    ASSERT_TRUE(writer_->end_file().ok());
    finish();
    const std::string read = read_image_file(path_, "/comb").value();
    ASSERT_EQ(read.size(), 3000U * 8192);
    for (size_t at = 0; at < read.size(); at += 8192) {
        ASSERT_TRUE(read.compare(at, 4096, block) == 0) << at;
        ASSERT_TRUE(read.compare(at + 4096, 4096, std::string(4096, '\0')) == 0) << at;
    }
}

TEST_F(Ext4WriterTest, LargeDirectoriesAreIndexed) {
    const Ino deep = directory(kRootIno, "deep");  // names so long that the index needs a second level
    const Ino original = file(kRootIno, "original", "x");
    for (int i = 0; i < 7000; ++i)
        ASSERT_TRUE(writer_->add_link(deep, std::string(240, 'n') + std::to_string(i), original).ok());
    const Ino wide = directory(kRootIno, "wide");
    for (int i = 0; i < 20000; ++i) file(wide, "n" + std::to_string(i), "");
    finish();
    // debugfs reads the index that the kernel would use.
    EXPECT_NE(command({"debugfs", "-R", "htree_dump /deep", path_}).find("Indirect levels: 1"),
              std::string::npos);
    EXPECT_NE(command({"debugfs", "-R", "htree_dump /wide", path_}).find("Indirect levels: 0"),
              std::string::npos);
    EXPECT_EQ(tree().size(), 1U + 1 + 1 + 7000 + 1 + 20000);
}

TEST_F(Ext4WriterTest, KeepsExtendedAttributesInTheInodeAndInABlock) {
    Attributes with = attributes(0755);
    const std::string capability(
        "\x01\x00\x00\x02\x00\x20\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", 20);
    // Version 2; user::rwx, user:1000:r-x, group::r-x, mask::r-x, other::r--
    const auto entry = [](uint16_t tag, uint16_t permissions, uint32_t id) {
        std::string out(8, '\0');
        base::store_le(out.data(), tag);
        base::store_le(out.data() + 2, permissions);
        base::store_le(out.data() + 4, id);
        return out;
    };
    const std::string acl = std::string("\x02\x00\x00\x00", 4) + entry(1, 7, ~0U) + entry(2, 5, 1000) +
                            entry(4, 5, ~0U) + entry(16, 5, ~0U) + entry(32, 4, ~0U);
    with.xattrs = {{"security.capability", capability},
                   {"user.large", noise(3000)},
                   {"trusted.none", ""},
                   {"system.posix_acl_access", acl},
                   {"com.apple.quarantine", "left out"}};
    const Ino ino = writer_->begin_file(kRootIno, "ping", with).value();
    ASSERT_TRUE(writer_->end_file().ok());
    (void)ino;
    finish();
    const auto xattrs = tree()["/ping"].xattrs;
    EXPECT_EQ(xattrs.size(), 4U);
    EXPECT_EQ(xattrs.at("security.capability"), capability);
    EXPECT_EQ(xattrs.at("user.large"), noise(3000));
    EXPECT_EQ(xattrs.at("trusted.none"), "");
    EXPECT_EQ(xattrs.at("system.posix_acl_access"), acl);
}

TEST_F(Ext4WriterTest, RefusesExtendedAttributesThatExt4CannotHold) {
    Attributes bad = attributes(0644);
    bad.xattrs = {{"user.x", std::string(5000, 'v')}};
    EXPECT_EQ(writer_->begin_file(kRootIno, "a", bad).error().code, ErrorCode::kInvalidArgument);
    bad.xattrs = {{"user." + std::string(251, 'n'), "v"}};
    EXPECT_EQ(writer_->begin_file(kRootIno, "a", bad).error().code, ErrorCode::kInvalidArgument);
    bad.xattrs = {{"system.posix_acl_access", "nonsense"}};
    EXPECT_EQ(writer_->begin_file(kRootIno, "a", bad).error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(writer_->find(kRootIno, "a"), nullptr);
    finish();
}

TEST_F(Ext4WriterTest, RefusesNamesThatExt4CannotHold) {
    for (const std::string& name : {std::string(), std::string("."), std::string(".."), std::string("a/b"),
                                    std::string("a\0b", 3), std::string(256, 'n')})
        EXPECT_EQ(writer_->add_directory(kRootIno, name, attributes(0755)).error().code,
                  ErrorCode::kInvalidArgument);
    EXPECT_TRUE(writer_->add_directory(kRootIno, std::string(255, 'n'), attributes(0755)).ok());
    EXPECT_EQ(writer_->add_directory(kRootIno, std::string(255, 'n'), attributes(0755)).error().code,
              ErrorCode::kAlreadyExists);
    finish();
}

TEST_F(Ext4WriterTest, HardLinksShareOneInode) {
    const Ino ino = file(kRootIno, "a", "shared");
    const Ino sub = directory(kRootIno, "sub");
    ASSERT_TRUE(writer_->add_link(sub, "b", ino).ok());
    ASSERT_TRUE(writer_->remove(kRootIno, "a").ok());
    ASSERT_TRUE(writer_->add_link(kRootIno, "c", ino).ok());
    EXPECT_FALSE(writer_->add_link(kRootIno, "d", sub).ok());
    const Ext4Summary summary = finish();
    EXPECT_EQ(summary.inodes, 3U);
    Tree read = tree();
    EXPECT_EQ(read["/sub/b"].links, 2U);
    EXPECT_EQ(read["/sub/b"].first_name, "/c");
    EXPECT_EQ(read_image_file(path_, "/c").value(), "shared");
}

TEST_F(Ext4WriterTest, RemovedTreesLeaveNothingBehind) {
    finish();
    const uint64_t empty = host_bytes();
    start();
    Ino at = directory(kRootIno, "tree");
    for (int depth = 0; depth < 3000; ++depth) {
        file(at, "file", noise(5000));
        at = directory(at, "d");
    }
    ASSERT_TRUE(writer_->remove(kRootIno, "tree").ok());
    EXPECT_EQ(writer_->remove(kRootIno, "tree").error().code, ErrorCode::kNotFound);
    const Ext4Summary summary = finish();
    EXPECT_EQ(summary.inodes, 1U);
    EXPECT_EQ(summary.used_bytes, 4096U);  // the root directory
    EXPECT_EQ(tree().size(), 1U);
    EXPECT_LE(host_bytes(), empty + 65536);
}

TEST_F(Ext4WriterTest, SameInputGivesSameBytes) {
    const auto build = [&](const std::string& to) {
        path_ = dir_->path() + "/" + to;
        Ext4Options options;
        options.size = uint64_t{256} << 20;
        options.uuid.fill(7);
        options.hash_seed.fill(9);
        options.timestamp = 1'700'000'000;
        start(options);
        const Ino sub = directory(kRootIno, "sub");
        for (int i = 0; i < 1000; ++i) file(sub, "file" + std::to_string(i), noise(static_cast<size_t>(i)));
        finish();
        return path_;
    };
    const std::string first = build("first");
    const std::string second = build("second");
    EXPECT_EQ(base::run_command({"cmp", first, second})->status.shell_code(), 0);
    EXPECT_NE(command({"dumpe2fs", "-h", first}).find("07070707-0707-0707-0707-070707070707"),
              std::string::npos);
}

TEST_F(Ext4WriterTest, FullFileSystemIsAnError) {
    start({.size = uint64_t{16} << 20});
    ASSERT_TRUE(writer_->begin_file(kRootIno, "large", attributes(0644)).ok());
    const auto written = writer_->append(bytes(noise(size_t{17} << 20)));
    ASSERT_FALSE(written.ok());
    EXPECT_EQ(written.error().code, ErrorCode::kResourceExhausted);
    EXPECT_NE(written.error().message.find("larger disk"), std::string::npos);
}

// A limit on file sizes stands in for a full disk: both fail the write.
TEST_F(Ext4WriterTest, FailedWriteIsAnError) {
    file(kRootIno, "file", noise(500'000));
    struct rlimit before;
    ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
    const struct rlimit tight = {4096, before.rlim_max};
    const auto handler = std::signal(SIGXFSZ, SIG_IGN);
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &tight), 0);
    const auto finished = writer_->finish();
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
    std::signal(SIGXFSZ, handler);
    ASSERT_FALSE(finished.ok());
    EXPECT_EQ(finished.error().code, ErrorCode::kStorage);
    EXPECT_NE(finished.error().message.find("File too large"), std::string::npos) << finished.error().message;
}

TEST_F(Ext4WriterTest, SizesFromSmallToLarge) {
    for (const uint64_t size : {uint64_t{16} << 20, uint64_t{100} << 20, (uint64_t{1} << 30) + 4096 * 11,
                                uint64_t{8} << 30, uint64_t{100} << 30, uint64_t{1} << 40}) {
        start({.size = size});
        file(kRootIno, "file", noise(100'000));
        finish();
        EXPECT_LT(host_bytes(), 16'000'000U) << size;
    }
    base::Fd fd = base::open_file(dir_->path() + "/tiny", O_RDWR | O_CREAT).value();
    EXPECT_EQ(Ext4Writer::create(fd.get(), {.size = 4096}).error().code, ErrorCode::kInvalidArgument);
}

TEST_F(Ext4WriterTest, TimesBeyondThirtyTwoBits) {
    Attributes old = attributes(0644);
    old.mtime = {-1, 999'999'999};
    Attributes late = attributes(0644);
    late.mtime = {5'000'000'000, 1};
    ASSERT_TRUE(writer_->add_directory(kRootIno, "old", old).ok());
    ASSERT_TRUE(writer_->add_directory(kRootIno, "late", late).ok());
    finish();
    Tree read = tree();
    EXPECT_EQ(read["/old"].mtime.seconds, -1);
    EXPECT_EQ(read["/old"].mtime.nanoseconds, 999'999'999U);
    EXPECT_EQ(read["/late"].mtime.seconds, 5'000'000'000);
}

}  // namespace
}  // namespace boxlite::disk
