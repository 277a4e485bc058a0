#include "virtio/block.h"

#include <gtest/gtest.h>

#include "virtio/disk_testing.h"
#include "virtio/testing.h"

namespace boxlite::virtio {
namespace {

using testing::Buffer;

constexpr uint32_t kIn = 0, kOut = 1, kFlush = 4, kGetId = 8, kDiscard = 11, kWriteZeroes = 13;
constexpr uint8_t kOk = 0, kIoError = 1, kUnsupported = 2;
constexpr uint8_t kUntouched = 0xee;
constexpr uint64_t kSectors = 64;

struct BlockTest : ::testing::Test {
    explicit BlockTest(bool read_only = false) {
        auto owned = std::make_unique<testing::MemoryDisk>(kSectors * 512, read_only);
        disk = owned.get();
        block = std::make_unique<Block>(std::move(owned), "a serial number too long");
        host = std::make_unique<testing::FakeHost>(*block, 32);
    }

    Buffer header(uint32_t type, uint64_t sector) {
        base::Bytes bytes(16);
        base::store_le(bytes.data(), type);
        base::store_le(bytes.data() + 8, sector);
        return ram().readable(bytes);
    }
    Buffer range(uint64_t sector, uint32_t sectors, uint32_t flags = 0) {
        base::Bytes bytes(16);
        base::store_le(bytes.data(), sector);
        base::store_le(bytes.data() + 8, sectors);
        base::store_le(bytes.data() + 12, flags);
        return ram().readable(bytes);
    }
    // The status that a request ends with.
    uint8_t run(uint32_t type, uint64_t sector, const std::vector<Buffer>& data, bool indirect = false) {
        std::vector<Buffer> chain = {header(type, sector)};
        chain.insert(chain.end(), data.begin(), data.end());
        chain.push_back(ram().writable(1));
        ram().put(chain.back().address, kUntouched);
        const auto used = host->request(0, chain, indirect);
        EXPECT_TRUE(used);
        written = used.value_or(0);
        return ram().get<uint8_t>(chain.back().address);
    }
    testing::Ram& ram() { return host->ram(); }

