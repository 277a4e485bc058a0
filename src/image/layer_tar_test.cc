#include "image/layer_tar.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "base/file.h"
#include "base/process.h"
#include "image/layer_tar_pax.h"
#include "image/layer_testing.h"

namespace boxlite::image {
namespace {

using testing::EntryOptions;
using testing::padded;
using testing::pax_record;
using testing::tar_header;
using testing::TarBuilder;

// Hands an archive out in pieces of one size.
class Pieces : public ChunkSource {
  public:
    Pieces(std::string data, size_t piece) : data_(std::move(data)), piece_(piece) {}
    Result<std::span<const uint8_t>> next() override {
        const std::string_view piece = std::string_view(data_).substr(at_, piece_);
        at_ += piece.size();
        return base::as_bytes(piece);
    }

  private:
    std::string data_;
    size_t piece_;
    size_t at_ = 0;
};

struct ReadEntry {
    TarEntry entry;
    std::string content;
    uint64_t holes = 0;
};

Result<std::vector<ReadEntry>> read_all(const std::string& archive, size_t piece = 1 << 20) {
    Pieces pieces(archive, piece);
    TarReader reader(pieces);
    std::vector<ReadEntry> entries;
    ReadEntry now;
    while (TRY(reader.next(now.entry))) {
        now.content.clear();
        now.holes = 0;
        for (;;) {
            const TarPiece part = TRY(reader.read());
            if (part.at_end()) break;
            now.content += base::as_text(part.data);
            now.content.append(part.hole, '\0');
            now.holes += part.hole;
        }
        entries.push_back(now);
    }
    return entries;
}

std::string error_of(const std::string& archive) {
    const auto read = read_all(archive);
    if (read.ok()) return "";
    EXPECT_EQ(read.error().code, ErrorCode::kImage);
    return read.error().message;
}

TEST(TarReader, ReadsHeadersInPiecesOfAnySize) {
    EntryOptions options{.mode = 04755, .uid = 1000, .gid = 2000};
    const std::string archive = TarBuilder()
                                    .directory("etc/")
                                    .file("etc/passwd", "root\n", options)
                                    .symlink("link", "etc/passwd")
                                    .hard_link("hard", "etc/passwd")
                                    .add('3', "null", "", "", {.mode = 0666, .major = 1, .minor = 3})
                                    .add('4', "disk", "", "", {.major = 8, .minor = 16})
                                    .add('6', "pipe", "", "")
                                    .file(std::string(200, 'n'), std::string(1000, 'x'))
                                    .finish();
    for (const size_t piece : {size_t{1}, size_t{511}, size_t{512}, size_t{100'000}}) {
        const auto read = read_all(archive, piece);
        ASSERT_TRUE(read.ok()) << read.error().message;
        ASSERT_EQ(read->size(), 8U);
        EXPECT_EQ((*read)[0].entry.type, TarType::kDirectory);
        EXPECT_EQ((*read)[1].content, "root\n");
        EXPECT_EQ((*read)[1].entry.mode, 04755U);
        EXPECT_EQ((*read)[1].entry.uid, 1000U);
        EXPECT_EQ((*read)[1].entry.gid, 2000U);
        EXPECT_EQ((*read)[1].entry.mtime.seconds, 1'700'000'000);
        EXPECT_EQ((*read)[2].entry.link, "etc/passwd");
        EXPECT_EQ((*read)[3].entry.type, TarType::kHardLink);
        EXPECT_EQ((*read)[4].entry.minor, 3U);
        EXPECT_EQ((*read)[5].entry.major, 8U);
        EXPECT_EQ((*read)[6].entry.type, TarType::kFifo);
        EXPECT_EQ((*read)[7].entry.path, std::string(200, 'n'));
        EXPECT_EQ((*read)[7].content, std::string(1000, 'x'));
    }
}

TEST(TarReader, PaxRecordsOverrideTheHeader) {
    EntryOptions options;
    options.pax = {{"path", "n\xe4me"},  // not UTF-8: kept as it is
                   {"uid", "3000000000"},
                   {"gid", "4294967294"},
                   {"mtime", "-1.5"},
                   {"atime", "7.000000001"},
                   {"comment", "nothing"},
                   {"SCHILY.xattr.user.a", std::string("v\0\n=", 4)},
                   {"LIBARCHIVE.xattr.user.b%20c", "dmFsdWU"}};
    const auto read = read_all(TarBuilder().file("other", "x", options).finish());
    ASSERT_TRUE(read.ok()) << read.error().message;
    const TarEntry& entry = read->at(0).entry;
    EXPECT_EQ(entry.path, "n\xe4me");
    EXPECT_EQ(entry.uid, 3'000'000'000U);
    EXPECT_EQ(entry.gid, 4'294'967'294U);
    EXPECT_EQ(entry.mtime.seconds, -2);
    EXPECT_EQ(entry.mtime.nanoseconds, 500'000'000U);
    EXPECT_EQ(entry.atime.nanoseconds, 1U);
    const disk::Xattrs expected = {{"user.b c", "value"}, {"user.a", std::string("v\0\n=", 4)}};
    EXPECT_EQ(entry.xattrs, expected);
}

// CVE-2025-62518: the record's size counts for the data and for where the next header is, so that the archive
// hidden in the data is never taken for entries of this one.
TEST(TarReader, SizesThatDisagreeSmuggleNothing) {
    const std::string hidden = TarBuilder().file("smuggled", "evil").finish();
    const std::string records = pax_record("size", std::to_string(hidden.size()));
    const std::string archive = TarBuilder()
                                    .raw(tar_header('x', "pax", "", records.size()) + padded(records))
                                    .raw(tar_header('0', "nested.tar", "", 0) + padded(hidden))
                                    .file("after", "ok")
                                    .finish();
    const auto read = read_all(archive);
    ASSERT_TRUE(read.ok()) << read.error().message;
    ASSERT_EQ(read->size(), 2U);
    EXPECT_EQ(read->at(0).content, hidden);
    EXPECT_EQ(read->at(1).entry.path, "after");
}

// What GNU tar and bsdtar write is read as they meant it, in every format they have.
TEST(TarReader, ReadsWhatOtherProgramsWrite) {
    const auto dir = base::TempDir::make().value();
    const std::string root = dir.path() + "/root";
    ASSERT_TRUE(base::make_directories(root + "/" + std::string(120, 'd')).ok());
    const std::string long_name = std::string(120, 'd') + "/" + std::string(150, 'f');
    ASSERT_TRUE(base::write_file_atomically(root + "/" + long_name, base::as_bytes("long")).ok());
    {
        std::ofstream sparse(root + "/sparse", std::ios::binary);
        for (int i = 0; i < 60; ++i) {
            sparse.seekp(i * 100'000);
            sparse << "data" << i;
        }
    }
    ASSERT_EQ(::truncate((root + "/sparse").c_str(), 8'000'000), 0);
    const std::string sparse_content = base::read_file(root + "/sparse", size_t{100} << 20).value();
    const std::vector<std::vector<std::string>> programs = {
        {"tar", "-S", "--format=gnu"},
        {"tar", "-S", "--format=posix", "--sparse-version=0.0"},
        {"tar", "-S", "--format=posix", "--sparse-version=0.1"},
        {"tar", "-S", "--format=posix", "--sparse-version=1.0"},
        {"tar", "--format=oldgnu"},
        {"bsdtar", "--format=pax"},
        {"bsdtar", "--format=gnutar"},
    };
    for (auto argv : programs) {
        const std::string archive = dir.path() + "/archive";
        const std::string name = argv[0] + " " + argv.back();
        const bool keeps_holes = name != "tar --format=oldgnu" && name != "bsdtar --format=gnutar";
        argv.insert(argv.end(), {"-cf", archive, "-C", root, "."});
        ASSERT_EQ(base::run_command(argv)->status.shell_code(), 0) << name;
        const auto read = read_all(base::read_file(archive, size_t{100} << 20).value(), 10'000);
        ASSERT_TRUE(read.ok()) << name << ": " << read.error().message;
        std::map<std::string, const ReadEntry*> found;
        for (const ReadEntry& entry : *read) found[entry.entry.path] = &entry;
        ASSERT_TRUE(found.contains("./" + long_name)) << name;
        EXPECT_EQ(found["./" + long_name]->content, "long") << name;
        ASSERT_TRUE(found.contains("./sparse")) << name;
        EXPECT_EQ(found["./sparse"]->entry.size, 8'000'000U) << name;
        EXPECT_TRUE(found["./sparse"]->content == sparse_content) << name;
        EXPECT_EQ(found["./sparse"]->holes > 7'000'000U, keeps_holes) << name;
    }
}

TEST(TarReader, EndsLikeOtherReaders) {
    const std::string file = TarBuilder().file("a", "x").finish();
    EXPECT_EQ(read_all(file)->size(), 1U);
    EXPECT_EQ(read_all(file.substr(0, 1024))->size(), 1U);  // no zero blocks
    EXPECT_EQ(read_all(file.substr(0, 1536))->size(), 1U);  // one
    EXPECT_EQ(read_all(file + file)->size(), 1U);           // what follows the end is not looked at
    EXPECT_EQ(read_all("")->size(), 0U);
    EXPECT_NE(error_of(file.substr(0, 1000)), "");
    EXPECT_NE(error_of(file.substr(0, 600)), "");
    EXPECT_NE(error_of(file.substr(0, 100)), "");
    EXPECT_NE(error_of(std::string(512, '\0') + file), "");
}

TEST(TarReader, RefusesDamage) {
    std::string archive = TarBuilder().file("a", "x").finish();
    archive[0] ^= 1;
    EXPECT_NE(error_of(archive).find("checksum"), std::string::npos);
    EXPECT_NE(error_of(tar_header('0', "a", "", uint64_t{1} << 50)).find("size"), std::string::npos);
    EXPECT_NE(error_of(tar_header('Q', "a", "", 0)).find("type"), std::string::npos);
    EXPECT_NE(error_of(tar_header('x', "a", "", uint64_t{1} << 30)).find("extension header"),
              std::string::npos);
    EXPECT_NE(error_of(tar_header('L', "a", "", uint64_t{1} << 30)).find("extension header"),
              std::string::npos);
    EXPECT_NE(error_of(tar_header('0', "a", "", 0, {.uid = UINT32_MAX})).find("owner"), std::string::npos);
    EXPECT_NE(error_of(tar_header('0', "a", "", 0, {.gid = uint64_t{1} << 40})).find("owner"),
              std::string::npos);
}

TEST(TarReader, RefusesBrokenPaxRecords) {
    for (const std::string& records :
         {std::string("x"), std::string("12 path=abc"), std::string("99 path=a\n"), std::string("0 a=b\n"),
          std::string("5 a=b\n"), std::string("7 nothing\n"), std::string("-6 a=b\n"), std::string("6 =ab\n"),
          std::string("99999999999999999999999 a=b\n"), pax_record("size", "-1"), pax_record("size", "1e3"),
          pax_record("uid", "0x10"), pax_record("mtime", "soon"), pax_record("mtime", "1.x"),
          pax_record("LIBARCHIVE.xattr.user.a", "!"), pax_record("size", "99999999999999999999999999")}) {
        const std::string archive = tar_header('x', "pax", "", records.size()) + padded(records);
        EXPECT_NE(error_of(archive + TarBuilder().file("a", "x").finish()), "") << records;
    }
}

TEST(TarReader, RefusesCrowdsOfExtendedAttributes) {
    EntryOptions options;
    for (int i = 0; i < 513; ++i) options.pax.emplace_back("SCHILY.xattr.user." + std::to_string(i), "");
    EXPECT_NE(error_of(TarBuilder().file("a", "", options).finish()).find("extended attributes"),
              std::string::npos);
}

TEST(TarReader, RefusesBrokenSparseMaps) {
    const auto sparse = [](const std::string& map, const std::string& size, const std::string& data) {
        EntryOptions options;
        options.pax = {{"GNU.sparse.map", map}, {"GNU.sparse.size", size}};
        return TarBuilder().file("a", data, options).finish();
    };
    EXPECT_EQ(error_of(sparse("0,1,4096,1", "8192", "xy")), "");
    EXPECT_NE(error_of(sparse("0,1,4096,2", "8192", "xy")), "");              // more than there is
    EXPECT_NE(error_of(sparse("0,1", "8192", "xy")), "");                     // less than there is
    EXPECT_NE(error_of(sparse("4096,1,0,1", "8192", "xy")), "");              // not ascending
    EXPECT_NE(error_of(sparse("0,2", "1", "xy")), "");                        // past the end
    EXPECT_NE(error_of(sparse("18446744073709551615,2", "8192", "xy")), "");  // overflow
    EXPECT_NE(error_of(sparse("0,1,2", "8192", "x")), "");
    EXPECT_NE(error_of(sparse("", "99999999999999999", "")), "");  // too large
    EXPECT_NE(
        error_of(TarBuilder()
                     .file("a", "99999999\n", {.pax = {{"GNU.sparse.major", "1"}, {"GNU.sparse.minor", "0"}}})
                     .finish()),
        "");
}

TEST(TarReader, NumbersInBase256) {
    const auto field = [](std::initializer_list<uint8_t> bytes) { return std::vector<uint8_t>(bytes); };
    EXPECT_EQ(parse_tar_number(field({0x80, 0, 0, 0, 0, 0, 0x10, 0})), 4096U);
    EXPECT_EQ(parse_tar_time(field({0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe})), -2);
    EXPECT_EQ(parse_tar_number(field({0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe})), std::nullopt);
    EXPECT_EQ(parse_tar_number(field({0x80, 0, 0, 0, 0x80, 0, 0, 0, 0, 0, 0, 0})), std::nullopt);
    EXPECT_EQ(parse_tar_number(field({' ', '0', '7', '7', ' ', 0})), 63U);
    EXPECT_EQ(parse_tar_number(field({'8', 0, 0, 0})), std::nullopt);
    EXPECT_EQ(parse_tar_number(field({0, 0, 0, 0})), 0U);
}

}  // namespace
}  // namespace boxlite::image
