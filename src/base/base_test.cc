#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <set>
#include <thread>

#include "base/bytes.h"
#include "base/checksum.h"
#include "base/event_loop.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/id.h"
#include "base/log.h"
#include "base/process.h"

namespace boxlite::base {
namespace {

Result<int> half(int n) {
    if (n % 2) return make_error(ErrorCode::kInvalidArgument, "{} is odd", n);
    return n / 2;
}
Result<int> quarter(int n) {
    return TRY_CONTEXT(half(TRY(half(n))), "second half");
}

TEST(Checksum, IsThatOfTheWhole) {
    // RFC 1071, 3.
    const Bytes words = {0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7};
    Checksum known;
    known.add(words);
    EXPECT_EQ(known.result(), static_cast<uint16_t>(~0xddf2));
    Bytes bytes;
    for (unsigned i = 0; i < 999; ++i) bytes.push_back(static_cast<uint8_t>(i * i >> 3));
    uint64_t sum = 0;
    for (size_t i = 0; i < bytes.size(); ++i) sum += static_cast<uint64_t>(bytes[i]) << (i % 2 ? 0 : 8);
    while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
    for (size_t piece = 1; piece < 40; ++piece) {
        Checksum pieces;
        for (size_t i = 0; i < bytes.size(); i += piece)
            pieces.add(ByteView(bytes).subspan(i, std::min(piece, bytes.size() - i)));
        EXPECT_EQ(pieces.result(), static_cast<uint16_t>(~sum)) << piece;
    }
}

TEST(Result, TryPassesValuesAndErrorsOn) {
    EXPECT_EQ(quarter(8).value(), 2);
    EXPECT_EQ(quarter(3).error().message, "3 is odd");
    EXPECT_EQ(quarter(6).error().message, "second half: 3 is odd");
    EXPECT_EQ(quarter(6).error().code, ErrorCode::kInvalidArgument);
}

TEST(Bytes, FixedByteOrder) {
    uint8_t buffer[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    EXPECT_EQ(load_be<uint32_t>(buffer), 0x01020304u);
    EXPECT_EQ(load_le<uint16_t>(buffer), 0x0201u);
    store_be<uint64_t>(buffer, 0x1122334455667788u);
    EXPECT_EQ(buffer[0], 0x11);
    EXPECT_EQ(buffer[7], 0x88);
    uint64_t sum;
    EXPECT_FALSE(checked_add<uint64_t>(UINT64_MAX, 1, &sum));
}

TEST(Id, LengthAlphabetAndNoRepeats) {
    std::set<std::string> seen;
    for (int i = 0; i < 2000; ++i) {
        const std::string id = random_id();
        EXPECT_EQ(id.size(), 12u);
        EXPECT_EQ(id.find_first_not_of("0123456789abcdefghijklmnopqrstuvwxyz"), std::string::npos);
        EXPECT_TRUE(seen.insert(id).second);
    }
}

TEST(File, AtomicWriteReplacesAndLeavesNothingBehind) {
    const TempDir dir = TempDir::make().value();
    const std::string path = dir.path() + "/f";
    ASSERT_TRUE(write_file_atomically(path, as_bytes("one")).ok());
    ASSERT_TRUE(write_file_atomically(path, as_bytes("two")).ok());
    EXPECT_EQ(read_file(path).value(), "two");
    EXPECT_EQ(read_file(path, 2).error().code, ErrorCode::kStorage);
    EXPECT_EQ(read_file(dir.path() + "/none").error().code, ErrorCode::kNotFound);
    const auto failed = write_file_atomically(dir.path() + "/no/such", as_bytes("x"));
    EXPECT_FALSE(failed.ok());
}

TEST(File, RemoveTreeDoesNotFollowLinks) {
    const TempDir dir = TempDir::make().value();
    ASSERT_TRUE(make_directories(dir.path() + "/a/b/c").ok());
    ASSERT_TRUE(write_file_atomically(dir.path() + "/keep", as_bytes("k")).ok());
    ASSERT_EQ(::symlink(dir.path().c_str(), (dir.path() + "/a/up").c_str()), 0);
    ASSERT_TRUE(remove_tree(dir.path() + "/a").ok());
    EXPECT_TRUE(path_exists(dir.path() + "/keep"));
    EXPECT_FALSE(path_exists(dir.path() + "/a"));
    EXPECT_TRUE(remove_tree(dir.path() + "/a").ok());
}

TEST(File, LockExcludes) {
    const TempDir dir = TempDir::make().value();
    const std::string path = dir.path() + "/lock";
    {
        const FileLock held = FileLock::try_acquire(path).value();
        EXPECT_EQ(FileLock::try_acquire(path).error().code, ErrorCode::kInvalidState);
    }
    EXPECT_TRUE(FileLock::try_acquire(path).ok());
}

TEST(Fd, UnixSocketsWithLongPathsCarryDescriptors) {
    const TempDir dir = TempDir::make().value();
    const std::string deep = dir.path() + "/" + std::string(120, 'd');
    ASSERT_TRUE(make_directories(deep).ok());
    const Fd listener = listen_unix(deep + "/s").value();
    const Fd client = connect_unix(deep + "/s").value();
    const Fd server(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    ASSERT_TRUE(server.valid());
    FdPair pipe = make_pipe().value();
    const int passed[] = {pipe.second.get()};
    ASSERT_TRUE(send_with_fds(client.get(), as_bytes("hi"), passed).ok());
    uint8_t buffer[8];
    std::vector<Fd> received;
    EXPECT_EQ(recv_with_fds(server.get(), buffer, received).value(), 2u);
    ASSERT_EQ(received.size(), 1u);
    ASSERT_TRUE(write_all(received[0].get(), as_bytes("x")).ok());
    ASSERT_TRUE(read_exact(pipe.first.get(), std::span(buffer, 1)).ok());
    EXPECT_EQ(buffer[0], 'x');
}

TEST(Log, OneLinePerRecordWhateverTheFieldsHold) {
    const std::string line = format_log_record(1'700'000'000'123'000'000, LogLevel::kWarn, "shim", "a b",
                                               {{"k", "v\n\"\\"}, {"e", ""}});
    EXPECT_EQ(line, "2023-11-14T22:13:20.123Z WARN shim msg=\"a b\" k=\"v\\x0a\\\"\\\\\" e=\"\"");
}

TEST(Log, WritesTheDaysFileAndRemovesOldOnes) {
    const TempDir dir = TempDir::make().value();
    ASSERT_TRUE(write_file_atomically(dir.path() + "/t-2001-01-01.log", as_bytes("old")).ok());
    ASSERT_TRUE(write_file_atomically(dir.path() + "/other-2001-01-01.log", as_bytes("old")).ok());
    ASSERT_TRUE(log_to(dir.path(), "t", LogLevel::kInfo, LogLevel::kError).ok());
    log_info("hello");
    log_debug("hidden");
    const std::string today = format_time(realtime_ns()).substr(0, 10);
    const std::string content = read_file(dir.path() + "/t-" + today + ".log").value();
    EXPECT_NE(content.find("msg=hello"), std::string::npos);
    EXPECT_EQ(content.find("hidden"), std::string::npos);
    EXPECT_FALSE(path_exists(dir.path() + "/t-2001-01-01.log"));
    EXPECT_TRUE(path_exists(dir.path() + "/other-2001-01-01.log"));
    ASSERT_TRUE(log_to("", "boxlite", LogLevel::kInfo, LogLevel::kWarn).ok());
}

TEST(Process, OutputStatusAndSignal) {
    const auto done = run_command({"sh", "-c", "cat; echo err >&2; exit 3"}, "in").value();
    EXPECT_EQ(done.out, "in");
    EXPECT_EQ(done.err, "err\n");
    EXPECT_EQ(done.status.shell_code(), 3);
    EXPECT_EQ(run_command({"sh", "-c", "kill -9 $$"}).value().status.shell_code(), 128 + SIGKILL);
    EXPECT_EQ(run_command({"/no/such/program"}).error().code, ErrorCode::kNotFound);
}

TEST(Process, BigInputToAProgramThatDoesNotRead) {
    EXPECT_EQ(run_command({"true"}, std::string(1 << 20, 'x')).value().status.code, 0);
}

TEST(Process, DescriptorsSwapWithoutClobbering) {
    FdPair a = make_pipe().value();
    FdPair b = make_pipe().value();
    // The child's numbers are the caller's other descriptor: only a two-step move gets it right.
    Process child =
        Process::spawn(
            {.argv = {"sh", "-c", fmt::format("echo A >&{}; echo B >&{}", b.second.get(), a.second.get())},
             .fds = {{a.second.get(), b.second.get()}, {b.second.get(), a.second.get()}}})
            .value();
    EXPECT_EQ(child.wait().value().code, 0);
    uint8_t buffer[2];
    ASSERT_TRUE(read_exact(a.first.get(), buffer).ok());
    EXPECT_EQ(buffer[0], 'A');
    ASSERT_TRUE(read_exact(b.first.get(), buffer).ok());
    EXPECT_EQ(buffer[0], 'B');
}

TEST(Hash, IsFnv1a) {
    EXPECT_EQ(fnv1a_32(""), 0x811c9dc5u);
    EXPECT_EQ(fnv1a_32("foobar"), 0xbf9cf968u);
    EXPECT_EQ(fnv1a_64("a"), 0xaf63dc4c8601ec8cu);
    EXPECT_EQ(fnv1a_64("foobar"), 0x85944171f73967e8u);
}

TEST(EventLoop, IoTimersAndPosts) {
    auto loop = EventLoop::make().value();
    FdPair pipe = make_pipe().value();
    std::string order;
    ASSERT_TRUE(loop->watch(pipe.first.get(), EPOLLIN,
                            [&](uint32_t) {
                                uint8_t byte;
                                (void)read_exact(pipe.first.get(), std::span(&byte, 1));
                                order += static_cast<char>(byte);
                                loop->unwatch(pipe.first.get());
                            })
                    .ok());
    const auto cancelled = loop->after(std::chrono::milliseconds(1), [&] { order += '!'; });
    loop->cancel(cancelled);
    loop->after(std::chrono::milliseconds(60), [&] { loop->stop(); });
    loop->after(std::chrono::milliseconds(30), [&] { order += 't'; });
    std::thread other([&] {
        loop->post([&] {
            order += 'p';
            (void)write_all(pipe.second.get(), as_bytes("r"));
        });
    });
    ASSERT_TRUE(loop->run().ok());
    other.join();
    EXPECT_EQ(order, "prt");
}

}  // namespace
}  // namespace boxlite::base
