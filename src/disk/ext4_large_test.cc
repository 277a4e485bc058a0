// Limits of ext4 that take a while to reach.
#include <fcntl.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "disk/ext4_testing.h"
#include "disk/ext4_writer.h"

namespace boxlite::disk {
namespace {

TEST(Ext4Large, DirectoryWithMoreSubdirectoriesThanLinksCanCount) {
    const auto dir = base::TempDir::make().value();
    const std::string path = dir.path() + "/image";
    const base::Fd fd = base::open_file(path, O_RDWR | O_CREAT).value();
    auto writer = Ext4Writer::create(fd.get(), {}).value();
    const Ino many = writer->add_directory(kRootIno, "many", {.mode = 0755}).value();
    for (int i = 0; i < 65'100; ++i)
        ASSERT_TRUE(writer->add_directory(many, std::to_string(i), {.mode = 0755}).ok());
    const Ino file = writer->begin_file(kRootIno, "file", {.mode = 0644}).value();
    ASSERT_TRUE(writer->end_file().ok());
    for (int i = 1; i < 65'000; ++i)
        ASSERT_TRUE(writer->add_link(many, "link" + std::to_string(i), file).ok());
    EXPECT_EQ(writer->add_link(many, "one more", file).error().code, ErrorCode::kResourceExhausted);
    ASSERT_TRUE(writer->finish().ok());
    EXPECT_EQ(check_image(path), "");
}

}  // namespace
}  // namespace boxlite::disk
