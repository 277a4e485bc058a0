// qcow2 images against a model in memory and against qemu's tools.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "disk/qcow2_test_support.h"
#include "disk/raw_file.h"

namespace boxlite::disk {
namespace {

using testing::expect_clean;
using testing::must;
using testing::Random;
using testing::run;

constexpr uint64_t kKiB = 1024;
constexpr uint64_t kMiB = 1024 * kKiB;

class Qcow2Test : public ::testing::Test {
  protected:
    std::string at(const std::string& name) const { return dir_.path() + "/" + name; }
    std::unique_ptr<Qcow2> open(const std::string& path, bool read_only = false) {
        return must(Qcow2::open(path, {.read_only = read_only, .backing_dirs = {dir_.path()}}));
    }
    std::string open_error(const std::string& path, bool read_only = false) {
        auto opened = Qcow2::open(path, {.read_only = read_only, .backing_dirs = {dir_.path()}});
        return opened.ok() ? "" : opened.error().message;
    }
    base::Bytes read_all(BlockBackend& disk) {
        base::Bytes out(disk.size());
        must(disk.read(0, out));
        return out;
    }
    // Overwrites bytes of a file, as an attacker or a bad disk would.
    void patch(const std::string& path, uint64_t offset, base::ByteView bytes) {
        const auto fd = must(base::open_file(path, O_WRONLY));
        must(base::pwrite_all(fd.get(), bytes, offset));
    }
    template <typename T>
    void patch_be(const std::string& path, uint64_t offset, T value) {
        base::Bytes bytes(sizeof(T));
        base::store_be<T>(bytes.data(), value);
        patch(path, offset, bytes);
    }
    template <typename T>
    T field(const std::string& path, uint64_t offset) {
        base::Bytes bytes(sizeof(T));
        const auto fd = must(base::open_file(path, O_RDONLY));
        must(base::pread_exact(fd.get(), bytes, offset));
        return base::load_be<T>(bytes.data());
    }

    base::TempDir dir_ = must(base::TempDir::make());
};

// What a disk should hold. After a discard a byte is what it was or zero.
struct Model {
    base::Bytes bytes;

    void discarded(BlockBackend& disk, uint64_t offset, uint64_t length) {
        base::Bytes now(length);
        must(disk.read(offset, now));
        for (uint64_t i = 0; i < length; ++i) {
            if (now[i] != 0) {
                ASSERT_EQ(now[i], bytes[offset + i]) << "at " << offset + i;
            }
            bytes[offset + i] = now[i];
        }
    }
};

struct Shape {
    unsigned cluster_bits;
    uint64_t size;
    uint64_t backing_size;  // 0: none
    ImageFormat backing_format;
    int steps;
};

class Qcow2ModelTest : public Qcow2Test, public ::testing::WithParamInterface<Shape> {
  protected:
    base::Bytes make_backing(const Shape& shape, Random& random) {
        base::Bytes content = random.bytes(shape.backing_size);
        testing::write_whole(at("base.raw"), content);
        if (shape.backing_format == ImageFormat::kQcow2) {
            const auto output =
                run({"qemu-img", "convert", "-f", "raw", "-O", "qcow2", at("base.raw"), at("base")});
            EXPECT_EQ(output.status.code, 0) << output.err;
        } else {
            EXPECT_EQ(::rename(at("base.raw").c_str(), at("base").c_str()), 0);
        }
        return content;
    }

