#include "jail/jail.h"

#include <arpa/inet.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <atomic>
#include <thread>

#include "base/clock.h"
#include "base/id.h"
#include "jail/cgroup.h"
#include "jail/confine.h"
#include "jail/jail_testing.h"
#include "jail/seccomp.h"

namespace boxlite::jail {
namespace {

class JailTest : public ::testing::Test {
  protected:
    void SetUp() override {
        ASSERT_EQ(::geteuid(), 0u) << "these tests start as root and give up what they do not need";
        probe_ = must(base::open_file(JAIL_PROBE, O_RDONLY));
        listen_tcp();
        listen_abstract();
    }

    // Runs the probe and returns its report and output. To be called in a process of its own.
    std::string run_probe(const std::vector<std::string>& arguments, const JailOptions& options,
                          std::vector<std::pair<int, int>> more_fds = {}) {
        auto pipe = must(base::make_pipe());
        JailedProgram program{probe_.get(), {"probe"}, {"TOP=1"}, {{pipe.second.get(), 1}}};
        program.argv.insert(program.argv.end(), arguments.begin(), arguments.end());
        program.fds.insert(program.fds.end(), more_fds.begin(), more_fds.end());
        auto jailed = spawn_jailed(program, options);
        if (!jailed.ok()) return "error " + jailed.error().message + "\n";
        pipe.second.reset();
        std::string text = to_text(jailed->report);
        char buffer[4096];
        for (ssize_t n; (n = ::read(pipe.first.get(), buffer, sizeof buffer)) > 0;)
            text.append(buffer, static_cast<size_t>(n));
        const base::ExitStatus status = must(jailed->process.wait());
        return text + fmt::format("exit-code {}\nexit-signal {}\n", status.code, status.signal);
    }

    std::vector<std::string> targets() const {
        return {std::to_string(::getpid()), std::to_string(tcp_port_), abstract_name_};
    }

    Probed probe(Caller caller, const JailOptions& options) {
        const auto arguments = targets();
        return parse(in_child([&] {
            // Descriptors that a careless caller leaves open.
            for (int i = 0; i < 5; ++i) (void)!::open("/", O_RDONLY);
            ::dup2(tcp_.get(), 700);
            become(caller);
            return run_probe(arguments, options, {{tcp_.get(), 5}});
        }));
    }

    void expect_all_denied(const Probed& probed) {
        for (const char* what : {"open-passwd",
                                 "open-root",
                                 "open-proc",
                                 "create-file",
                                 "make-directory",
                                 "make-device",
                                 "run-program",
                                 "mount",
                                 "chroot",
                                 "connect-tcp",
                                 "connect-abstract",
                                 "socket-packet",
                                 "signal-outside",
                                 "ptrace-outside",
                                 "read-outside",
                                 "priority-outside",
                                 "nest-mount-namespace",
                                 "become-root",
                                 "take-capability",
                                 "raise-limit",
                                 "bpf",
                                 "perf-event",
                                 "port-io",
                                 "module"}) {
            EXPECT_NE(probed[what], "0") << what;
            EXPECT_NE(probed[what], "(none)") << what;
        }
    }

    void expect_needs(const Probed& probed) {
        for (const char* what :
             {"memfd", "socketpair", "fixed-addresses", "ptrace-child", "exit-code", "exit-signal"})
            EXPECT_EQ(probed[what], "0") << what << "\n" << probed.all;
    }

    static JailOptions with_policy() {
        return {.seccomp = must(uml_kernel_policy()), .uid = box_uid("test")};
    }

    base::Fd probe_;
    base::Fd tcp_, abstract_;
    uint16_t tcp_port_ = 0;
    std::string abstract_name_ = "boxlite-jail-test-" + base::random_id();

