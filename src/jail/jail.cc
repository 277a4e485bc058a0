#include "jail/jail.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/file.h"
#include "base/hash.h"
#include "jail/cgroup.h"
#include "jail/jail_child.h"
#include "jail/landlock.h"

namespace boxlite::jail {

namespace {

using base::errno_error;
using base::make_error;

struct Namespace {
    unsigned long flag;
    const char* name;  // in /proc/self/ns
};
constexpr Namespace kNamespaces[] = {
    {CLONE_NEWUSER, "user"}, {CLONE_NEWNS, "mnt"},  {CLONE_NEWPID, "pid"},       {CLONE_NEWIPC, "ipc"},
    {CLONE_NEWUTS, "uts"},   {CLONE_NEWNET, "net"}, {CLONE_NEWCGROUP, "cgroup"},
};

// What a failed step is called in the report; nullptr: it has no name of its own.
const char* step_name(JailStep step) {
    switch (step) {
        case JailStep::kIdentityMap:
            return "identity map";
        case JailStep::kEmptyRoot:
            return "empty root";
        case JailStep::kHostName:
            return "host name";
        case JailStep::kDescriptors:
            return "closed descriptors";
        case JailStep::kLimits:
            return "resource limits";
        case JailStep::kIdentity:
            return "own user";
        case JailStep::kCapabilities:
            return "no capabilities";
        case JailStep::kDeathSignal:
            return "ends with its parent";
        case JailStep::kNoNewPrivileges:
            return "no new privileges";
        case JailStep::kLandlock:
            return "Landlock";
        case JailStep::kSeccomp:
            return "seccomp";
        case JailStep::kExec:
        case JailStep::kCount:
            break;
    }
    return nullptr;
}

unsigned long kernel_namespaces() {
    unsigned long flags = 0;
    for (const Namespace& ns : kNamespaces)
        if (base::path_exists(fmt::format("/proc/self/ns/{}", ns.name))) flags |= ns.flag;
    return flags;
}

// Strings for execve, from vectors that outlive it.
std::vector<char*> pointers(const std::vector<std::string>& strings) {
    std::vector<char*> out;
    out.reserve(strings.size() + 1);
    for (const std::string& s : strings) out.push_back(const_cast<char*>(s.c_str()));
    out.push_back(nullptr);
    return out;
}

// Everything that the child's plan points to.
struct Prepared {
    std::vector<char*> argv, envp;
    std::vector<std::array<int, 2>> moves;
    std::string uid_map, gid_map;
    sock_fprog seccomp{};
    base::FdPair go, report;
    base::Fd null, landlock;
    JailPlan plan;
};

Result<void> check(const JailedProgram& program, const JailOptions& options) {
    if (program.argv.empty())
        return make_error(ErrorCode::kInvalidArgument, "a jailed program needs an argv[0]");
    for (const auto& [from, to] : program.fds)
        if (from < 0 || to < 0 || to > 1000)
            return make_error(ErrorCode::kInvalidArgument, "cannot pass descriptor {} as {}", from, to);
    struct stat st;
    if (::fstat(program.binary, &st) < 0)
        return errno_error(ErrorCode::kInvalidArgument, "look at the program to jail");
    if (::geteuid() == 0 && st.st_uid != options.uid && (st.st_mode & 0001) == 0)
        return make_error(
            ErrorCode::kInvalidArgument,
            "'{}' is not executable by other users, and it will run as user {}; use 'chmod 755'",
            program.argv[0], options.uid);
    return {};
}

uint64_t open_files_limit(uint64_t wanted) {
    rlimit now{};
    if (::getrlimit(RLIMIT_NOFILE, &now) < 0 || now.rlim_max == RLIM_INFINITY) return wanted;
    return std::min<uint64_t>(wanted, now.rlim_max);
}

Result<void> prepare(const JailedProgram& program, const JailOptions& options, Prepared& p,
                     JailReport& report) {
    p.argv = pointers(program.argv);
    p.envp = pointers(program.env);
    for (const auto& [from, to] : program.fds) {
        p.moves.push_back({from, to});
        p.plan.first_free = std::max(p.plan.first_free, to + 1);
    }
    p.go = TRY(base::make_pipe());
    p.report = TRY(base::make_pipe());
    p.null = TRY(base::open_file("/dev/null", O_RDWR));
    auto ruleset =
        make_landlock_ruleset({{program.binary, LandlockAccess::kExecute}}, LandlockScope::kNothing);
    if (ruleset.ok())
        p.landlock = std::move(ruleset).value();
    else
        report.missing.push_back({"Landlock", ruleset.error().message});
    // 65534 inside: an identity that has no meaning.
    p.uid_map = fmt::format("65534 {} 1\n", ::geteuid());
    p.gid_map = fmt::format("65534 {} 1\n", ::getegid());
    if (options.seccomp.empty()) report.missing.push_back({"seccomp", "the caller gave no policy"});
    p.seccomp = {static_cast<unsigned short>(options.seccomp.size()),
                 const_cast<sock_filter*>(options.seccomp.data())};

    JailPlan& plan = p.plan;
    plan.go = p.go.first.get();
    plan.go_write = p.go.second.get();
    plan.report = p.report.second.get();
    plan.binary = program.binary;
    plan.null = p.null.get();
    plan.landlock = p.landlock.get();
    plan.moves = reinterpret_cast<const int(*)[2]>(p.moves.data());
    plan.move_count = p.moves.size();
    plan.argv = p.argv.data();
    plan.envp = p.envp.data();
    plan.uid = options.uid;
    plan.uid_map = p.uid_map.c_str();
    plan.gid_map = p.gid_map.c_str();
    plan.max_open_files = open_files_limit(options.max_open_files);
    plan.seccomp = options.seccomp.empty() ? nullptr : &p.seccomp;
    plan.strict = options.strict;
    return {};
}

struct Child {
    base::Process process;
    unsigned long namespaces;
};

// fork() with namespaces. The child sees a copy of everything and never returns.
Result<base::Process> clone_child(JailPlan& plan, unsigned long namespaces) {
    plan.user_namespace = namespaces & CLONE_NEWUSER;
    plan.mount_namespace = namespaces & CLONE_NEWNS;
    plan.uts_namespace = namespaces & CLONE_NEWUTS;
    plan.change_identity = !plan.user_namespace && ::geteuid() == 0;
    // A handler of ours must not run in the child.
    sigset_t all, before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    int pidfd = -1;
    const long pid =
        ::syscall(SYS_clone, namespaces | CLONE_PIDFD | SIGCHLD, nullptr, &pidfd, nullptr, nullptr);
    if (pid == 0) run_jailed_child(plan);
    const int saved = errno;
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    errno = saved;
    if (pid < 0) return errno_error(ErrorCode::kEngine, "start a process in new namespaces");
    return base::Process::adopt(static_cast<pid_t>(pid), base::Fd(pidfd));
}

// With as many namespaces as the host lets us have: root needs none for its user, and gets the others
// without one; where that is not permitted (root in a container), and for everyone else, a user namespace
// makes the others possible.
Result<Child> clone_with_namespaces(JailPlan& plan, JailReport& report) {
    const unsigned long all = kernel_namespaces();
    std::vector<unsigned long> attempts;
    if (::geteuid() == 0) attempts.push_back(all & ~static_cast<unsigned long>(CLONE_NEWUSER));
    if (all & CLONE_NEWUSER) attempts.push_back(all);
    attempts.push_back(0);
    std::optional<Error> refused;
    for (const unsigned long flags : attempts) {
        auto process = clone_child(plan, flags);
        if (!process.ok()) {
            refused = process.error();
            continue;
        }
        for (const Namespace& ns : kNamespaces) {
            if (flags & ns.flag)
                report.applied.push_back(fmt::format("{} namespace", ns.name));
            else if (ns.flag != CLONE_NEWUSER || ::geteuid() != 0)
                report.missing.push_back({fmt::format("{} namespace", ns.name),
                                          all & ns.flag ? refused->message : "the kernel has none"});
        }
        return Child{std::move(process).value(), flags};
    }
    return *refused;
}

// Reads what the child did until it runs the program or gives up.
Result<void> collect(int fd, JailReport& report) {
    JailStepResult line;
    bool ready = false;
    std::optional<Error> failed;
    for (;;) {
        const ssize_t n = ::read(fd, &line, sizeof line);
        if (n < 0 && errno == EINTR) continue;
        if (n != sizeof line) break;
        if (line.step == JailStep::kExec) {
            ready = line.error == 0;
            if (line.error != 0)
                failed = Error::from_errno(ErrorCode::kEngine, "run the jailed program", line.error);
        } else if (line.error == 0) {
            report.applied.emplace_back(step_name(line.step));
        } else {
            report.missing.push_back({step_name(line.step), ::strerror(line.error)});
            failed =
                make_error(ErrorCode::kEngine, "jail: {}: {}", step_name(line.step), ::strerror(line.error));
        }
    }
    if (ready) return {};
    if (failed) return *failed;
    return make_error(ErrorCode::kEngine, "a jailed process ended before it ran its program");
}

Error not_strict(const JailReport& report) {
    std::string what;
    for (const JailReport::Missing& missing : report.missing)
        what += fmt::format("{}{} ({})", what.empty() ? "" : ", ", missing.what, missing.why);
    return make_error(ErrorCode::kUnsupported,
                      "this host cannot confine the machine as strictly as asked; missing: {}", what);
}

// Kills and reaps the child unless told otherwise.
class ChildGuard {
  public:
    explicit ChildGuard(base::Process& process) : process_(&process) {}
    ~ChildGuard() {
        if (!process_) return;
        (void)process_->signal(SIGKILL);
        (void)process_->wait();
    }
    void release() { process_ = nullptr; }

