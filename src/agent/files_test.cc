#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "agent/testing.h"

namespace boxlite::agent_test {
namespace {

class FilesTest : public ContainerTest {
  protected:
    Result<v1::FileInfo> stat(const std::string& path, bool follow = false) {
        v1::StatRequest request;
        request.set_path(path);
        request.set_follow(follow);
        return files<v1::FileInfo>("Stat", request);
    }
    static v1::OpenRequest to_write(const std::string& path) {
        v1::OpenRequest request;
        request.set_path(path);
        request.set_write(true);
        request.set_mode(0640);
        return request;
    }
    static v1::OpenRequest to_read(const std::string& path, bool follow = true) {
        v1::OpenRequest request;
        request.set_path(path);
        request.set_follow(follow);
        return request;
    }
    Result<uint64_t> open(const v1::OpenRequest& request) {
        return TRY(files<v1::OpenResponse>("Open", request)).handle();
    }
    Result<std::string> read_at(uint64_t handle, uint64_t offset, uint32_t max = 1 << 20) {
        v1::ReadAtRequest request;
        request.set_handle(handle);
        request.set_offset(offset);
        request.set_max_bytes(max);
        return TRY(files<v1::ReadAtResponse>("ReadAt", request)).data();
    }
    Result<void> write_at(uint64_t handle, uint64_t offset, const std::string& data) {
        v1::WriteAtRequest request;
        request.set_handle(handle);
        request.set_offset(offset);
        request.set_data(data);
        TRY(files<v1::Empty>("WriteAt", request));
        return {};
    }
    Result<void> close_file(uint64_t handle, const v1::FileInfo* attributes = nullptr) {
        v1::CloseFileRequest request;
        request.set_handle(handle);
        if (attributes) *request.mutable_attributes() = *attributes;
        TRY(files<v1::Empty>("CloseFile", request));
        return {};
    }
    static v1::MakeRequest to_make(const std::string& path, v1::FileType type) {
        v1::MakeRequest request;
        request.set_path(path);
        request.mutable_attributes()->set_type(type);
        request.mutable_attributes()->set_mode(0755);
        return request;
    }
    Result<void> make(const v1::MakeRequest& request) {
        TRY(files<v1::Empty>("Make", request));
        return {};
    }
    Result<void> remove(const std::string& path, bool recursive = false) {
        v1::RemoveRequest request;
        request.set_path(path);
        request.set_recursive(recursive);
        TRY(files<v1::Empty>("Remove", request));
        return {};
    }
    v1::ListResponse list(const std::string& path, const std::string& after = "", uint32_t limit = 0) {
        v1::ListRequest request;
        request.set_path(path);
        request.set_after(after);
        request.set_limit(limit);
        return files<v1::ListResponse>("List", request).value();
    }
};

TEST_F(FilesTest, StatTellsWhatTheHostSees) {
    put("/etc/file", "12345", 04751);
    ASSERT_EQ(::chown(root("/etc/file").c_str(), 12, 34), 0);
    ASSERT_EQ(::chmod(root("/etc/file").c_str(), 04751), 0);
    const timespec times[2] = {{1, 0}, {1'000'000'000, 123'456'789}};
    ASSERT_EQ(::utimensat(AT_FDCWD, root("/etc/file").c_str(), times, 0), 0);
    ASSERT_EQ(::setxattr(root("/etc/file").c_str(), "user.note", "a\0b", 3, 0), 0);
    ASSERT_EQ(::symlink("file", root("/etc/link").c_str()), 0);
    serve();
    const v1::FileInfo info = stat("/etc/file").value();
    EXPECT_EQ(info.name(), "file");
    EXPECT_EQ(info.type(), v1::REGULAR);
    EXPECT_EQ(info.mode(), 04751u);
    EXPECT_EQ(info.uid(), 12u);
    EXPECT_EQ(info.gid(), 34u);
    EXPECT_EQ(info.size(), 5u);
    EXPECT_EQ(info.mtime_ns(), 1'000'000'000'123'456'789);
    ASSERT_EQ(info.xattrs_size(), 1);
    EXPECT_EQ(info.xattrs(0).name(), "user.note");
    EXPECT_EQ(info.xattrs(0).value(), std::string("a\0b", 3));
    const v1::FileInfo link = stat("/etc/link").value();
    EXPECT_EQ(link.type(), v1::SYMLINK);
    EXPECT_EQ(link.link_target(), "file");
    EXPECT_EQ(stat("/etc/link", true).value().size(), 5u);
    EXPECT_EQ(stat("/etc/none").error().code, ErrorCode::kNotFound);
    EXPECT_EQ(stat("/").value().type(), v1::DIRECTORY);
    EXPECT_EQ(stat("/dev/null").value().rdev_minor(), 3u);
    EXPECT_EQ(stat(std::string("/etc\0/x", 7)).error().code, ErrorCode::kInvalidArgument);
}

TEST_F(FilesTest, ListPagesInOrder) {
    ASSERT_EQ(::mkdir(root("/many").c_str(), 0755), 0);
    for (int i = 0; i < 50; ++i) put("/many/f" + std::to_string(i), "");
    serve();
    std::vector<std::string> names;
    std::string after;
    for (;;) {
        const v1::ListResponse page = list("/many", after, 7);
        EXPECT_LE(page.entries_size(), 7);
        for (const v1::FileInfo& info : page.entries()) names.push_back(info.name());
        if (!page.more()) break;
        after = names.back();
    }
    std::vector<std::string> wanted;
    for (int i = 0; i < 50; ++i) wanted.push_back("f" + std::to_string(i));
    std::sort(wanted.begin(), wanted.end());
    EXPECT_EQ(names, wanted);
    EXPECT_EQ(list("/many", "f9").entries_size(), 0);
    v1::ListRequest request;
    request.set_path("/etc/passwd");
    EXPECT_EQ(files<v1::ListResponse>("List", request).error().code, ErrorCode::kNotFound);
}

TEST_F(FilesTest, WriteReadAndAttributes) {
    serve();
    v1::OpenRequest request = to_write("/new/folder/file");
    EXPECT_EQ(open(request).error().code, ErrorCode::kNotFound);
    request.set_make_parents(true);
    const uint64_t handle = open(request).value();
    ASSERT_TRUE(write_at(handle, 0, "hello").ok());
    ASSERT_TRUE(write_at(handle, 1 << 20, std::string(1 << 20, 'x')).ok());
    v1::FileInfo attributes;
    attributes.set_mode(06711);
    attributes.set_uid(77);
    attributes.set_gid(88);
    attributes.set_mtime_ns(-1'500'000'000);
    attributes.set_size(5 << 20);
    auto* xattr = attributes.add_xattrs();
    xattr->set_name("user.k");
    xattr->set_value("v");
    ASSERT_TRUE(close_file(handle, &attributes).ok());
    EXPECT_EQ(close_file(handle).error().code, ErrorCode::kNotFound);
    struct stat status;
    ASSERT_EQ(::stat(root("/new/folder/file").c_str(), &status), 0);
    EXPECT_EQ(status.st_mode, S_IFREG | 06711u);
    EXPECT_EQ(status.st_uid, 77u);
    EXPECT_EQ(status.st_gid, 88u);
    EXPECT_EQ(status.st_size, 5 << 20);
    EXPECT_LT(status.st_blocks * 512, 2 << 20);  // holes stay holes
    EXPECT_EQ(status.st_mtim.tv_sec, -2);
    EXPECT_EQ(status.st_mtim.tv_nsec, 500'000'000);

    const uint64_t reader = open(to_read("/new/folder/file")).value();
    EXPECT_EQ(read_at(reader, 0, 7).value(), std::string("hello\0\0", 7));
    EXPECT_EQ(read_at(reader, (2 << 20) - 1).value(), "x" + std::string((1 << 20) - 1, '\0'));
    EXPECT_EQ(read_at(reader, 5 << 20).value(), "");
    EXPECT_EQ(read_at(reader, 0, 0).error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(write_at(reader, 0, "x").error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(read_at(999, 0).error().code, ErrorCode::kNotFound);

    request.set_exclusive(true);
    EXPECT_EQ(open(request).error().code, ErrorCode::kAlreadyExists);
    request.set_exclusive(false);
    EXPECT_TRUE(open(request).ok());
    EXPECT_EQ(stat("/new/folder/file").value().size(), 0u);
}

TEST_F(FilesTest, OnlyRegularFilesAreOpened) {
    ASSERT_EQ(::mkfifo(root("/tmp/fifo").c_str(), 0600), 0);
    ASSERT_EQ(::symlink("/etc/passwd", root("/tmp/link").c_str()), 0);
    serve();
    for (const char* path : {"/tmp/fifo", "/dev/zero", "/etc"}) {
        EXPECT_EQ(open(to_read(path)).error().code, ErrorCode::kInvalidArgument) << path;
        EXPECT_EQ(open(to_write(path)).error().code, ErrorCode::kInvalidArgument) << path;
    }
    EXPECT_EQ(open(to_read("/tmp/link", false)).error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(open(to_write("/tmp/link")).error().code, ErrorCode::kInvalidArgument);
    EXPECT_TRUE(open(to_read("/tmp/link")).ok());
}

TEST_F(FilesTest, HandlesAreBounded) {
    serve();
    for (int i = 0; i < 256; ++i) ASSERT_TRUE(open(to_read("/etc/passwd")).ok());
    EXPECT_EQ(open(to_read("/etc/passwd")).error().code, ErrorCode::kResourceExhausted);
}

TEST_F(FilesTest, MakesEveryType) {
    serve();
    v1::MakeRequest request = to_make("/a/b/dir", v1::DIRECTORY);
    EXPECT_EQ(make(request).error().code, ErrorCode::kNotFound);
    request.set_make_parents(true);
    request.mutable_attributes()->set_mode(01777);
    request.mutable_attributes()->set_uid(5);
    ASSERT_TRUE(make(request).ok());
    ASSERT_TRUE(make(request).ok());  // is taken as it is
    request = to_make("/a/link", v1::SYMLINK);
    request.mutable_attributes()->set_link_target("../anywhere");
    request.mutable_attributes()->set_uid(6);
    request.mutable_attributes()->set_mtime_ns(42'000'000'000);
    ASSERT_TRUE(make(request).ok());
    EXPECT_EQ(make(request).error().code, ErrorCode::kAlreadyExists);
    request.set_replace(true);
    ASSERT_TRUE(make(request).ok());
    request = to_make("/a/fifo", v1::FIFO);
    ASSERT_TRUE(make(request).ok());
    request = to_make("/a/device", v1::CHAR_DEVICE);
    request.mutable_attributes()->set_rdev_major(1);
    request.mutable_attributes()->set_rdev_minor(7);
    ASSERT_TRUE(make(request).ok());
    request = to_make("/a/b", v1::FIFO);
    request.set_replace(true);
    EXPECT_EQ(make(request).error().code, ErrorCode::kAlreadyExists);  // not over a directory
    EXPECT_EQ(
        output("cd /a; stat -c '%A %u %t:%T %n' b/dir link fifo device; readlink link; stat -c %Y link"),
        "drwxrwxrwt 5 0:0 b/dir\nlrwxrwxrwx 6 0:0 link\nprwxr-xr-x 0 0:0 fifo\ncrwxr-xr-x 0 1:7 device\n"
        "../anywhere\n42\n");
    for (const char* path : {"/", "/a/..", "/a/.", ""})
        EXPECT_EQ(make(to_make(path, v1::DIRECTORY)).error().code, ErrorCode::kInvalidArgument) << path;
}

TEST_F(FilesTest, RemovesFilesAndTrees) {
    const base::TempDir outside = base::TempDir::make().value();
    ASSERT_TRUE(base::write_file_atomically(outside.path() + "/keep", base::as_bytes("k")).ok());
    serve();
    output("mkdir -p /t/a/b/c; touch /t/a/file; ln -s /etc /t/a/etc; ln -s " + outside.path() +
           " /t/out; "
           "i=0; while [ $i -lt 1500 ]; do echo > /t/a/b/f$i; i=$((i+1)); done");
    EXPECT_EQ(remove("/t").error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(remove("/none").error().code, ErrorCode::kNotFound);
    EXPECT_TRUE(remove("/t/a/file").ok());
    EXPECT_TRUE(remove("/t/a/b/c").ok());
    EXPECT_TRUE(remove("/t", true).ok());
    EXPECT_EQ(stat("/t").error().code, ErrorCode::kNotFound);
    EXPECT_TRUE(stat("/etc/passwd").ok());
    EXPECT_TRUE(base::path_exists(outside.path() + "/keep"));
    EXPECT_EQ(remove("/t", true).error().code, ErrorCode::kNotFound);
    EXPECT_EQ(remove("/", true).error().code, ErrorCode::kInvalidArgument);
}

TEST_F(FilesTest, ADeepTreeIsRemoved) {
    std::string deep = root("/tmp");
    for (int i = 0; i < 300; ++i) deep += "/d";
    ASSERT_TRUE(base::make_directories(deep).ok());
    serve();
    EXPECT_TRUE(remove("/tmp/d", true).ok());
    EXPECT_EQ(stat("/tmp/d").error().code, ErrorCode::kNotFound);
}

// Fault rows 11 and 13: whatever links the container makes, and however it swaps them, paths stay inside.
TEST_F(FilesTest, LinksNeverLeadOutside) {
    const base::TempDir outside = base::TempDir::make().value();
    ASSERT_TRUE(base::write_file_atomically(outside.path() + "/secret", base::as_bytes("secret")).ok());
    for (const char* link : {"/abs", "/tmp/abs"})
        ASSERT_EQ(::symlink(outside.path().c_str(), root(link).c_str()), 0);
    ASSERT_EQ(::symlink("../../../../../../..", root("/tmp/up").c_str()), 0);
    serve();
    EXPECT_FALSE(open(to_read("/abs/secret")).ok());
    EXPECT_FALSE(open(to_read("/tmp/up" + outside.path() + "/secret")).ok());
    EXPECT_FALSE(open(to_read("/../../" + outside.path() + "/secret")).ok());
    v1::OpenRequest request = to_write("/abs/new");
    EXPECT_FALSE(open(request).ok());
    EXPECT_FALSE(base::path_exists(outside.path() + "/new"));
    // The container's own /proc leads to other roots; magic links are not followed.
    EXPECT_FALSE(open(to_read("/proc/1/root/etc/passwd")).ok());
    EXPECT_FALSE(open(to_read("/proc/self/exe")).ok());
    EXPECT_TRUE(base::path_exists(outside.path() + "/secret"));
}

TEST_F(FilesTest, ALinkThatIsSwappedDuringTheCopy) {
    const base::TempDir outside = base::TempDir::make().value();
    ASSERT_TRUE(base::write_file_atomically(outside.path() + "/f", base::as_bytes("secret")).ok());
    ASSERT_EQ(::mkdir(root("/race").c_str(), 0755), 0);
    ASSERT_EQ(::mkdir(root("/race/dir").c_str(), 0755), 0);
    put("/race/dir/f", "public");
    ASSERT_EQ(::symlink(outside.path().c_str(), root("/race/link").c_str()), 0);
    serve();
    std::atomic<bool> stop = false;
    std::thread swapper([&] {
        while (!stop)
            ::renameat2(AT_FDCWD, root("/race/dir").c_str(), AT_FDCWD, root("/race/link").c_str(),
                        RENAME_EXCHANGE);
    });
    int reads = 0;
    for (int i = 0; i < 3000; ++i) {
        const auto handle = open(to_read("/race/dir/f"));
        if (!handle) continue;
        EXPECT_EQ(read_at(*handle, 0).value(), "public");
        EXPECT_TRUE(close_file(*handle).ok());
        ++reads;
    }
    stop = true;
    swapper.join();
    EXPECT_GT(reads, 0);
}

}  // namespace
}  // namespace boxlite::agent_test
