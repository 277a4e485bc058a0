// qcow2 images after crashes: every change to the file is recorded, and a crash leaves the changes before
// the last sync with any part of those after it. Also real processes killed, and full disks.
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "disk/qcow2_test_support.h"

namespace boxlite::disk {
namespace {

using testing::Event;
using testing::MemoryFile;
using testing::MemoryIo;
using testing::must;
using testing::Random;

constexpr uint64_t kSector = 512;
constexpr uint32_t kBaseStamp = 0x80000000;

// A sector's whole content is one number, repeated.
base::Bytes stamped(uint64_t sectors, uint32_t stamp) {
    base::Bytes out(sectors * kSector);
    for (size_t i = 0; i < out.size(); i += 4) base::store_le<uint32_t>(&out[i], stamp);
    return out;
}

struct Op {
    enum Kind { kWrite, kZeroes, kDiscard, kFlush, kDeath } kind;
    uint64_t first = 0;  // sector
    uint64_t count = 0;
    uint32_t stamp = 0;
    size_t begin_event = 0;
    size_t end_event = 0;
    bool finished = false;
};

Op random_op(Random& random, uint64_t sectors, uint64_t cluster_sectors, uint32_t stamp) {
    Op op{Op::kWrite, random.below(sectors), 0, stamp};
    op.count = std::min(random.below(random.one_in(3) ? 8 * cluster_sectors : cluster_sectors + 8) + 1,
                        sectors - op.first);
    if (random.one_in(4)) op.first = op.first / cluster_sectors * cluster_sectors;
    switch (random.below(10)) {
        case 0:
            op.kind = Op::kZeroes;
            break;
        case 1:
        case 2:
            op.kind = Op::kDiscard;
            break;
        case 3:
        case 4:
            op.kind = Op::kFlush;
            break;
        default:
            break;
    }
    return op;
}

Result<void> apply(BlockBackend& disk, const Op& op) {
    switch (op.kind) {
        case Op::kWrite:
            return disk.write(op.first * kSector, stamped(op.count, op.stamp));
        case Op::kZeroes:
            return disk.write_zeroes(op.first * kSector, op.count * kSector);
        case Op::kDiscard:
            return disk.discard(op.first * kSector, op.count * kSector);
        case Op::kFlush:
            return disk.flush();
        case Op::kDeath:
            break;
    }
    return {};
}

// A few numbers; faster than a set.
struct Values {
    std::vector<uint32_t> list;
    void insert(uint32_t value) {
        if (!contains(value)) list.push_back(value);
    }
    bool contains(uint32_t value) const { return std::ranges::find(list, value) != list.end(); }
};

// What each sector may hold after a crash: what it held at the last finished flush, or what came later.
class Expectation {
  public:
    Expectation(uint64_t sectors, uint64_t base_sectors) : now_(sectors), possible_(sectors) {
        for (uint64_t i = 0; i < sectors; ++i)
            now_[i].list = possible_[i].list = {i < base_sectors ? kBaseStamp + static_cast<uint32_t>(i) : 0};
    }
    void add(const Op& op, bool finished) {
        if (op.kind == Op::kFlush) {
            if (finished) possible_ = now_;
            return;
        }
        if (op.kind == Op::kDeath) {  // what was only in the process's memory is gone
            now_ = possible_;
            return;
        }
        const uint32_t value = op.kind == Op::kWrite ? op.stamp : 0;
        for (uint64_t i = op.first; i < op.first + op.count; ++i) {
            if (finished && op.kind != Op::kDiscard) now_[i].list.clear();
            now_[i].insert(value);
            possible_[i].insert(value);
        }
    }
    void check(BlockBackend& disk) const {
        base::Bytes all(now_.size() * kSector);
        must(disk.read(0, all));
        for (uint64_t i = 0; i < now_.size(); ++i) {
            const uint32_t stamp = base::load_le<uint32_t>(&all[i * kSector]);
            const bool whole = base::ByteView(all).subspan(i * kSector, kSector).size() == kSector &&
                               std::equal(all.begin() + static_cast<ptrdiff_t>(i * kSector + 4),
                                          all.begin() + static_cast<ptrdiff_t>((i + 1) * kSector),
                                          all.begin() + static_cast<ptrdiff_t>(i * kSector));
            ASSERT_TRUE(whole) << "sector " << i << " is torn";
            ASSERT_TRUE(possible_[i].contains(stamp)) << "sector " << i << " holds " << stamp;
        }
    }

