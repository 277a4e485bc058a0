#include "agent/container.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/device_filter.h"
#include "agent/raw.h"
#include "agent/rootfs.h"
#include "agent/small_file.h"
#include "base/bytes.h"

namespace boxlite::agent {

namespace {

constexpr const char* kCgroupName = "box";
constexpr size_t kStackSize = size_t{16} << 10;
constexpr const char* kDefaultHostname = "boxlite";
constexpr size_t kMaxHostsFile = 1 << 20;
constexpr std::string_view kOwnAddress = "127.0.1.1\t";  // as hosts_file() writes it

Result<base::Fd> open_at(int dir, const char* name, int flags) {
    const int fd = ::openat(dir, name, flags | O_CLOEXEC);
    if (fd < 0) return base::errno_error(ErrorCode::kInternal, "open '{}'", name);
    return base::Fd(fd);
}

// The controllers that this kernel does not have are left out: a write of several is all or nothing.
void enable_controllers(int cgroups) {
    const auto opened = open_at(cgroups, "cgroup.subtree_control", O_WRONLY);
    if (!opened) return;
    for (const std::string_view controller : {"+memory", "+pids", "+cpu", "+io"})
        (void)!::write(opened->get(), controller.data(), controller.size());
}

Result<base::Fd> make_cgroup(int cgroups) {
    enable_controllers(cgroups);
    if (::mkdirat(cgroups, kCgroupName, 0755) < 0 && errno != EEXIST)
        return base::errno_error(ErrorCode::kInternal, "make the container's cgroup");
    return open_at(cgroups, kCgroupName, O_PATH | O_DIRECTORY);
}

// What create() opens while it is inside.
struct Inside {
    base::Fd top;
    base::Fd terminals;
};

Result<Inside> build_inside(const std::string& root, const v1::ContainerSpec& spec) {
    const std::string hostname = spec.hostname().empty() ? kDefaultHostname : spec.hostname();
    if (::sethostname(hostname.data(), hostname.size()) < 0)
        return base::errno_error(ErrorCode::kInvalidArgument, "set the hostname '{}'", hostname);
    TRY(enter_rootfs(root, spec));
    Inside inside;
    inside.top = TRY(open_at(AT_FDCWD, "/", O_PATH | O_DIRECTORY));
    inside.terminals = TRY(open_at(AT_FDCWD, "/dev/pts", O_PATH | O_DIRECTORY));
    return inside;
}

ErrorCode start_error_code(const ChildFailure& failure) {
    switch (failure.step) {
        case ChildStep::kDirectory:
        case ChildStep::kUser:
            return ErrorCode::kInvalidArgument;
        case ChildStep::kProgram:
            if (failure.error == E2BIG) return ErrorCode::kInvalidArgument;
            return failure.error == ENOENT || failure.error == ENOTDIR ? ErrorCode::kNotFound
                                                                       : ErrorCode::kExecution;
        default:
            return ErrorCode::kInternal;
    }
}

std::string start_error_subject(const ChildFailure& failure, const ChildPlan& plan) {
    switch (failure.step) {
        case ChildStep::kNamespaces:
            return "enter the container's namespaces";
        case ChildStep::kMounts:
            return "mount the container's /proc and /sys/fs/cgroup";
        case ChildStep::kTerminal:
            return "set up standard input and output";
        case ChildStep::kDirectory:
            return fmt::format("enter the working directory '{}'", plan.directory);
        case ChildStep::kUser:
            return fmt::format("become user {} and group {}", plan.user.uid, plan.user.gid);
        case ChildStep::kProgram:
            break;
    }
    return fmt::format("run '{}' in the container", plan.argv.front());
}

}  // namespace

Error start_error(const ChildFailure& failure, const ChildPlan& plan) {
    return Error::from_errno(start_error_code(failure), start_error_subject(failure, plan), failure.error);
}

Result<std::unique_ptr<Container>> Container::create(const std::string& root, const v1::ContainerSpec& spec,
                                                     const base::Fd& cgroups) {
    // A child shares this memory until it executes its program: no process of the container may look at it.
    if (::prctl(PR_SET_DUMPABLE, 0) < 0)
        return base::errno_error(ErrorCode::kInternal, "hide the agent's memory");
    base::Fd cgroup = TRY(make_cgroup(cgroups.get()));
    if (!spec.privileged()) TRY(filter_devices(cgroup));
    const base::Fd own_namespaces = TRY(open_at(AT_FDCWD, "/proc/self/ns", O_PATH | O_DIRECTORY));
    const base::Fd home = TRY(open_at(own_namespaces.get(), "mnt", O_RDONLY));
    if (::unshare(CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC) < 0)
        return base::errno_error(ErrorCode::kInternal, "make the container's namespaces");
    auto inside = build_inside(root, spec);
    auto mount_namespace = open_at(own_namespaces.get(), "mnt", O_RDONLY);
    // Also sets this process's root and working directory back to the agent's.
    if (::setns(home.get(), CLONE_NEWNS) < 0)
        return base::errno_error(ErrorCode::kInternal, "return to the agent's mount namespace");
    Inside opened = TRY(std::move(inside));
    std::unique_ptr<Container> container(new Container(Root(std::move(opened.top)), spec.privileged()));
    container->mount_namespace_ = TRY(std::move(mount_namespace));
    container->terminals_ = std::move(opened.terminals);
    container->cgroup_ = std::move(cgroup);
    if (!spec.privileged()) TRY(container->limit_capabilities());
    return container;
}

Result<void> Container::limit_capabilities() {
    capable_ = std::make_unique<CapableThread>();
    return limit_bounding_set(kDefaultCapabilities);
}

Result<void> Container::rename(const std::string& hostname, const std::string& machine_id) const {
    if (::sethostname(hostname.data(), hostname.size()) < 0)
        return base::errno_error(ErrorCode::kInvalidArgument, "set the hostname '{}'", hostname);
    const auto write = [this](const char* path, const std::string& text) -> Result<void> {
        auto file = root_.open(path, O_WRONLY | O_TRUNC | O_NOFOLLOW);
        if (!file && file.error().code == ErrorCode::kNotFound) return {};
        const base::Fd fd = TRY(std::move(file));
        return base::write_all(fd.get(), base::as_bytes(text + "\n"));
    };
    if (!machine_id.empty())
        TRY_CONTEXT(write("/etc/machine-id", machine_id), "give the guest an id of its own");
    TRY(write("/etc/hostname", hostname));
    std::string hosts = TRY(root_.read_text("/etc/hosts", kMaxHostsFile));
    const size_t own = hosts.find(kOwnAddress);
    if (own == std::string::npos) return {};
    const size_t name = own + kOwnAddress.size();
    hosts.replace(name, hosts.find('\n', name) - name, hostname);
    while (!hosts.empty() && hosts.back() == '\n') hosts.pop_back();
    return write("/etc/hosts", hosts);
}

Result<Launched> Container::start_init(std::unique_ptr<ChildPlan> plan) {
    plan->namespaces_fd = mount_namespace_.get();
    return launch(std::move(plan), CLONE_NEWPID);
}

Result<void> Container::adopt_init(const Launched& init) {
    init_pidfd_ = TRY(init.pidfd.duplicate());
    // For children only; stays for the agent's life. A short-lived program may have ended already, and its
    // container with it: then there will be no other member.
    Result<void> joined;
    const auto join = [&] {
        if (::setns(init_pidfd_.get(), CLONE_NEWPID) < 0 && errno != ESRCH)
            joined = base::errno_error(ErrorCode::kInternal, "join the container's pid namespace");
    };
    join();
    if (capable_ && joined) capable_->run(join);
    return joined;
}

Result<Launched> Container::start_member(std::unique_ptr<ChildPlan> plan) {
    plan->namespaces_fd = init_pidfd_.get();
    return launch(std::move(plan), 0);
}

Result<Launched> Container::launch(std::unique_ptr<ChildPlan> plan, uint64_t flags) const {
    base::FdPair status = TRY(base::make_pipe());
    plan->status_fd = status.second.get();
    plan->privileged = privileged_;
    plan->prepare();

    const bool idle = plan->kind == ChildPlan::Kind::kIdleInit;
    Launched launched;
    int pidfd = -1;
    clone_args args{};
    args.flags = flags | CLONE_PIDFD | CLONE_INTO_CGROUP;
    args.pidfd = reinterpret_cast<uint64_t>(&pidfd);
    args.exit_signal = SIGCHLD;
    args.cgroup = static_cast<uint64_t>(cgroup_.get());
    if (!idle) {
        launched.stack = std::make_unique_for_overwrite<uint8_t[]>(kStackSize);
        args.flags |= CLONE_VM | CLONE_CHILD_SETTID;
        args.child_tid = reinterpret_cast<uint64_t>(&plan->pid_inside);
        args.stack = reinterpret_cast<uint64_t>(launched.stack.get());
        args.stack_size = kStackSize;
    }
    const bool capable = capable_ && (plan->capabilities & ~kDefaultCapabilities);
    if (capable_ && !capable) plan->bounding = kDefaultCapabilities;
    long pid = 0;
    const auto start = [&] { pid = raw::clone3(&args, idle ? run_idle_init : run_program, plan.get()); };
    if (capable)
        capable_->run(start);
    else
        start();
    if (pid < 0) {
        // ENOMEM is also what a pid namespace without its init gives.
        errno = static_cast<int>(-pid);
        return base::errno_error(ErrorCode::kResourceExhausted, "make a process in the container");
    }
    launched.pid = static_cast<pid_t>(pid);
    launched.pidfd.reset(pidfd);
    launched.status = std::move(status.first);
    launched.plan = std::move(plan);
    return launched;
}

bool Container::claim_oom_kill() {
    if (oom_kills() <= claimed_oom_kills_) return false;
    ++claimed_oom_kills_;
    return true;
}

uint64_t Container::oom_kills() const {
    return number_after(read_small_file(cgroup_.get(), "memory.events"), "oom_kill ");
}

}  // namespace boxlite::agent
