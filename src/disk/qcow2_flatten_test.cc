#include "disk/qcow2_flatten.h"

#include <filesystem>

#include "base/file.h"
#include "disk/qcow2_test_support.h"

namespace boxlite::disk {
namespace {

using namespace testing;

constexpr uint64_t kSize = uint64_t{24} << 20;

struct Flatten : ::testing::Test {
    std::string at(const std::string& name) const { return folder + "/" + name; }
    // Empty, on `below`.
    void overlay(const std::string& name, const std::string& below, ImageFormat format,
                 uint64_t size = kSize) const {
        must(Qcow2::create(at(name), {.virtual_size = size, .backing = Backing{below, format}}));
    }
    std::unique_ptr<Qcow2> open(const std::string& name, bool read_only = false) const {
        return must(Qcow2::open(at(name), {.read_only = read_only, .backing_dirs = {folder}}));
    }
    // What a foreign tool reads.
    base::Bytes content(const std::string& name) const {
        run({"qemu-img", "convert", "-f", "qcow2", "-O", "raw", at(name), at("raw")});
        const std::string text = must(base::read_file(at("raw")));
        return {text.begin(), text.end()};
    }

    base::TempDir dir = must(base::TempDir::make());
    std::string folder = dir.path();
};

TEST_F(Flatten, ReadsAsTheChainAndStandsOnItsBottom) {
    Random random(7);
    write_whole(at("base"), random.bytes(kSize / 2));  // the rest of the disk is zeroes
    overlay("one", "base", ImageFormat::kRaw, kSize / 2 + (1 << 20));
    overlay("two", "one", ImageFormat::kQcow2);
    overlay("three", "two", ImageFormat::kQcow2);
    for (const char* name : {"one", "two", "three"}) {
        const auto disk = open(name);
        for (int i = 0; i < 40; ++i) {
            const uint64_t offset = random.below(disk->size()) / 512 * 512;
            const uint64_t length = std::min((random.below(300000) / 512 + 1) * 512, disk->size() - offset);
            if (random.one_in(4))
                must(disk->write_zeroes(offset, length));
            else if (random.one_in(6))
                must(disk->discard(offset, length));
            else
                must(disk->write(offset, random.bytes(length)));
        }
        must(disk->close());
    }
    const base::Bytes before = content("three");
    must(flatten_qcow2(at("three"), at("flat"), {folder}));
    expect_clean(at("flat"));
    EXPECT_EQ(content("flat"), before);
    const Qcow2Info info = must(qcow2_info(at("flat")));
    EXPECT_EQ(info.backing->path, "base");
    EXPECT_EQ(info.backing->format, ImageFormat::kRaw);
    EXPECT_EQ(content("three"), before) << "the chain is as it was";
}

TEST_F(Flatten, WhatNoOverlayWroteStaysBelow) {
    write_whole(at("base"), Random(8).bytes(kSize));
    overlay("one", "base", ImageFormat::kRaw);
    overlay("two", "one", ImageFormat::kQcow2);
    const auto disk = open("one");
    must(disk->write(5 << 20, base::Bytes(65536, 1)));
    must(disk->close());
    must(flatten_qcow2(at("two"), at("flat"), {folder}));
    EXPECT_LT(must(open("flat", true)->allocated_size()), uint64_t{1} << 20);
}

TEST_F(Flatten, NothingIsLeftOfOneThatFails) {
    write_whole(at("base"), base::Bytes(kSize));
    overlay("one", "base", ImageFormat::kRaw);
    EXPECT_FALSE(flatten_qcow2(at("one"), at("one"), {folder}).ok()) << "there is something already";
    EXPECT_TRUE(std::filesystem::exists(at("one")));
    std::filesystem::remove(at("base"));
    EXPECT_FALSE(flatten_qcow2(at("one"), at("flat"), {folder}).ok());
    EXPECT_FALSE(std::filesystem::exists(at("flat")));
}

}  // namespace
}  // namespace boxlite::disk