  private:
    std::vector<Values> now_, possible_;
};

struct Shape {
    unsigned cluster_bits;
    uint64_t size;
    uint64_t base_size;
    int steps;
};

class CrashTest : public ::testing::TestWithParam<Shape> {
  protected:
    void SetUp() override {
        const Shape& shape = GetParam();
        sectors_ = shape.size / kSector;
        cluster_sectors_ = (uint64_t{1} << shape.cluster_bits) / kSector;
        base::Bytes base;
        for (uint64_t i = 0; i < shape.base_size / kSector; ++i) {
            const base::Bytes one = stamped(1, kBaseStamp + static_cast<uint32_t>(i));
            base.insert(base.end(), one.begin(), one.end());
        }
        Qcow2CreateOptions options{.virtual_size = shape.size, .cluster_bits = shape.cluster_bits};
        if (!base.empty()) {
            testing::write_whole(at("base"), base);
            options.backing = Backing{"base", ImageFormat::kRaw};
        }
        must(Qcow2::create(at("disk"), options));
    }

    std::string at(const std::string& name) const { return dir_.path() + "/" + name; }
    Expectation fresh() const { return {sectors_, GetParam().base_size / kSector}; }

    std::shared_ptr<MemoryFile> load() const {
        auto file = std::make_shared<MemoryFile>();
        const std::string content = must(base::read_file(at("disk")));
        file->content.assign(content.begin(), content.end());
        return file;
    }
    Result<std::unique_ptr<Qcow2>> open(std::shared_ptr<MemoryFile> file,
                                        std::shared_ptr<MemoryIo::Faults> faults) const {
        return Qcow2::open_on(std::make_unique<MemoryIo>(std::move(file), std::move(faults)), dir_.path(),
                              {.backing_dirs = {dir_.path()}});
    }

    // The file after a crash when `happened` events were issued.
    static base::Bytes crashed(const base::Bytes& start, const std::vector<Event>& events, size_t happened,
                               bool power_loss, Random& random) {
        size_t synced = happened;
        while (power_loss && synced > 0 && events[synced - 1].kind != Event::kSync) --synced;
        base::Bytes content = start;
        for (size_t i = 0; i < synced; ++i) MemoryFile::apply(content, events[i]);
        const uint64_t odds = random.below(3) + 1;  // of losing: odds in 4
        for (size_t i = synced; i < happened; ++i) {
            const Event& event = events[i];
            const bool in_pieces = event.kind == Event::kWrite && random.one_in(2);
            const size_t piece = in_pieces ? kSector : std::max<size_t>(event.data.size(), 1);
            for (size_t at = 0; at < std::max<size_t>(event.data.size(), 1); at += piece) {
                if (random.below(4) < odds) continue;
                Event part = event;
                if (in_pieces) {
                    const size_t end = std::min(at + piece, event.data.size());
                    part.offset += at;
                    part.data.assign(event.data.begin() + static_cast<ptrdiff_t>(at),
                                     event.data.begin() + static_cast<ptrdiff_t>(end));
                }
                MemoryFile::apply(content, part);
            }
        }
        return content;
    }

    // qemu finds no corruption, we open it, what must be there is there, and no leak stays.
    void check_crashed(base::Bytes content, const Expectation& expected) {
        testing::write_whole(at("crashed"), content);
        std::string said;
        const int code = testing::qemu_check(at("crashed"), &said);
        ASSERT_TRUE(code == 0 || code == 3) << said;
        auto file = std::make_shared<MemoryFile>();
        file->content = std::move(content);
        auto disk = open(file, std::make_shared<MemoryIo::Faults>());
        ASSERT_TRUE(disk.ok()) << disk.error().message;
        ASSERT_NO_FATAL_FAILURE(expected.check(**disk));
        must((*disk)->close());
        if (code == 0) return;
        testing::write_whole(at("crashed"), file->content);
        testing::expect_clean(at("crashed"));
    }