    testing::MemoryDisk* disk;
    std::unique_ptr<Block> block;
    std::unique_ptr<testing::FakeHost> host;
    uint32_t written = 0;
};

struct ReadOnlyBlockTest : BlockTest {
    ReadOnlyBlockTest() : BlockTest(true) {}
};

TEST_F(BlockTest, ConfigurationTellsTheSize) {
    // virtio 1.2, 5.2.4: capacity in sectors first, seg_max at 12, blk_size at 20.
    const auto config = block->config();
    EXPECT_EQ(base::load_le<uint64_t>(config.data()), kSectors);
    EXPECT_GE(base::load_le<uint32_t>(config.data() + 12), 1u);
    EXPECT_EQ(base::load_le<uint32_t>(config.data() + 20), 512u);
    EXPECT_EQ(block->features() & (1 << 5), 0u);
    EXPECT_NE(block->features() & (1 << 9), 0u);
}

TEST_F(BlockTest, WritesAndReadsBack) {
    base::Bytes content(1536);
    for (size_t i = 0; i < content.size(); ++i) content[i] = static_cast<uint8_t>(i % 251);
    const base::ByteView view(content);
    EXPECT_EQ(run(kOut, 3, {ram().readable(view.first(100)), ram().readable(view.subspan(100))}), kOk);
    EXPECT_EQ(written, 1u);
    EXPECT_TRUE(std::equal(content.begin(), content.end(), disk->content().begin() + 1536));
    const Buffer first = ram().writable(700), second = ram().writable(836);
    EXPECT_EQ(run(kIn, 3, {first, second}, true), kOk);
    EXPECT_EQ(written, 1537u);
    base::Bytes back = ram().read(first.address, 700);
    const base::Bytes rest = ram().read(second.address, 836);
    back.insert(back.end(), rest.begin(), rest.end());
    EXPECT_EQ(back, content);
    EXPECT_EQ(run(kIn, kSectors - 1, {ram().writable(512)}), kOk);
}

TEST_F(BlockTest, HeaderAndStatusMayBeSplitAndJoined) {
    // virtio 1.2, 2.7.4: no assumption about the layout of descriptors.
    disk->content()[512] = 42;
    const Buffer whole = header(kIn, 1), data = ram().writable(513);
    EXPECT_EQ(host->request(0, {{whole.address, 5, false}, {whole.address + 5, 11, false}, data}), 513u);
    EXPECT_EQ(ram().get<uint8_t>(data.address), 42);
    EXPECT_EQ(ram().get<uint8_t>(data.address + 512), kOk);
}

TEST_F(BlockTest, OutOfRange) {
    const base::Bytes sector(512, 1);
    for (const uint64_t at : {kSectors, kSectors + 1, UINT64_MAX, UINT64_MAX / 512, UINT64_MAX / 512 + 1}) {
        EXPECT_EQ(run(kOut, at, {ram().readable(sector)}), kIoError) << at;
        EXPECT_EQ(run(kIn, at, {ram().writable(512)}), kIoError) << at;
        EXPECT_EQ(run(kDiscard, 0, {range(at, 1)}), kIoError) << at;
        EXPECT_EQ(run(kWriteZeroes, 0, {range(at, 1)}), kIoError) << at;
    }
    EXPECT_EQ(run(kIn, kSectors - 1, {ram().writable(1024)}), kIoError);
    EXPECT_EQ(disk->content(), base::Bytes(kSectors * 512));
}

TEST_F(BlockTest, OddLengths) {
    EXPECT_EQ(run(kIn, 0, {ram().writable(511)}), kIoError);
    EXPECT_EQ(run(kOut, 0, {ram().readable(base::Bytes(513, 1))}), kIoError);
    EXPECT_EQ(run(kDiscard, 0, {ram().readable(base::Bytes(17))}), kIoError);
    EXPECT_EQ(run(kWriteZeroes, 0, {}), kIoError);
    EXPECT_EQ(run(kIn, 0, {}), kOk);
    EXPECT_EQ(run(kOut, 0, {}), kOk);
    EXPECT_EQ(disk->content(), base::Bytes(kSectors * 512));
}

TEST_F(BlockTest, DataOfTheWrongDirectionIsNotTouched) {
    const base::Bytes content(512, 9);
    const Buffer readable = ram().readable(content);
    EXPECT_EQ(run(kIn, 0, {readable}), kOk);  // a read of nothing
    EXPECT_EQ(written, 1u);
    EXPECT_EQ(ram().read(readable.address, 512), content);
    const Buffer writable = ram().writable(512);
    EXPECT_EQ(run(kOut, 0, {writable}), kOk);  // a write of nothing
    EXPECT_EQ(disk->content(), base::Bytes(kSectors * 512));
}

TEST_F(BlockTest, RequestsWithoutHeaderOrStatusComeBackEmpty) {
    EXPECT_EQ(host->request(0, {header(kOut, 0), ram().readable(base::Bytes(512, 1))}), 0u);
    EXPECT_EQ(host->request(0, {ram().readable(base::Bytes(15)), ram().writable(1)}), 0u);
    EXPECT_EQ(host->request(0, {ram().writable(513)}), 0u);
    EXPECT_EQ(host->request(0, {{testing::kRamBase, 0, false}}), 0u);
    EXPECT_EQ(disk->content(), base::Bytes(kSectors * 512));
    EXPECT_TRUE(host->queue(0).running());
}

TEST_F(BlockTest, FlushReachesTheDisk) {
    EXPECT_EQ(run(kFlush, 0, {}), kOk);
    EXPECT_EQ(disk->flushes(), 1u);
}

TEST_F(BlockTest, DiscardAndWriteZeroes) {
    std::fill(disk->content().begin(), disk->content().end(), 0xff);
    EXPECT_EQ(run(kDiscard, 0, {range(0, 8), range(16, 8)}), kOk);
    EXPECT_EQ(run(kWriteZeroes, 0, {range(32, 8, 1), range(kSectors - 1, 1)}), kOk);
    for (uint64_t sector = 0; sector < kSectors; ++sector) {
        const bool gone = sector < 8 || (sector >= 16 && sector < 24) || (sector >= 32 && sector < 40) ||
                          sector == kSectors - 1;
        EXPECT_EQ(disk->content()[sector * 512], gone ? 0 : 0xff) << sector;
        EXPECT_EQ(disk->content()[sector * 512 + 511], gone ? 0 : 0xff) << sector;
    }
    // virtio 1.2, 5.2.6.2: unmap has no place in a discard, other bits in neither.
    EXPECT_EQ(run(kDiscard, 0, {range(0, 1, 1)}), kUnsupported);
    EXPECT_EQ(run(kWriteZeroes, 0, {range(0, 1, 2)}), kUnsupported);
    EXPECT_EQ(run(kDiscard, 0, std::vector<Buffer>(17, range(0, 1))), kIoError);
    EXPECT_EQ(run(kWriteZeroes, 0, {range(0, UINT32_MAX)}), kIoError);
}

TEST_F(BlockTest, SerialNumber) {
    const Buffer id = ram().writable(20);
    EXPECT_EQ(run(kGetId, 0, {id}), kOk);
    EXPECT_EQ(written, 21u);
    EXPECT_EQ(base::as_text(ram().read(id.address, 20)), "a serial number too ");
    EXPECT_EQ(run(kGetId, 0, {ram().writable(5)}), kOk);
    EXPECT_EQ(written, 6u);
    EXPECT_EQ(run(kGetId, 0, {}), kOk);
}

TEST_F(BlockTest, UnknownRequests) {
    EXPECT_EQ(run(99, 0, {ram().writable(512)}), kUnsupported);
    EXPECT_EQ(written, 1u);
}

TEST_F(BlockTest, ErrorsOfTheDiskAreIoErrors) {
    disk->fail(true);
    EXPECT_EQ(run(kIn, 0, {ram().writable(512)}), kIoError);
    EXPECT_EQ(run(kOut, 0, {ram().readable(base::Bytes(512))}), kIoError);
    EXPECT_EQ(run(kFlush, 0, {}), kIoError);
    EXPECT_EQ(run(kDiscard, 0, {range(0, 1)}), kIoError);
    EXPECT_EQ(run(kWriteZeroes, 0, {range(0, 1)}), kIoError);
    disk->fail(false);
    EXPECT_EQ(run(kFlush, 0, {}), kOk);
}

TEST_F(BlockTest, AMalformedChainStopsTheQueueOnly) {
    host->driver(0).describe(host->driver(0).addresses().descriptors, 0, {0, 16, false}, 0, 0);
    host->driver(0).offer(0);
    host->kick(0);
    EXPECT_FALSE(host->driver(0).take_used());
    EXPECT_NE(host->queue(0).broken(), "");
}

TEST_F(ReadOnlyBlockTest, RefusesChanges) {
    EXPECT_NE(block->features() & (1 << 5), 0u);
    EXPECT_EQ(block->features() & (1 << 13 | 1 << 14), 0u);
    EXPECT_EQ(run(kIn, 0, {ram().writable(512)}), kOk);
    EXPECT_EQ(run(kFlush, 0, {}), kOk);
    EXPECT_EQ(run(kOut, 0, {ram().readable(base::Bytes(512, 1))}), kIoError);
    EXPECT_EQ(run(kDiscard, 0, {range(0, 1)}), kIoError);
    EXPECT_EQ(run(kWriteZeroes, 0, {range(0, 1)}), kIoError);
    EXPECT_EQ(disk->content(), base::Bytes(kSectors * 512));
}

}  // namespace
}  // namespace boxlite::virtio