    void step(Random& random, std::unique_ptr<Qcow2>& disk, Model& model) {
        const uint64_t size = model.bytes.size();
        const uint64_t cluster = uint64_t{1} << GetParam().cluster_bits;
        uint64_t offset = random.below(size);
        uint64_t length =
            std::min(random.below(random.one_in(4) ? 20 * cluster : 3 * cluster) + 1, size - offset);
        if (random.one_in(2)) {
            offset = offset / 512 * 512;
            length = std::min((length + 511) / 512 * 512, size - offset);
        }
        switch (random.below(12)) {
            default: {
                const base::Bytes data = random.bytes(length);
                const size_t half = length / 2;
                auto* p = const_cast<uint8_t*>(data.data());
                const iovec parts[] = {{p, half}, {nullptr, 0}, {p + half, length - half}};
                must(disk->writev(offset, parts));
                std::ranges::copy(data, model.bytes.begin() + static_cast<ptrdiff_t>(offset));
                break;
            }
            case 0:
            case 1:
                must(disk->write_zeroes(offset, length));
                std::fill_n(model.bytes.begin() + static_cast<ptrdiff_t>(offset), length, 0);
                break;
            case 2:
            case 3:
                must(disk->discard(offset, length));
                model.discarded(*disk, offset, length);
                break;
            case 4: {
                base::Bytes data(length);
                must(disk->read(offset, data));
                ASSERT_TRUE(std::equal(data.begin(), data.end(),
                                       model.bytes.begin() + static_cast<ptrdiff_t>(offset)));
                break;
            }
            case 5:
                must(disk->flush());
                break;
            case 6:
                if (random.one_in(2)) must(disk->close());
                disk.reset();
                disk = open(at("disk"));
                break;
            case 7:
                if (!random.one_in(8)) break;
                model.bytes.resize(size + (random.below(4 * cluster / 512) + 1) * 512);
                must(disk->grow(model.bytes.size()));
                break;
        }
    }
};

TEST_P(Qcow2ModelTest, RandomOperationsMatchTheModelAndQemu) {
    const Shape& shape = GetParam();
    for (uint64_t seed = 1; seed <= 2; ++seed) {
        Random random(seed * 1000 + shape.cluster_bits);
        Model model{base::Bytes(shape.size)};
        Qcow2CreateOptions options{
            .virtual_size = shape.size, .cluster_bits = shape.cluster_bits, .durable = false};
        if (shape.backing_size > 0) {
            const base::Bytes base = make_backing(shape, random);
            std::copy_n(base.begin(), std::min(shape.size, shape.backing_size), model.bytes.begin());
            options.backing = Backing{random.one_in(2) ? "base" : at("base"), shape.backing_format};
        }
        must(Qcow2::create(at("disk"), options));
        expect_clean(at("disk"));
        auto disk = open(at("disk"));
        for (int i = 0; i < shape.steps; ++i) {
            step(random, disk, model);
            if (HasFatalFailure()) return;
        }
        ASSERT_EQ(disk->size(), model.bytes.size());
        EXPECT_TRUE(read_all(*disk) == model.bytes);
        must(disk->close());
        expect_clean(at("disk"));
        testing::write_whole(at("model.raw"), model.bytes);
        const auto compared =
            run({"qemu-img", "compare", "-f", "qcow2", "-F", "raw", at("disk"), at("model.raw")});
        EXPECT_EQ(compared.status.code, 0) << compared.out << compared.err;
        ::unlink(at("disk").c_str());
        ::unlink(at("base").c_str());
    }
}

INSTANTIATE_TEST_SUITE_P(Shapes, Qcow2ModelTest,
                         ::testing::Values(Shape{16, 5 * kMiB + 512, 0, ImageFormat::kRaw, 400},
                                           Shape{16, 6 * kMiB, 4 * kMiB + 300, ImageFormat::kRaw, 300},
                                           Shape{16, 3 * kMiB + 512, 5 * kMiB, ImageFormat::kQcow2, 300},
                                           Shape{9, 600 * kKiB, 0, ImageFormat::kRaw, 400},
                                           Shape{9, 300 * kKiB, 200 * kKiB, ImageFormat::kQcow2, 400},
                                           Shape{12, 3 * kMiB, 2 * kMiB + 512, ImageFormat::kRaw, 400},
                                           Shape{21, 12 * kMiB, 10 * kMiB, ImageFormat::kRaw, 40}));

TEST_F(Qcow2Test, ImagesThatQemuWroteReadTheSame) {
    for (const char* options :
         {"cluster_size=64k", "cluster_size=512", "cluster_size=2M,preallocation=metadata",
          "cluster_size=4k,preallocation=falloc,lazy_refcounts=on"}) {
        Random random(7);
        run({"qemu-img", "create", "-q", "-f", "qcow2", "-o", options, at("disk"), "9M"});
        std::vector<std::string> command = {"qemu-io", "-f", "qcow2"};
        for (int i = 0; i < 60; ++i) {
            const uint64_t offset = random.below(9 * kMiB - 300 * kKiB) / 512 * 512;
            const uint64_t length = (random.below(200 * kKiB) / 512 + 1) * 512;
            const char* verbs[] = {"write -P 23", "write -P 91", "write -z", "write -z -u", "discard"};
            command.insert(command.end(),
                           {"-c", fmt::format("{} {} {}", verbs[random.below(5)], offset, length)});
        }
        command.push_back(at("disk"));
        const auto written = run(command);
        ASSERT_EQ(written.status.code, 0) << written.err;
        ASSERT_EQ(run({"qemu-img", "convert", "-f", "qcow2", "-O", "raw", at("disk"), at("raw")}).status.code,
                  0);
        auto raw = must(RawFile::open(at("raw"), true));
        EXPECT_TRUE(read_all(*open(at("disk"), true)) == read_all(*raw)) << options;

        // And qemu reads what we add to it.
        auto disk = open(at("disk"));
        base::Bytes expected = read_all(*disk);
        for (int i = 0; i < 20; ++i) {
            const uint64_t offset = random.below(9 * kMiB - 300 * kKiB);
            const base::Bytes data = random.bytes(random.below(200 * kKiB) + 1);
            must(disk->write(offset, data));
            std::ranges::copy(data, expected.begin() + static_cast<ptrdiff_t>(offset));
        }
        must(disk->close());
        expect_clean(at("disk"));
        testing::write_whole(at("raw"), expected);
        EXPECT_EQ(run({"qemu-img", "compare", "-f", "qcow2", "-F", "raw", at("disk"), at("raw")}).status.code,
                  0)
            << options;
        ::unlink(at("disk").c_str());
    }
}

TEST_F(Qcow2Test, ALargeWriteIsOneRunInTheFile) {
    must(Qcow2::create(at("disk"), {.virtual_size = 64 * kMiB}));
    auto disk = open(at("disk"));
    must(disk->write(3 * kMiB, Random(1).bytes(16 * kMiB)));
    must(disk->close());
    // One line for the hole before, one for the data, one for the rest, and the heading.
    const auto map = run({"qemu-img", "map", "-f", "qcow2", "--output=json", at("disk")});
    EXPECT_EQ(std::ranges::count(map.out, '\n'), 3) << map.out;
}

TEST_F(Qcow2Test, GrowsFarBeyondItsFirstTables) {
    // 512-byte clusters: one refcount block counts 128 KiB of file, so blocks and their table must grow.
    must(Qcow2::create(at("disk"), {.virtual_size = 64 * kKiB, .cluster_bits = 9}));
    auto disk = open(at("disk"));
    must(disk->grow(20 * kMiB));
    const base::Bytes data = Random(3).bytes(20 * kMiB);
    must(disk->write(0, data));
    must(disk->close());
    expect_clean(at("disk"));
    EXPECT_TRUE(read_all(*open(at("disk"))) == data);
    EXPECT_FALSE(open(at("disk"))->grow(kMiB).ok());
}

TEST_F(Qcow2Test, GrowingDoesNotUncoverTheBackingFile) {
    testing::write_whole(at("base"), Random(5).bytes(4 * kMiB));
    must(Qcow2::create(at("disk"),
                       {.virtual_size = kMiB + 512, .backing = Backing{"base", ImageFormat::kRaw}}));
    auto disk = open(at("disk"));
    const base::Bytes one(1, 1);
    must(disk->write(kMiB, one));  // a cluster that reaches past the end
    must(disk->grow(8 * kMiB));
    const base::Bytes all = read_all(*disk);
    EXPECT_TRUE(std::all_of(all.begin() + kMiB + 512, all.end(), [](uint8_t b) { return b == 0; }));
    must(disk->close());
    expect_clean(at("disk"));
}

TEST_F(Qcow2Test, DiscardGivesRoomBackToTheHost) {
    must(Qcow2::create(at("disk"), {.virtual_size = 64 * kMiB}));
    auto disk = open(at("disk"));
    must(disk->write(0, Random(1).bytes(32 * kMiB)));
    must(disk->flush());
    EXPECT_GE(must(disk->allocated_size()), 32 * kMiB);
    must(disk->discard(0, 32 * kMiB));
    must(disk->flush());
    EXPECT_LT(must(disk->allocated_size()), kMiB);
    // What was freed is used again before the file grows.
    struct stat before, after;
    ASSERT_EQ(::stat(at("disk").c_str(), &before), 0);
    must(disk->write(0, Random(2).bytes(32 * kMiB)));
    must(disk->close());
    ASSERT_EQ(::stat(at("disk").c_str(), &after), 0);
    EXPECT_EQ(before.st_size, after.st_size);
    expect_clean(at("disk"));
}

TEST_F(Qcow2Test, AFlushWithNothingToDoIsFree) {
    auto file = std::make_shared<testing::MemoryFile>();
    auto faults = std::make_shared<testing::MemoryIo::Faults>();
    must(Qcow2::create(at("disk"), {.virtual_size = kMiB}));
    const std::string content = must(base::read_file(at("disk")));
    file->content.assign(content.begin(), content.end());
    auto disk = must(Qcow2::open_on(std::make_unique<testing::MemoryIo>(file, faults), "/", {}));
    const base::Bytes data(4096, 1);
    const auto syncs = [&](auto change) {
        change();
        const int before = faults->syncs;
        must(disk->flush());
        return faults->syncs - before;
    };
    EXPECT_EQ(syncs([] {}), 1);  // for what a killed process may have left
    EXPECT_EQ(syncs([] {}), 0);
    EXPECT_EQ(syncs([&] { must(disk->write(0, data)); }), 2);     // new cluster: data, then the entry
    EXPECT_EQ(syncs([&] { must(disk->write(4096, data)); }), 1);  // in place
    EXPECT_EQ(syncs([&] { must(disk->discard(0, 65536)); }), 1);
    EXPECT_EQ(syncs([] {}), 0);
    const size_t events = file->events.size();
    must(disk->flush());
    EXPECT_EQ(file->events.size(), events);
}

TEST_F(Qcow2Test, RefusesWritesOutsideAndReadOnly) {
    must(Qcow2::create(at("disk"), {.virtual_size = kMiB}));
    base::Bytes data(1024);
    {
        auto disk = open(at("disk"));
        EXPECT_EQ(disk->write(kMiB - 512, data).error().code, ErrorCode::kInvalidArgument);
        EXPECT_EQ(disk->read(UINT64_MAX - 100, data).error().code, ErrorCode::kInvalidArgument);
        EXPECT_EQ(disk->discard(512, UINT64_MAX).error().code, ErrorCode::kInvalidArgument);
        // One writer: neither we nor a second one.
        EXPECT_NE(open_error(at("disk")).find("in use"), std::string::npos);
        must(disk->close());
        EXPECT_EQ(disk->write(0, data).error().code, ErrorCode::kInvalidState);
    }
    auto disk = open(at("disk"), true);
    EXPECT_EQ(disk->write(0, data).error().code, ErrorCode::kInvalidState);
    EXPECT_EQ(disk->grow(2 * kMiB).error().code, ErrorCode::kInvalidState);
    EXPECT_EQ(Qcow2::create(at("disk"), {.virtual_size = kMiB}).error().code, ErrorCode::kAlreadyExists);
}

TEST_F(Qcow2Test, ChainsOfImages) {
    const base::Bytes base = Random(1).bytes(kMiB);
    testing::write_whole(at("0"), base);
    base::Bytes expected = base;
    for (int i = 1; i <= 5; ++i) {
        must(Qcow2::create(
            at(std::to_string(i)),
            {.virtual_size = kMiB,
             .backing = Backing{std::to_string(i - 1), i == 1 ? ImageFormat::kRaw : ImageFormat::kQcow2}}));
        auto disk = open(at(std::to_string(i)));
        const base::Bytes data(5000, static_cast<uint8_t>(i));
        must(disk->write(static_cast<uint64_t>(i) * 70000, data));
        std::ranges::copy(data, expected.begin() + i * 70000);
        must(disk->close());
    }
    EXPECT_TRUE(read_all(*open(at("5"))) == expected);
    testing::write_whole(at("model"), expected);
    EXPECT_EQ(run({"qemu-img", "compare", "-f", "qcow2", "-F", "raw", at("5"), at("model")}).status.code, 0);
}

// Fault table rows 14 and 15: a backing file is never probed, and only taken from where it may be.
TEST_F(Qcow2Test, BackingFilesAreNotTakenFromAnywhere) {
    testing::write_whole(at("secret"), base::Bytes(kMiB, 's'));
    must(base::make_directories(at("store")));
    testing::write_whole(at("store/base"), base::Bytes(kMiB, 'b'));
    const auto error = [&](const std::string& name) {
        ::unlink(at("store/disk").c_str());
        // By qemu, which writes any name.
        run({"qemu-img", "create", "-q", "-u", "-f", "qcow2", "-F", "raw", "-b", name, at("store/disk"),
             "1M"});
        auto disk = Qcow2::open(at("store/disk"), {.backing_dirs = {at("store")}});
        return disk.ok() ? "" : disk.error().message;
    };
    EXPECT_EQ(error("base"), "");
    EXPECT_EQ(error("./base"), "");
    EXPECT_EQ(error(at("store/../store/base")), "");
    EXPECT_NE(error("../secret"), "");
    EXPECT_NE(error(at("secret")), "");
    EXPECT_NE(error("/etc/passwd"), "");
    EXPECT_NE(error("missing"), "");
    EXPECT_NE(error("json:{\"file\":{\"filename\":\"/etc/passwd\"}}"), "");
    EXPECT_NE(error("nbd://127.0.0.1/x"), "");
    EXPECT_NE(error("file:base"), "");
    ASSERT_EQ(::symlink(at("secret").c_str(), at("store/link").c_str()), 0);
    EXPECT_NE(error("link"), "");
    ASSERT_EQ(::symlink(dir_.path().c_str(), at("store/up").c_str()), 0);
    EXPECT_NE(error("up/secret"), "");
    ASSERT_EQ(::mkfifo(at("store/fifo").c_str(), 0600), 0);
    EXPECT_NE(error("fifo"), "");
    EXPECT_NE(error("disk"), "");  // itself
    // No recorded format: qemu would probe.
    ::unlink(at("store/disk").c_str());
    must(Qcow2::create(at("store/disk"),
                       {.virtual_size = kMiB, .backing = Backing{"base", ImageFormat::kRaw}}));
    patch_be<uint32_t>(at("store/disk"), 112, 0);
    EXPECT_NE(open_error(at("store/disk")).find("format of its backing file"), std::string::npos);
    EXPECT_NE(open_error(at("store/base")).find("not a qcow2 image"), std::string::npos);
}

TEST_F(Qcow2Test, AGuestThatWritesAQcow2HeaderIsStillRaw) {
    testing::write_whole(at("secret"), base::Bytes(kMiB, 's'));
    testing::write_whole(at("base"), base::Bytes(2 * kMiB, 0));
    must(Qcow2::create(at("evil"),
                       {.virtual_size = kMiB, .backing = Backing{at("secret"), ImageFormat::kRaw}}));
    const std::string evil = must(base::read_file(at("evil")));
    {
        auto raw = must(RawFile::open(at("base"), false));
        must(raw->write(0, base::as_bytes(evil)));
        must(raw->flush());
    }
    must(
        Qcow2::create(at("disk"), {.virtual_size = 2 * kMiB, .backing = Backing{"base", ImageFormat::kRaw}}));
    for (int boot = 0; boot < 2; ++boot) {
        auto disk = open(at("disk"));
        base::Bytes head(evil.size());
        must(disk->read(0, head));
        EXPECT_TRUE(base::as_text(head) == evil);
        must(disk->write(0, base::as_bytes(evil)));
        must(disk->close());
    }
}

TEST_F(Qcow2Test, LoopsAndDeepChainsAreRefused) {
    for (const auto& [name, base] : {std::pair{"a", "b"}, {"b", "a"}})
        must(Qcow2::create(at(name), {.virtual_size = kMiB, .backing = Backing{base, ImageFormat::kQcow2}}));
    EXPECT_NE(open_error(at("a"), true).find("its own ancestor"), std::string::npos);
    must(Qcow2::create(at("0"), {.virtual_size = kMiB}));
    for (unsigned i = 1; i <= kMaxBackingDepth + 1; ++i)
        must(Qcow2::create(at(std::to_string(i)),
                           {.virtual_size = kMiB,
                            .backing = Backing{std::to_string(i - 1), ImageFormat::kQcow2},
                            .durable = false}));
    EXPECT_EQ(open_error(at(std::to_string(kMaxBackingDepth))), "");
    EXPECT_NE(open_error(at(std::to_string(kMaxBackingDepth + 1))).find("flatten"), std::string::npos);
}

TEST_F(Qcow2Test, KindsOfImagesThatAreRefused) {
    const auto made = [&](std::vector<std::string> extra) {
        ::unlink(at("disk").c_str());
        std::vector<std::string> command = {"qemu-img", "create", "-q", "-f", "qcow2"};
        command.insert(command.end(), extra.begin(), extra.end());
        command.insert(command.end(), {at("disk"), "1M"});
        const auto output = run(command);
        EXPECT_EQ(output.status.code, 0) << output.err;
        return open_error(at("disk"));
    };
    EXPECT_NE(made({"-o", "compat=0.10"}).find("version 2"), std::string::npos);
    EXPECT_NE(made({"-o", "data_file=" + at("data")}).find("external file"), std::string::npos);
    EXPECT_NE(made({"-o", "extended_l2=on"}).find("extended L2"), std::string::npos);
    EXPECT_NE(made({"-o", "compression_type=zstd"}).find("compressed"), std::string::npos);
    EXPECT_NE(made({"-o", "refcount_bits=1"}).find("2^0 bits"), std::string::npos);
    EXPECT_EQ(made({}), "");
    patch_be<uint32_t>(at("disk"), 32, 2);  // what "-o encrypt.format=luks" sets
    EXPECT_NE(open_error(at("disk")).find("encrypted"), std::string::npos);
    EXPECT_EQ(made({}), "");
    run({"qemu-img", "snapshot", "-c", "one", at("disk")});
    EXPECT_NE(open_error(at("disk")).find("internal snapshots"), std::string::npos);
    EXPECT_EQ(open_error(at("disk"), true), "");
    EXPECT_EQ(made({}), "");
    run({"qemu-img", "bitmap", "--add", at("disk"), "map"});
    EXPECT_NE(open_error(at("disk")).find("bitmaps"), std::string::npos);

    testing::write_whole(at("raw"), base::Bytes(kMiB, 'x'));
    ::unlink(at("disk").c_str());
    run({"qemu-img", "convert", "-c", "-O", "qcow2", at("raw"), at("disk")});
    EXPECT_NE(open_error(at("disk")).find("compressed"), std::string::npos);
    auto disk = open(at("disk"), true);
    base::Bytes data(512);
    EXPECT_NE(disk->read(0, data).error().message.find("compressed"), std::string::npos);
}

TEST_F(Qcow2Test, DamagedTablesAreRefused) {
    const auto damaged = [&](auto damage) {
        ::unlink(at("disk").c_str());
        must(Qcow2::create(at("disk"), {.virtual_size = kMiB, .durable = false}));
        {
            auto disk = open(at("disk"));
            must(disk->write(0, base::Bytes(200000, 1)));
            must(disk->close());
        }
        damage();
        return open_error(at("disk"));
    };
    const auto l1 = [&] { return field<uint64_t>(at("disk"), 40); };
    const auto l2 = [&] { return field<uint64_t>(at("disk"), l1()) & 0x00fffffffffffe00; };
    const auto block = [&] { return field<uint64_t>(at("disk"), field<uint64_t>(at("disk"), 48)); };
    EXPECT_EQ(damaged([] {}), "");
    EXPECT_NE(damaged([&] { patch_be<uint64_t>(at("disk"), 24, uint64_t{1} << 60); }), "");  // size
    EXPECT_NE(damaged([&] { patch_be<uint32_t>(at("disk"), 20, 63); }), "");                 // cluster bits
    EXPECT_NE(damaged([&] { patch_be<uint32_t>(at("disk"), 36, 0xffffffff); }), "");         // L1 entries
    EXPECT_NE(damaged([&] { patch_be<uint64_t>(at("disk"), 40, uint64_t{1} << 40); }), "");  // L1 offset
    EXPECT_NE(damaged([&] { patch_be<uint64_t>(at("disk"), 40, 0); }), "");                  // on the header
    EXPECT_NE(damaged([&] { patch_be<uint64_t>(at("disk"), 40, ~uint64_t{0} << 16); }), "");
    EXPECT_NE(damaged([&] { patch_be<uint64_t>(at("disk"), 48, l1()); }), "");  // refcounts on L1
    EXPECT_NE(damaged([&] { patch_be<uint32_t>(at("disk"), 56, 0x7fffffff); }), "");
    EXPECT_NE(damaged([&] { patch_be<uint32_t>(at("disk"), 56, 0); }), "");
    EXPECT_NE(damaged([&] { patch_be<uint32_t>(at("disk"), 100, 0x7ffffff8); }), "");        // header length
    EXPECT_NE(damaged([&] { patch_be<uint64_t>(at("disk"), 72, uint64_t{1} << 40); }), "");  // feature
    EXPECT_NE(damaged([&] {
                  patch_be<uint64_t>(at("disk"), 8, 200);
                  patch_be<uint32_t>(at("disk"), 16, 0xffffffff);
              }),
              "");
    EXPECT_NE(damaged([&] { patch_be<uint64_t>(at("disk"), l1(), uint64_t{1} << 50); }), "");  // L2 outside
    EXPECT_NE(damaged([&] { patch_be<uint64_t>(at("disk"), l1(), l1() | uint64_t{1} << 63); }),
              "");  // L2 on L1
    EXPECT_NE(damaged([&] {
                  patch_be<uint64_t>(at("disk"), l2(), uint64_t{1} << 63);
                  patch_be<uint64_t>(at("disk"), l2(), block());
              }),
              "");
    EXPECT_NE(damaged([&] { patch_be<uint64_t>(at("disk"), l2(), field<uint64_t>(at("disk"), l2() + 8)); }),
              "");  // twice
    EXPECT_NE(
        damaged([&] { patch_be<uint64_t>(at("disk"), l2(), (uint64_t{1} << 63) + (uint64_t{1} << 45)); }),
        "");
    EXPECT_NE(damaged([&] { patch_be<uint64_t>(at("disk"), l2(), field<uint64_t>(at("disk"), l2()) + 512); }),
              "");
    EXPECT_NE(damaged([&] { patch(at("disk"), block(), base::Bytes(64)); }), "");  // not counted
    EXPECT_NE(damaged([&] { EXPECT_EQ(::truncate(at("disk").c_str(), 65536), 0); }), "");
    // Counted and not used: freed at open.
    EXPECT_EQ(damaged([&] {
                  patch_be<uint16_t>(at("disk"), block(), 2);
                  EXPECT_EQ(testing::qemu_check(at("disk")), 3);
              }),
              "");
    expect_clean(at("disk"));
}

TEST_F(Qcow2Test, CreateRefusesWhatOpenWould) {
    EXPECT_FALSE(Qcow2::create(at("disk"), {.virtual_size = 1000}).ok());
    EXPECT_FALSE(Qcow2::create(at("disk"), {.virtual_size = uint64_t{1} << 50}).ok());
    EXPECT_FALSE(Qcow2::create(at("disk"), {.virtual_size = uint64_t{1} << 40, .cluster_bits = 9}).ok());
    EXPECT_FALSE(Qcow2::create(at("disk"), {.virtual_size = kMiB, .cluster_bits = 22}).ok());
    EXPECT_FALSE(
        Qcow2::create(at("disk"), {.virtual_size = kMiB, .backing = Backing{"nbd:x", ImageFormat::kRaw}})
            .ok());
    EXPECT_FALSE(base::path_exists(at("disk")));
    must(Qcow2::create(at("disk"), {.virtual_size = uint64_t{64} << 40}));
    expect_clean(at("disk"));
    open(at("disk"));
    EXPECT_EQ(open(at("disk"))->size(), uint64_t{64} << 40);
}

TEST(RawFileTest, ReadsWritesAndFrees) {
    auto dir = must(base::TempDir::make());
    const std::string path = dir.path() + "/raw";
    const base::Bytes content = Random(1).bytes(kMiB + 100);
    testing::write_whole(path, content);
    auto disk = must(RawFile::open(path, false));
    EXPECT_EQ(disk->size(), kMiB + 100);
    base::Bytes data(5000);
    must(disk->read(kMiB - 4900, data));
    EXPECT_TRUE(std::equal(data.begin(), data.end(), content.begin() + kMiB - 4900));
    must(disk->write_zeroes(100, 200000));
    must(disk->write(50, base::Bytes(20, 9)));
    must(disk->flush());
    EXPECT_FALSE(disk->write(kMiB, data).ok());
    base::Bytes head(400);
    must(disk->read(0, head));
    EXPECT_EQ(head[60], 9);
    EXPECT_EQ(head[99], content[99]);
    EXPECT_EQ(head[100], 0);
    ASSERT_EQ(::symlink("raw", (dir.path() + "/link").c_str()), 0);
    EXPECT_FALSE(RawFile::open(dir.path() + "/link", true).ok());
    EXPECT_FALSE(RawFile::open(dir.path(), true).ok());
}

}  // namespace
}  // namespace boxlite::disk