    base::TempDir dir_ = must(base::TempDir::make());
    uint64_t sectors_ = 0;
    uint64_t cluster_sectors_ = 0;
};

TEST_P(CrashTest, AnyPartOfTheLastWritesMayBeLost) {
    Random random(GetParam().cluster_bits + 11);
    auto file = load();
    const base::Bytes start = file->content;
    std::vector<Op> ops;
    uint32_t stamp = 1;
    // Processes that die in the middle of an operation, one after the other on the same file.
    while (ops.size() < static_cast<size_t>(GetParam().steps)) {
        auto faults = std::make_shared<MemoryIo::Faults>();
        faults->calls_to_live = static_cast<int64_t>(random.below(150) + 5);
        auto disk = open(file, faults);
        if (!disk.ok()) continue;  // it died at once, repairing
        while (faults->calls_to_live > 0) {
            Op op = random_op(random, sectors_, cluster_sectors_, stamp++);
            op.begin_event = file->events.size();
            op.finished = apply(**disk, op).ok();
            op.end_event = file->events.size();
            ops.push_back(op);
        }
        ops.push_back({Op::kDeath, 0, 0, 0, file->events.size(), file->events.size(), true});
    }
    const size_t total = file->events.size();
    for (int i = 0; i < 40; ++i) {
        const size_t happened = random.below(total + 1);
        Expectation expected = fresh();
        for (const Op& op : ops)
            if (op.begin_event <= happened) expected.add(op, op.finished && op.end_event <= happened);
        ASSERT_NO_FATAL_FAILURE(
            check_crashed(crashed(start, file->events, happened, i % 3 != 0, random), expected))
            << "after event " << happened;
    }
}

// A process dies in the flush that frees clusters, the next one repairs, and then the host goes down.
TEST_P(CrashTest, ARepairThatIsLostInPart) {
    Random random(GetParam().cluster_bits + 14);
    for (int64_t calls = 0; calls < 8; ++calls) {
        auto file = load();
        const base::Bytes start = file->content;
        Expectation expected = fresh();
        {
            auto faults = std::make_shared<MemoryIo::Faults>();
            auto disk = must(open(file, faults));
            for (const Op& op : {Op{Op::kWrite, 0, 5 * cluster_sectors_, 1}, Op{Op::kFlush},
                                 Op{Op::kDiscard, cluster_sectors_, 3 * cluster_sectors_}}) {
                must(apply(*disk, op));
                expected.add(op, true);
            }
            faults->calls_to_live = calls;
            (void)disk->flush();
        }
        auto disk = must(open(file, std::make_shared<MemoryIo::Faults>()));
        for (int i = 0; i < 4; ++i)
            ASSERT_NO_FATAL_FAILURE(
                check_crashed(crashed(start, file->events, file->events.size(), true, random), expected));
    }
}

TEST_P(CrashTest, AWriteThatFailsLeavesAConsistentImage) {
    Random random(GetParam().cluster_bits + 12);
    auto file = load();
    auto faults = std::make_shared<MemoryIo::Faults>();
    auto disk = must(open(file, faults));
    Expectation expected = fresh();
    int failures = 0;
    for (uint32_t i = 1; i < static_cast<uint32_t>(GetParam().steps); ++i) {
        faults->calls_to_fault = static_cast<int64_t>(random.below(6));
        const Op op = random_op(random, sectors_, cluster_sectors_, i);
        auto done = apply(*disk, op);
        if (!done.ok()) {
            EXPECT_EQ(done.error().code, ErrorCode::kResourceExhausted);
            ++failures;
        }
        expected.add(op, done.ok());
    }
    EXPECT_GT(failures, 20);
    faults->calls_to_fault = -1;
    expected.add({Op::kFlush}, true);
    must(disk->close());
    testing::write_whole(at("crashed"), file->content);
    testing::expect_clean(at("crashed"));
    ASSERT_NO_FATAL_FAILURE(expected.check(*must(open(file, faults))));
}

TEST_P(CrashTest, AProcessThatIsKilled) {
    Random random(GetParam().cluster_bits + 13);
    Expectation expected = fresh();
    for (uint64_t round = 0; round < 8; ++round) {
        const uint64_t seed = random.below(1 << 30);
        const uint64_t stop_after = random.below(120) + 1;
        const auto stamp = [&](uint64_t i) { return static_cast<uint32_t>(round * 100000 + i + 1); };
        auto pipe = must(base::make_pipe());
        const pid_t child = ::fork();
        ASSERT_GE(child, 0);
        if (child == 0) {  // an operation, a byte, and so on until killed
            auto disk = Qcow2::open(at("disk"), {.backing_dirs = {dir_.path()}});
            Random mine(seed);
            for (uint64_t i = 0; disk.ok(); ++i) {
                const Op op = random_op(mine, sectors_, cluster_sectors_, stamp(i));
                if (!apply(**disk, op).ok() || ::write(pipe.second.get(), "x", 1) != 1) break;
            }
            ::_exit(1);
        }
        pipe.second.reset();
        uint64_t finished = 0;
        char byte;
        while (finished < stop_after && ::read(pipe.first.get(), &byte, 1) == 1) ++finished;
        ::kill(child, SIGKILL);
        int status = 0;
        ASSERT_EQ(::waitpid(child, &status, 0), child);
        EXPECT_TRUE(WIFSIGNALED(status));
        while (::read(pipe.first.get(), &byte, 1) == 1) ++finished;

        Random mine(seed);
        for (uint64_t i = 0; i <= finished; ++i)
            expected.add(random_op(mine, sectors_, cluster_sectors_, stamp(i)), i < finished);
        expected.add({Op::kDeath}, true);
        const std::string content = must(base::read_file(at("disk")));
        ASSERT_NO_FATAL_FAILURE(check_crashed({content.begin(), content.end()}, expected));
    }
}

INSTANTIATE_TEST_SUITE_P(Shapes, CrashTest,
                         ::testing::Values(Shape{16, 2 << 20, 0, 250}, Shape{16, 2 << 20, 3 << 19, 250},
                                           Shape{9, 300 << 10, 200 << 10, 600}, Shape{12, 1 << 20, 0, 400}));

// The kernel's own answer: EFBIG at a file size limit, as ENOSPC on a full disk.
TEST(FullDiskTest, AFileSizeLimitIsAnErrorAndNoDamage) {
    auto dir = must(base::TempDir::make());
    const std::string path = dir.path() + "/disk";
    must(Qcow2::create(path, {.virtual_size = 64 << 20}));
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
    const rlimit small{4 << 20, before.rlim_max};
    const auto old_handler = ::signal(SIGXFSZ, SIG_IGN);
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
    auto disk = must(Qcow2::open(path, {}));
    const base::Bytes data(300000, 7);
    uint64_t written = 0;
    Result<void> result;
    while ((result = disk->write(written, data)).ok()) written += data.size();
    EXPECT_EQ(result.error().code, ErrorCode::kResourceExhausted);
    EXPECT_NE(result.error().message.find(path), std::string::npos) << result.error().message;
    EXPECT_GT(written, uint64_t{3} << 20);
    must(disk->close());
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
    ::signal(SIGXFSZ, old_handler);
    testing::expect_clean(path);
    disk = must(Qcow2::open(path, {}));
    base::Bytes back(written);
    must(disk->read(0, back));
    EXPECT_TRUE(std::ranges::all_of(back, [](uint8_t b) { return b == 7; }));
}

// 512-byte clusters: 2 MiB of cache are 4096 tables of 32 KiB of disk each.
TEST(TableCacheTest, MoreChangedTablesThanTheCacheHolds) {
    auto dir = must(base::TempDir::make());
    const std::string path = dir.path() + "/disk";
    constexpr uint32_t kTables = 9000;
    constexpr uint64_t kSpan = 32768;
    must(Qcow2::create(path, {.virtual_size = kTables * kSpan, .cluster_bits = 9}));
    auto file = std::make_shared<MemoryFile>();
    const std::string empty = must(base::read_file(path));
    file->content.assign(empty.begin(), empty.end());
    const auto faults = std::make_shared<MemoryIo::Faults>();
    auto disk = must(Qcow2::open_on(std::make_unique<MemoryIo>(file, faults), "/", {}));
    for (uint32_t i = 0; i < kTables; ++i) must(disk->write(i * kSpan + kSector, stamped(1, i + 1)));
    must(disk->close());
    testing::write_whole(path, file->content);
    testing::expect_clean(path);
    disk = must(Qcow2::open(path, {.read_only = true}));
    for (uint32_t i = 0; i < kTables; ++i) {
        base::Bytes sector(kSector);
        must(disk->read(i * kSpan + kSector, sector));
        ASSERT_EQ(base::load_le<uint32_t>(sector.data()), i + 1);
    }
}

}  // namespace
}  // namespace boxlite::disk
