// The runtime with a supervisor that has no machine (fake_shim.cc): what is true of a box after anything was
// killed at any moment.
#include "boxlite/runtime.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "base/file.h"
#include "base/process.h"
#include "runtime/home.h"
#include "runtime/state_store.h"
#include "runtime/supervisor.h"

namespace boxlite {
namespace {

class RuntimeTest : public ::testing::Test {
  protected:
    void SetUp() override {
        libexec_ = dir_.path() + "/libexec";
        ASSERT_TRUE(base::make_directories(libexec_).ok());
        std::filesystem::create_symlink(FAKE_SHIM, libexec_ + "/boxlite-shim");
        for (const char* name : {"boxlite-netd", "linux-uml", "initramfs.cpio"})
            ASSERT_TRUE(base::write_file_atomically(libexec_ + "/" + name, {}).ok());
        // A root with one file is an image.
        const auto tar = base::run_command(
            {"sh", "-c",
             "mkdir $0/root && echo hello > $0/root/file && tar -C $0/root -cf $0/libexec/base.tar .",
             dir_.path()});
        ASSERT_TRUE(tar.ok() && tar->status.shell_code() == 0);
        ASSERT_EQ(::setenv("BOXLITE_LIBEXEC_DIR", libexec_.c_str(), 1), 0);
    }

    void TearDown() override {
        // Also after a failed test: no supervisor survives it.
        auto runtime = open();
        const auto boxes = runtime.list();
        for (size_t i = 0; boxes.ok() && i < boxes->size(); ++i) (void)runtime.remove((*boxes)[i].id, true);
    }

    Runtime open() { return Runtime::open({.home = home()}).value(); }
    std::string home() const { return dir_.path() + "/home"; }

    static BoxOptions options(const std::string& name) {
        BoxOptions options;
        options.name = name;
        options.image = "base";
        options.detach = true;
        return options;
    }

    static BoxInfo info(const Box& box) {
        auto info = box.info();
        EXPECT_TRUE(info.ok()) << info.error().message;
        return info.ok() ? *info : BoxInfo{};
    }

    // Kills a supervisor that may be somebody else's child, and waits until it is gone.
    static void kill_and_wait(int pid) {
        const base::Fd pidfd = watch(pid);
        ASSERT_EQ(::kill(pid, SIGKILL), 0);
        wait_for(pidfd);
    }

    static base::Fd watch(int pid) {
        base::Fd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
        EXPECT_TRUE(pidfd.valid());
        return pidfd;
    }

