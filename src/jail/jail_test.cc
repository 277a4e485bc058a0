#include "jail/jail.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <map>
#include <sstream>
#include <thread>

#include "base/clock.h"
#include "base/file.h"
#include "base/id.h"
#include "jail/cgroup.h"
#include "jail/confine.h"
#include "jail/landlock.h"
#include "jail/seccomp.h"

namespace boxlite::jail {
namespace {

constexpr uid_t kUser = 48211;  // of nobody

template <typename T>
T must(Result<T> result) {
    if (!result.ok()) ADD_FAILURE() << result.error().message;
    return std::move(result).value();
}

void must(const Result<void>& result) {
    if (!result.ok()) ADD_FAILURE() << result.error().message;
}

// Runs `body` in a process of its own, which returns text, as its exit does not end the tests.
std::string in_child(const std::function<std::string()>& body) {
    auto pipe = must(base::make_pipe());
    const pid_t child = ::fork();
    if (child == 0) {
        const std::string text = body();
        (void)base::write_all(pipe.second.get(), base::as_bytes(text));
        ::_exit(0);
    }
    pipe.second.reset();
    std::string text;
    char buffer[4096];
    for (ssize_t n; (n = ::read(pipe.first.get(), buffer, sizeof buffer)) > 0;)
        text.append(buffer, static_cast<size_t>(n));
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    return text;
}

void become_user() {
    if (::setgroups(0, nullptr) < 0 || ::setresgid(kUser, kUser, kUser) < 0 ||
        ::setresuid(kUser, kUser, kUser) < 0)
        ::_exit(3);
    ::prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);  // as after a login: /proc/self is the user's
}

// As on a host where users may not make user namespaces.
void forbid_user_namespaces() {
    const std::string map = fmt::format("{0} {0} 1", kUser);
    const auto write = [](const char* path, std::string_view text) {
        const auto fd = base::open_file(path, O_WRONLY);
        if (!fd.ok() || !base::write_all(fd->get(), base::as_bytes(text)).ok()) ::_exit(4);
    };
    if (::unshare(CLONE_NEWUSER) < 0) ::_exit(5);
    write("/proc/self/setgroups", "deny");
    write("/proc/self/uid_map", map);
    write("/proc/self/gid_map", map);
    write("/proc/sys/user/max_user_namespaces", "0");
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    const __user_cap_data_struct none[2] = {};
    if (::syscall(SYS_capset, &header, none) < 0) ::_exit(6);
}

enum class Caller { kRoot, kUser, kUserWithoutNamespaces };

void become(Caller caller) {
    if (caller != Caller::kRoot) become_user();
    if (caller == Caller::kUserWithoutNamespaces) forbid_user_namespaces();
}

// The report and the probe's lines.
struct Probed {
    std::map<std::string, std::string> lines;  // last value of each
    std::vector<std::string> fds;
    std::string all;
    std::string operator[](const std::string& what) const {
        const auto found = lines.find(what);
        return found == lines.end() ? "(none)" : found->second;
    }
    bool applied(const std::string& what) const {
        return all.find("applied: " + what + "\n") != std::string::npos;
    }
    bool missing(const std::string& what) const {
        return all.find("missing: " + what + ":") != std::string::npos;
    }
};

Probed parse(const std::string& text) {
    Probed probed{{}, {}, text};
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        const size_t space = line.find(' ');
        if (space == std::string::npos) continue;
        if (line.starts_with("fd ")) probed.fds.push_back(line.substr(3));
        probed.lines[line.substr(0, space)] = line.substr(space + 1);
    }
    return probed;
}

std::string to_text(const JailReport& report) {
    std::string text;
    for (const std::string& what : report.applied) text += "applied: " + what + "\n";
    for (const JailReport::Missing& missing : report.missing)
        text += "missing: " + missing.what + ": " + missing.why + "\n";
    return text;
}

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