  private:
    void listen_tcp() {
        tcp_ = base::Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t length = sizeof address;
        ASSERT_EQ(::bind(tcp_.get(), reinterpret_cast<sockaddr*>(&address), length), 0);
        ASSERT_EQ(::listen(tcp_.get(), 1), 0);
        ASSERT_EQ(::getsockname(tcp_.get(), reinterpret_cast<sockaddr*>(&address), &length), 0);
        tcp_port_ = ntohs(address.sin_port);
    }
    void listen_abstract() {
        abstract_ = base::Fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        std::ranges::copy(abstract_name_, address.sun_path + 1);
        const auto length =
            static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + abstract_name_.size());
        ASSERT_EQ(::bind(abstract_.get(), reinterpret_cast<sockaddr*>(&address), length), 0);
        ASSERT_EQ(::listen(abstract_.get(), 1), 0);
    }
};

TEST_F(JailTest, AsRootNothingIsInReach) {
    const Probed probed = probe(Caller::kRoot, with_policy());
    expect_all_denied(probed);
    expect_needs(probed);
    for (const char* what : {"keyctl", "add-key", "io-uring", "userfaultfd", "nest-user-namespace",
                             "other-personality", "set-time"})
        EXPECT_EQ(probed[what], std::to_string(EPERM)) << what;
    EXPECT_EQ(probed["uid"], std::to_string(box_uid("test")));
    EXPECT_EQ(probed["gid"], std::to_string(box_uid("test")));
    EXPECT_EQ(probed["pid"], "1");
    EXPECT_EQ(probed["named-box"], "1");
    EXPECT_EQ(probed["core-limit"], "1");
    for (const char* what :
         {"mnt namespace", "pid namespace", "net namespace", "ipc namespace", "uts namespace", "empty root",
          "own user", "no capabilities", "no new privileges", "seccomp", "closed descriptors"})
        EXPECT_TRUE(probed.applied(what)) << what << "\n" << probed.all;
}

TEST_F(JailTest, AsAnOrdinaryUserNothingIsInReach) {
    const Probed probed = probe(Caller::kUser, with_policy());
    expect_all_denied(probed);
    expect_needs(probed);
    EXPECT_EQ(probed["uid"], "65534");
    EXPECT_EQ(probed["pid"], "1");
    for (const char* what :
         {"user namespace", "mnt namespace", "pid namespace", "net namespace", "empty root", "seccomp"})
        EXPECT_TRUE(probed.applied(what)) << what << "\n" << probed.all;
}

TEST_F(JailTest, WithoutNamespacesTheOtherWallsStand) {
    const Probed probed = probe(Caller::kUserWithoutNamespaces, with_policy());
    expect_all_denied(probed);
    expect_needs(probed);
    for (const char* what : {"user namespace", "mnt namespace", "pid namespace", "net namespace", "own user"})
        EXPECT_TRUE(probed.missing(what)) << what << "\n" << probed.all;
    EXPECT_TRUE(probed.applied("seccomp"));
}

// Each wall alone: what seccomp would deny, the namespaces and the identity deny too.
TEST_F(JailTest, NamespacesAndIdentityHoldWithoutSeccomp) {
    for (const Caller caller : {Caller::kRoot, Caller::kUser}) {
        const Probed probed = probe(caller, {.uid = box_uid("test")});
        expect_all_denied(probed);
        expect_needs(probed);
        EXPECT_EQ(probed["no-new-privileges"], "1");
        EXPECT_TRUE(probed.missing("seccomp"));
    }
}

// Fault table row 12.
TEST_F(JailTest, OnlyTheNamedDescriptorsAreOpen) {
    for (const Caller caller : {Caller::kRoot, Caller::kUser, Caller::kUserWithoutNamespaces}) {
        const Probed probed = probe(caller, with_policy());
        EXPECT_EQ(probed.fds, (std::vector<std::string>{"0", "1", "2", "5"})) << probed.all;
    }
}

TEST_F(JailTest, AbortEndsTheKernelAlthoughItIsProcessOne) {
    const Probed probed = parse(in_child([&] { return run_probe({"abort"}, with_policy()); }));
    EXPECT_EQ(probed["abort"], std::to_string(EPERM));
    EXPECT_EQ(probed["exit-code"], "127");
}

TEST_F(JailTest, DescriptorsMaySwapNumbers) {
    const std::string text = in_child([&] {
        auto pipe = must(base::make_pipe());
        const base::Fd null = must(base::open_file("/dev/null", O_RDWR));
        // The pipe is number 0 here and 1 there, and the other way round.
        ::dup2(pipe.second.get(), 0);
        ::dup2(null.get(), 1);
        auto jailed =
            must(spawn_jailed({probe_.get(), {"probe", "abort"}, {}, {{0, 1}, {1, 0}}}, with_policy()));
        ::close(0);
        pipe.second.reset();
        char buffer[64];
        const ssize_t n = ::read(pipe.first.get(), buffer, sizeof buffer);
        (void)jailed.process.wait();
        return std::string(buffer, static_cast<size_t>(std::max<ssize_t>(n, 0)));
    });
    EXPECT_EQ(text, fmt::format("abort {}\n", EPERM));
}

TEST_F(JailTest, EndsWithItsParent) {
    auto pipe = must(base::make_pipe());
    const pid_t parent = ::fork();
    ASSERT_GE(parent, 0);
    if (parent == 0) {
        auto jailed =
            spawn_jailed({probe_.get(), {"probe", "wait"}, {}, {{pipe.second.get(), 1}}}, with_policy());
        if (!jailed.ok()) ::_exit(1);
        const pid_t pid = jailed->process.pid();
        (void)!::write(pipe.second.get(), &pid, sizeof pid);
        for (;;) ::pause();
    }
    pipe.second.reset();
    pid_t jailed = -1;
    std::string said;  // the pid and the probe's own word, in either order
    char buffer[64];
    while (said.size() < sizeof jailed + std::string("waiting 0\n").size()) {
        const ssize_t n = ::read(pipe.first.get(), buffer, sizeof buffer);
        ASSERT_GT(n, 0);
        said.append(buffer, static_cast<size_t>(n));
    }
    const size_t word = said.find("waiting 0\n");
    ASSERT_NE(word, std::string::npos);
    said.erase(word, std::string("waiting 0\n").size());
    std::memcpy(&jailed, said.data(), sizeof jailed);
    const base::Fd watch(static_cast<int>(::syscall(SYS_pidfd_open, jailed, 0)));
    ASSERT_TRUE(watch.valid());
    ::kill(parent, SIGKILL);
    pollfd entry{watch.get(), POLLIN, 0};
    EXPECT_EQ(::poll(&entry, 1, 10000), 1) << "process " << jailed << " outlived its parent";
    ::waitpid(parent, nullptr, 0);
}

TEST_F(JailTest, ManyThreadsMayRunInTheParent) {
    EXPECT_EQ(in_child([&] {
                  std::atomic<bool> stop = false;
                  std::vector<std::thread> threads;
                  threads.reserve(4);
                  for (int i = 0; i < 4; ++i)
                      threads.emplace_back([&] {
                          while (!stop) std::vector<std::string>(10, std::string(100, 'x'));
                      });
                  int good = 0;
                  for (int i = 0; i < 30; ++i)
                      good += parse(run_probe({"abort"}, with_policy()))["exit-code"] == "127";
                  stop = true;
                  for (std::thread& thread : threads) thread.join();
                  return std::to_string(good);
              }),
              "30");
}

TEST_F(JailTest, StrictNamesWhatIsMissing) {
    const std::string text = in_child([&] {
        become(Caller::kUserWithoutNamespaces);
        JailOptions options = with_policy();
        options.strict = true;
        return run_probe({"abort"}, options);
    });
    EXPECT_TRUE(text.starts_with("error ")) << text;
    EXPECT_NE(text.find("pid namespace"), std::string::npos) << text;
}

TEST_F(JailTest, ProgramsThatCannotRun) {
    auto dir = must(base::TempDir::make());
    const std::string path = dir.path() + "/program";
    must(base::write_file_atomically(path, base::as_bytes("no program"), 0700));
    const auto error = [&] {
        const base::Fd fd = must(base::open_file(path, O_RDONLY));
        auto jailed = spawn_jailed({fd.get(), {"program"}, {}, {}}, with_policy());
        return jailed.ok() ? std::string() : jailed.error().message;
    };
    EXPECT_NE(error().find("chmod 755"), std::string::npos);
    ASSERT_EQ(::chmod(path.c_str(), 0755), 0);
    EXPECT_NE(error().find("Exec format error"), std::string::npos);
}

TEST_F(JailTest, TheCgroupLimitsAndGoes) {
    JailReport report;
    const CgroupLimits limits{"jail-test-" + base::random_id(), uint64_t{64} << 20, 8};
    {
        auto group = Cgroup::create(limits, report);
        // Every limit is there, or it is said why not.
        EXPECT_EQ(report.applied.size() + report.missing.size(), 2u);
        for (const JailReport::Missing& missing : report.missing) EXPECT_FALSE(missing.why.empty());
        ASSERT_EQ(group == nullptr, report.applied.empty());
    }
    JailOptions options = with_policy();
    options.cgroup = limits;
    const Probed probed = parse(in_child([&] { return run_probe({"fork"}, options); }));
    if (probed.applied("process limit")) {
        EXPECT_EQ(probed["forks"], "7");
    } else {
        EXPECT_TRUE(probed.missing("process limit")) << probed.all;
    }

    // Removed with what still runs in it.
    std::vector<std::string> folders;
    {
        auto pipe = must(base::make_pipe());
        auto jailed =
            must(spawn_jailed({probe_.get(), {"probe", "wait"}, {}, {{pipe.second.get(), 1}}}, options));
        if (jailed.cgroup) folders = jailed.cgroup->folders();
        for (const std::string& folder : folders) EXPECT_TRUE(base::path_exists(folder));
        must(jailed.process.signal(SIGKILL));
        must(jailed.process.wait());
    }
    for (const std::string& folder : folders) EXPECT_FALSE(base::path_exists(folder)) << folder;
}

// The supervisor that made it is confined by then.
TEST_F(JailTest, AConfinedSupervisorStillRemovesTheCgroup) {
    JailOptions options = with_policy();
    options.cgroup = {"jail-test-" + base::random_id(), uint64_t{64} << 20, 8};
    std::istringstream folders(in_child([&] {
        auto pipe = must(base::make_pipe());
        auto jailed =
            must(spawn_jailed({probe_.get(), {"probe", "wait"}, {}, {{pipe.second.get(), 1}}}, options));
        ShimConfinement confinement;
        if (jailed.cgroup) confinement.cgroups = jailed.cgroup->folders();
        must(confine_shim(confinement));
        must(jailed.process.signal(SIGKILL));
        must(jailed.process.wait());
        std::string names;
        for (const std::string& folder : confinement.cgroups) names += folder + "\n";
        return names;
    }));
    for (std::string folder; std::getline(folders, folder);)
        EXPECT_FALSE(base::path_exists(folder)) << folder;
}

TEST_F(JailTest, ALeftOverCgroupCanBeRemoved) {
    const CgroupLimits limits{"jail-test-" + base::random_id(), uint64_t{64} << 20, 8};
    std::istringstream lines(in_child([&] {  // exits without destroying it
        JailReport report;
        std::string names;
        if (auto* group = Cgroup::create(limits, report).release())
            for (const std::string& folder : group->folders()) names += folder + "\n";
        return names;
    }));
    std::vector<std::string> folders;
    for (std::string folder; std::getline(lines, folder);) folders.push_back(folder);
    Cgroup::remove_stale(limits.name + "x", folders);
    for (const std::string& folder : folders) EXPECT_TRUE(base::path_exists(folder)) << folder;
    Cgroup::remove_stale(limits.name, folders);
    for (const std::string& folder : folders) EXPECT_FALSE(base::path_exists(folder)) << folder;
}

TEST_F(JailTest, OnlyCgroupsAreRemovedAsLeftOver) {
    const auto dir = must(base::TempDir::make());
    const std::string folder = dir.path() + "/box";
    must(base::make_directories(folder));
    Cgroup::remove_stale("box", {folder});
    EXPECT_TRUE(base::path_exists(folder));
}

TEST_F(JailTest, CgroupNamesStayNames) {
    JailReport report;
    EXPECT_EQ(Cgroup::create({"../../escape", 1 << 20, 0}, report), nullptr);
    EXPECT_EQ(report.missing.size(), 1u);
}

TEST(BoxUidTest, IsStableAndInItsRange) {
    EXPECT_EQ(box_uid("abc"), box_uid("abc"));
    EXPECT_NE(box_uid("abc"), box_uid("abd"));
    for (const char* id : {"", "a", "zzzzzzzzzzzz"}) {
        EXPECT_GE(box_uid(id), 0x70000000u);
        EXPECT_LE(box_uid(id), 0x70ffffffu);
    }
}

}  // namespace
}  // namespace boxlite::jail