    static void wait_for(const base::Fd& pidfd) {
        pollfd entry{pidfd.get(), POLLIN, 0};
        ASSERT_EQ(::poll(&entry, 1, 10'000), 1);
    }

    // A process of its own that opens the home and does `work`, then ends without any destructor.
    template <typename Work>
    static void in_another_process(Work work) {
        const pid_t pid = ::fork();
        if (pid == 0) {
            work();
            ::_exit(0);
        }
        int status = 0;
        ASSERT_EQ(::waitpid(pid, &status, 0), pid);
        ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    }

    base::TempDir dir_ = base::TempDir::make().value();
    std::string libexec_;
};

TEST_F(RuntimeTest, ABoxIsMadeStartedStoppedAndRemoved) {
    Runtime runtime = open();
    Box box = runtime.create(options("one")).value();
    EXPECT_EQ(info(box).status, BoxStatus::kConfigured);
    ASSERT_TRUE(box.start().ok());
    const BoxInfo live = info(box);
    EXPECT_EQ(live.status, BoxStatus::kRunning);
    EXPECT_EQ(live.kernel, "6.0-fake");
    EXPECT_GT(live.pid, 0);
    ASSERT_TRUE(box.start().ok()) << "starting a running box is no error";
    EXPECT_EQ(info(box).pid, live.pid);
    EXPECT_EQ(runtime.remove("one").error().code, ErrorCode::kInvalidState);
    ASSERT_TRUE(box.stop().ok());
    const BoxInfo stopped = info(box);
    EXPECT_EQ(stopped.status, BoxStatus::kStopped);
    EXPECT_EQ(stopped.exit_code, 7);
    EXPECT_EQ(stopped.reason, "stopped on request");
    EXPECT_EQ(stopped.finished_at, 42);
    ASSERT_TRUE(box.stop().ok()) << "stopping a stopped box is no error";
    ASSERT_TRUE(runtime.remove("one").ok());
    EXPECT_EQ(box.info().error().code, ErrorCode::kNotFound);
    EXPECT_EQ(box.start().error().code, ErrorCode::kNotFound);
    EXPECT_FALSE(base::path_exists(live.folder));
}

TEST_F(RuntimeTest, AKilledSupervisorIsTold) {
    Runtime runtime = open();
    Box box = runtime.create(options("one")).value();
    ASSERT_TRUE(box.start().ok());
    kill_and_wait(info(box).pid);
    ASSERT_TRUE(base::path_exists(info(box).folder + "/shim.sock")) << "the socket is stale";
    const BoxInfo dead = info(box);
    EXPECT_EQ(dead.status, BoxStatus::kStopped);
    EXPECT_EQ(dead.reason, "its supervisor was killed");
    EXPECT_EQ(dead.exit_code, 137);
    EXPECT_EQ(runtime.list()->front().status, BoxStatus::kStopped);
    ASSERT_TRUE(box.start().ok()) << "it starts over the stale socket and lock";
    EXPECT_EQ(info(box).status, BoxStatus::kRunning);
    EXPECT_EQ(info(box).reason, "");
}

TEST_F(RuntimeTest, AnotherProcessSeesTheSameTruth) {
    Box box = open().create(options("one")).value();
    in_another_process([&] {
        Box same = open().get("one").value();
        if (!same.start().ok()) ::_exit(1);
    });
    EXPECT_EQ(info(box).status, BoxStatus::kRunning) << "a detached box outlives the process that started it";
    in_another_process([&] {
        if (open().get("one").value().info()->status != BoxStatus::kRunning) ::_exit(1);
        if (!open().get("one").value().stop().ok()) ::_exit(2);
    });
    EXPECT_EQ(info(box).status, BoxStatus::kStopped);
}

TEST_F(RuntimeTest, ABoxThatIsNotDetachedEndsWithItsProcess) {
    int pid = 0;
    base::FdPair pipe = base::make_pipe().value();
    in_another_process([&] {
        BoxOptions attached = options("one");
        attached.detach = false;
        Box box = open().create(attached).value();
        if (!box.start().ok()) ::_exit(1);
        const int shim = box.info()->pid;
        (void)!::write(pipe.second.get(), &shim, sizeof shim);
    });
    ASSERT_EQ(::read(pipe.first.get(), &pid, sizeof pid), static_cast<ssize_t>(sizeof pid));
    Box box = open().get("one").value();
    EXPECT_EQ(box.wait()->code, 0);
    EXPECT_EQ(info(box).reason, "the process that started the box has ended");
}

TEST_F(RuntimeTest, TheRecordOfARestartedHostIsCorrected) {
    Box box = open().create(options("one")).value();
    {
        auto state = runtime::StateStore::open(runtime::Home::open(home()).value()).value();
        runtime::BoxState before{.status = BoxStatus::kRunning, .started_at = 1, .boot_id = "another-boot"};
        ASSERT_TRUE(state->set_state(box.id(), before).ok());
    }
    EXPECT_EQ(info(box).status, BoxStatus::kStopped);
    EXPECT_EQ(info(box).reason, "the host was restarted");
}

TEST_F(RuntimeTest, AClientThatDiedWhileStartingLeavesAStoppedBox) {
    Box box = open().create(options("one")).value();
    const runtime::BoxFolder folder = runtime::Home::open(home())->box(box.id());
    {
        // The state is written before the supervisor is launched; here the client dies in between.
        auto state = runtime::StateStore::open(runtime::Home::open(home()).value()).value();
        runtime::BoxState running{.status = BoxStatus::kRunning, .boot_id = runtime::host_boot_id().value()};
        ASSERT_TRUE(state->set_state(box.id(), running).ok());
        const auto changing = base::FileLock::acquire(folder.change_lock()).value();
        EXPECT_EQ(info(box).status, BoxStatus::kUnknown)
            << "while its client lives, the record is the client's, and nobody answers for the box";
    }
    EXPECT_EQ(info(box).status, BoxStatus::kStopped);
    EXPECT_TRUE(box.start().ok());
}

TEST_F(RuntimeTest, ASupervisorThatHoldsTheLockButDoesNotAnswerIsStopping) {
    Box box = open().create(options("one")).value();
    const runtime::BoxFolder folder = runtime::Home::open(home())->box(box.id());
    auto state = runtime::StateStore::open(runtime::Home::open(home()).value()).value();
    ASSERT_TRUE(state->set_state(box.id(), {.status = BoxStatus::kRunning}).ok());
    std::optional<base::FileLock> held(base::FileLock::try_acquire(folder.lock()).value());
    EXPECT_EQ(info(box).status, BoxStatus::kStopping);
    held.reset();
    EXPECT_EQ(info(box).status, BoxStatus::kStopped);
}

TEST_F(RuntimeTest, ASupervisorThatDoesNotComeUpSaysWhy) {
    Runtime runtime = open();
    Box refused = runtime.create(options("refuses")).value();
    const auto error = refused.start();
    ASSERT_FALSE(error.ok());
    EXPECT_EQ(error.error().code, ErrorCode::kResourceExhausted);
    EXPECT_NE(error.error().message.find("no room for a machine"), std::string::npos);
    EXPECT_EQ(info(refused).status, BoxStatus::kFailed);
    EXPECT_NE(info(refused).reason.find("no room"), std::string::npos);

    Box silent = runtime.create(options("no-greeting")).value();
    EXPECT_EQ(silent.start().error().code, ErrorCode::kEngine);
    EXPECT_EQ(info(silent).status, BoxStatus::kFailed);

    Box unbootable = runtime.create(options("boot-fails")).value();
    EXPECT_NE(unbootable.start().error().message.find("the guest kernel panicked"), std::string::npos);
    EXPECT_EQ(info(unbootable).status, BoxStatus::kFailed);
    EXPECT_EQ(info(unbootable).reason, "the guest kernel panicked");
    EXPECT_FALSE(unbootable.wait().ok());
}

TEST_F(RuntimeTest, ASupervisorThatIgnoresStopIsKilled) {
    Box box = open().create(options("ignores-stop")).value();
    ASSERT_TRUE(box.start().ok());
    ASSERT_TRUE(box.stop({.grace = std::chrono::milliseconds(0)}).ok());
    EXPECT_EQ(info(box).status, BoxStatus::kStopped);
    EXPECT_EQ(info(box).reason, "its supervisor was killed");
}

TEST_F(RuntimeTest, ASupervisorThatDiesDuringACallIsAnError) {
    Box box = open().create(options("dies-at-exec")).value();
    ASSERT_TRUE(box.start().ok());
    const base::Fd pidfd = watch(info(box).pid);
    EXPECT_EQ(box.exec({.argv = {"true"}}).error().code, ErrorCode::kPortal);
    wait_for(pidfd);  // its socket is closed before its lock
    EXPECT_EQ(info(box).status, BoxStatus::kStopped);
}

TEST_F(RuntimeTest, ExecStartsAStoppedBoxButNotAJob) {
    Runtime runtime = open();
    Box idle = runtime.create(options("idle")).value();
    Execution run = idle.exec({.argv = {"true"}}).value();
    for (const char* piece : {"ab", "cd", "ef", ""}) EXPECT_EQ(run.read(Stream::kStdout, 2).value(), piece);
    EXPECT_EQ(run.read(Stream::kStderr).value(), "");
    Execution left = idle.exec({.argv = {"true"}}).value();
    left.disconnect();
    EXPECT_EQ(left.read(Stream::kStdout).error().code, ErrorCode::kStopped);
    EXPECT_EQ(info(idle).status, BoxStatus::kRunning);
    BoxOptions with_command = options("job");
    with_command.cmd = {"sleep", "1"};
    Box job = runtime.create(with_command).value();
    const auto refused = job.exec({.argv = {"true"}});
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, ErrorCode::kStopped);
    EXPECT_NE(refused.error().message.find("boxlite start job"), std::string::npos);
    EXPECT_EQ(idle.exec({.argv = {}}).error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(idle.attach().error().code, ErrorCode::kInvalidState);
}

TEST_F(RuntimeTest, ManyProcessesStartOneBoxOnce) {
    open().create(options("one")).value();
    std::vector<pid_t> children;
    for (int i = 0; i < 6; ++i) {
        const pid_t pid = ::fork();
        if (pid == 0) ::_exit(open().get("one").value().start().ok() ? 0 : 1);
        children.push_back(pid);
    }
    for (const pid_t child : children) {
        int status = 0;
        ASSERT_EQ(::waitpid(child, &status, 0), child);
        EXPECT_EQ(status, 0);
    }
    EXPECT_EQ(info(open().get("one").value()).status, BoxStatus::kRunning);
}

TEST_F(RuntimeTest, ABoxToBeRemovedGoesWhenItIsFoundDead) {
    Runtime runtime = open();
    BoxOptions removed = options("one");
    removed.auto_remove = true;
    Box box = runtime.create(removed).value();
    ASSERT_TRUE(box.start().ok());
    const BoxInfo live = info(box);
    kill_and_wait(live.pid);
    EXPECT_TRUE(runtime.list()->empty());
    EXPECT_FALSE(base::path_exists(live.folder));
    EXPECT_EQ(box.info().error().code, ErrorCode::kNotFound);
}

TEST_F(RuntimeTest, FoldersOfInterruptedCreationsAreCollected) {
    Runtime runtime = open();
    const std::string stale = home() + "/boxes/leftover0000";
    ASSERT_TRUE(base::make_directories(stale + "/logs").ok());
    Box box = runtime.create(options("one")).value();
    EXPECT_FALSE(base::path_exists(stale));
    EXPECT_TRUE(base::path_exists(info(box).folder + "/disk.qcow2"));
}

TEST_F(RuntimeTest, ACreationThatIsKilledLeavesAllOrNothing) {
    open().create(options("warm")).value();
    for (int round = 0; round < 20; ++round) {
        const pid_t pid = ::fork();
        if (pid == 0) {
            Runtime runtime = open();
            for (int i = 0;; ++i) (void)runtime.create(options(""));
        }
        // Any moment will do: the rounds spread over what a creation does.
        ::poll(nullptr, 0, 5 + round * 3);
        ::kill(pid, SIGKILL);
        ASSERT_EQ(::waitpid(pid, nullptr, 0), pid);
    }
    Runtime runtime = open();
    ASSERT_TRUE(runtime.create(options("after")).ok());
    const auto boxes = runtime.list().value();
    size_t folders = 0;
    for (const auto& entry : std::filesystem::directory_iterator(home() + "/boxes"))
        folders += entry.is_directory();
    EXPECT_EQ(folders, boxes.size());
    for (const BoxInfo& box : boxes) EXPECT_TRUE(base::path_exists(box.folder + "/disk.qcow2")) << box.id;
}

TEST_F(RuntimeTest, TheDiskIsAnOverlayThatForeignToolsAccept) {
    Box box = open().create(options("one")).value();
    const auto check = base::run_command({"qemu-img", "check", info(box).folder + "/disk.qcow2"});
    ASSERT_TRUE(check.ok());
    EXPECT_EQ(check->status.shell_code(), 0) << check->out << check->err;
    BoxOptions small = options("small");
    small.disk_size_gb = 1;
    const BoxInfo smaller = info(open().create(small).value());
    EXPECT_EQ(smaller.disk_bytes, uint64_t{1} << 30);
    const auto backing =
        base::run_command({"sh", "-c", "qemu-img info --output=json $0/disk.qcow2", smaller.folder});
    EXPECT_NE(backing->out.find("-1g.ext4"), std::string::npos) << backing->out;
}

TEST_F(RuntimeTest, BasesGoWithTheLastThatNeedsThem) {
    Runtime runtime = open();
    runtime.create(options("one")).value();
    const auto bases = [&] {
        size_t count = 0;
        for (const auto& entry : std::filesystem::directory_iterator(home() + "/bases"))
            count += entry.path().extension() == ".ext4";
        return count;
    };
    EXPECT_EQ(bases(), 1u);
    EXPECT_EQ(runtime.images().remove("base:latest").error().code, ErrorCode::kInvalidState);
    ASSERT_TRUE(runtime.images().remove("base:latest", true).ok());
    EXPECT_EQ(bases(), 1u) << "the box needs it";
    ASSERT_TRUE(runtime.remove("one").ok());
    EXPECT_EQ(bases(), 0u);
}

TEST_F(RuntimeTest, ManyProcessesBuildOneBaseOnce) {
    std::vector<pid_t> children;
    for (int i = 0; i < 4; ++i) {
        const pid_t pid = ::fork();
        if (pid == 0) ::_exit(open().create(options("box" + std::to_string(i))).ok() ? 0 : 1);
        children.push_back(pid);
    }
    for (const pid_t child : children) {
        int status = 0;
        ASSERT_EQ(::waitpid(child, &status, 0), child);
        EXPECT_EQ(status, 0);
    }
    EXPECT_EQ(open().list()->size(), 4u);
    EXPECT_EQ(open().images().list()->size(), 1u);
}

TEST_F(RuntimeTest, LogsOfRunningAndStoppedBoxesAreTheSame) {
    BoxOptions job = options("one");
    job.cmd = {"anything"};
    Box box = open().create(job).value();
    ASSERT_TRUE(box.start().ok());
    const auto read = [&](std::optional<uint64_t> tail) {
        std::string text;
        EXPECT_TRUE(box.logs({.tail = tail},
                             [&](const LogEntry& entry) {
                                 text += (entry.stream == Stream::kStderr ? "E:" : "") + entry.data;
                                 return true;
                             })
                        .ok());
        return text;
    };
    const std::string all = "line 1\nline 2\nline 3\nE:line 4\nline 5\n";
    for (const bool live : {true, false}) {
        EXPECT_EQ(read({}), all) << live;
        EXPECT_EQ(read(2), "E:line 4\nline 5\n") << live;
        EXPECT_EQ(read(0), "") << live;
        EXPECT_EQ(read(99), all) << live;
        ASSERT_TRUE(box.stop().ok());
    }
    int entries = 0;
    ASSERT_TRUE(box.logs({}, [&](const LogEntry&) { return ++entries < 2; }).ok());
    EXPECT_EQ(entries, 2) << "the reader decides when it has enough";
}

TEST_F(RuntimeTest, BadOptionsAreRefusedBeforeAnythingIsMade) {
    Runtime runtime = open();
    const auto refuse = [&](const BoxOptions& bad, ErrorCode code) {
        const auto made = runtime.create(bad);
        ASSERT_FALSE(made.ok());
        EXPECT_EQ(made.error().code, code) << made.error().message;
    };
    BoxOptions bad = options("bad name");
    refuse(bad, ErrorCode::kInvalidArgument);
    bad = options("a");
    bad.cpus = 0;
    refuse(bad, ErrorCode::kInvalidArgument);
    bad = options("a");
    bad.memory_mib = 8;
    refuse(bad, ErrorCode::kInvalidArgument);
    bad = options("a");
    bad.disk_size_gb = 0;
    refuse(bad, ErrorCode::kInvalidArgument);
    bad = options("a");
    bad.isolation = Isolation::kHardware;
    refuse(bad, ErrorCode::kUnsupportedEngine);
    bad = options("a");
    bad.cap_add = {"FLY"};
    refuse(bad, ErrorCode::kInvalidArgument);
    bad = options("a");
    bad.image = "no/such:image";
    bad.pull = PullPolicy::kNever;
    refuse(bad, ErrorCode::kNotFound);
    EXPECT_TRUE(runtime.list()->empty());
    ASSERT_TRUE(runtime.create(options("taken")).ok());
    refuse(options("taken"), ErrorCode::kAlreadyExists);
    EXPECT_FALSE(runtime.get_or_create(options("taken"))->second);
    EXPECT_TRUE(runtime.get_or_create(options("fresh"))->second);
}

TEST_F(RuntimeTest, NoSupervisorStaysBehindAsAZombie) {
    in_another_process([&] {
        Runtime runtime = open();
        Box box = runtime.create(options("one")).value();
        for (int i = 0; i < 3; ++i)
            if (!box.start().ok() || !box.stop().ok()) ::_exit(1);
        if (::waitpid(-1, nullptr, WNOHANG) != -1 || errno != ECHILD) ::_exit(2);
    });
}

}  // namespace
}  // namespace boxlite