  private:
    base::Process* process_;
};

}  // namespace

JailedProcess::JailedProcess(base::Process started, std::unique_ptr<Cgroup> group, JailReport what)
    : process(std::move(started)), cgroup(std::move(group)), report(std::move(what)) {}
JailedProcess::JailedProcess(JailedProcess&&) noexcept = default;
JailedProcess::~JailedProcess() = default;

Result<JailedProcess> spawn_jailed(const JailedProgram& program, const JailOptions& options) {
    TRY(check(program, options));
    JailReport report;
    Prepared prepared;
    TRY(prepare(program, options, prepared, report));
    std::unique_ptr<Cgroup> cgroup = Cgroup::create(options.cgroup, report);
    Child child = TRY(clone_with_namespaces(prepared.plan, report));
    ChildGuard guard(child.process);
    if (!prepared.plan.user_namespace && !prepared.plan.change_identity)
        report.missing.push_back(
            {"own user", fmt::format("it runs as user {}, like its parent", ::geteuid())});
    if (cgroup) TRY(cgroup->add(child.process.pid()));
    if (options.strict && !report.missing.empty()) return not_strict(report);

    prepared.report.second.reset();
    prepared.go.first.reset();
    TRY(base::write_all(prepared.go.second.get(), base::as_bytes("g")));
    auto collected = collect(prepared.report.first.get(), report);
    if (options.strict && !report.missing.empty()) return not_strict(report);
    TRY(std::move(collected));
    guard.release();
    return JailedProcess(std::move(child.process), std::move(cgroup), std::move(report));
}

uid_t box_uid(std::string_view box_id) {
    return 0x70000000 + (base::fnv1a_32(box_id) & 0xffffff);
}

}  // namespace boxlite::jail
