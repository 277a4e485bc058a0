#include "jail/confine.h"

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <thread>

#include "jail/jail_testing.h"
#include "jail/landlock.h"

namespace boxlite::jail {
namespace {

class ConfineTest : public ::testing::Test {
  protected:
    void SetUp() override {
        for (const char* name : {"box", "bases", "other"}) must(base::make_directories(at(name)));
        for (const char* name : {"bases/base", "other/secret", "box/disk"}) {
            must(base::write_file_atomically(at(name), base::as_bytes("x")));
            EXPECT_EQ(::chmod(at(name).c_str(), 0666), 0);
        }
        EXPECT_EQ(::symlink("../other/secret", at("box/link").c_str()), 0);
        for (const char* name : {"", "box", "bases", "other"}) EXPECT_EQ(::chmod(at(name).c_str(), 0777), 0);
    }
    std::string at(const std::string& name) const {
        return name.empty() ? dir_.path() : dir_.path() + "/" + name;
    }
    ShimConfinement confinement() const { return {.read_write = {at("box")}, .read_only = {at("bases")}}; }

    static std::string outcome(const char* what, long result) {
        return fmt::format("{} {}\n", what, result < 0 ? errno : 0);
    }
    // Runs in a process of its own.
    std::string attempts() const {
        std::string out;
        const auto open = [&](const char* what, const char* name, int flags) {
            const int fd = ::open(at(name).c_str(), flags | O_CLOEXEC, 0600);
            out += outcome(what, fd);
            if (fd >= 0) ::close(fd);
        };
        open("write-box", "box/disk", O_RDWR);
        open("create-in-box", "box/new", O_RDWR | O_CREAT | O_EXCL);
        open("read-base", "bases/base", O_RDONLY);
        open("write-base", "bases/base", O_RDWR);
        open("create-base", "bases/new", O_RDWR | O_CREAT);
        open("read-other", "other/secret", O_RDONLY);
        open("read-through-link", "box/link", O_RDONLY);
        out += outcome("link-out", ::link(at("box/disk").c_str(), at("other/disk").c_str()));
        out += outcome("read-passwd", ::open("/etc/passwd", O_RDONLY));
        out += outcome("rename-in-box", ::rename(at("box/new").c_str(), at("box/renamed").c_str()));
        out += outcome("unix-socket", ::socket(AF_UNIX, SOCK_STREAM, 0));
        out += outcome("inet-socket", ::socket(AF_INET, SOCK_STREAM, 0));
        out += outcome("inet6-socket", ::socket(AF_INET6, SOCK_DGRAM, 0));
        out += outcome("netlink-socket", ::socket(AF_NETLINK, SOCK_RAW, 0));
        out += outcome("vsock-socket", ::socket(AF_VSOCK, SOCK_STREAM, 0));
        out += outcome("signal-by-pid", ::kill(::getppid(), 0));
        out += outcome("signal-self", ::raise(SIGCHLD) == 0 ? 0 : -1);
        const pid_t child = ::fork();
        if (child == 0) ::_exit(0);
        out += outcome("fork", child);
        char* const argv[] = {nullptr};
        out += outcome("execve", ::execve("/bin/true", argv, argv));
        out += outcome("ptrace", ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr));
        std::thread thread([&] { out += outcome("thread-file", ::open("/etc/passwd", O_RDONLY)); });
        thread.join();
        out += outcome("thread", 0);
        out += outcome("dumpable", ::prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 0 ? 0 : -1);
        return out;
    }

    base::TempDir dir_ = must(base::TempDir::make());
};

TEST_F(ConfineTest, TheSupervisorReachesItsFoldersAndUnixSockets) {
    for (const bool root : {true, false}) {
        ::unlink(at("box/renamed").c_str());
        const Probed probed = parse(in_child([&] {
            if (!root) become_user();
            auto report = confine_shim(confinement());
            return report.ok() ? to_text(*report) + attempts() : "error " + report.error().message;
        }));
        for (const char* what : {"write-box", "create-in-box", "read-base", "rename-in-box", "unix-socket",
                                 "thread", "dumpable", "signal-self"})
            EXPECT_EQ(probed[what], "0") << what << "\n" << probed.all;
        for (const char* what : {"inet-socket", "inet6-socket", "netlink-socket", "vsock-socket",
                                 "signal-by-pid", "fork", "execve", "ptrace"})
            EXPECT_EQ(probed[what], std::to_string(EPERM)) << what;
        EXPECT_TRUE(probed.applied("seccomp")) << probed.all;
        if (landlock_version() == 0) {
            EXPECT_TRUE(probed.missing("Landlock"));
            continue;
        }
        EXPECT_TRUE(probed.applied("Landlock"));
        for (const char* what :
             {"write-base", "create-base", "read-other", "read-through-link", "read-passwd", "thread-file"})
            EXPECT_EQ(probed[what], std::to_string(EACCES)) << what;
        EXPECT_NE(probed["link-out"], "0");
    }
}

TEST_F(ConfineTest, ThreadsThatRunAlreadyAreTold) {
    const std::string text = in_child([&] {
        auto gate = must(base::make_pipe());
        std::thread other([&] {
            char byte;
            (void)!::read(gate.first.get(), &byte, 1);
        });
        auto report = confine_shim(confinement());
        const std::string inet = outcome("inet", ::socket(AF_INET, SOCK_STREAM, 0));
        gate.second.reset();
        other.join();
        return (report.ok() ? to_text(*report) : "error " + report.error().message) + inet;
    });
    EXPECT_NE(text.find("missing: Landlock: 1 threads"), std::string::npos) << text;
    EXPECT_NE(text.find("inet 1\n"), std::string::npos) << text;
}

TEST_F(ConfineTest, AMissingFolderChangesNothing) {
    const std::string text = in_child([&] {
        ShimConfinement bad = confinement();
        bad.read_only.push_back(at("nothing"));
        auto report = confine_shim(bad);
        return (report.ok() ? "" : report.error().message) +
               outcome(" inet", ::socket(AF_INET, SOCK_STREAM, 0));
    });
    EXPECT_NE(text.find("nothing"), std::string::npos);
    EXPECT_NE(text.find("inet 0"), std::string::npos) << text;
}

}  // namespace
}  // namespace boxlite::jail
