#include "base/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "base/bytes.h"
#include "base/clock.h"

namespace boxlite::base {

namespace {

std::vector<char*> c_strings(const std::vector<std::string>& strings) {
    std::vector<char*> pointers;
    for (const std::string& s : strings) pointers.push_back(const_cast<char*>(s.c_str()));
    pointers.push_back(nullptr);
    return pointers;
}

ExitStatus decode(const siginfo_t& info) {
    if (info.si_code == CLD_EXITED) return {info.si_status, 0};
    return {0, info.si_status};
}

// posix_spawn's file actions run in order, so a target number must not clobber a source still to be
// used: sources are first moved above every target.
Result<void> add_fds(posix_spawn_file_actions_t* actions, const std::vector<std::pair<int, int>>& fds,
                     std::vector<Fd>& held) {
    int above = 3;
    for (const auto& [from, to] : fds) above = std::max(above, to + 1);
    for (const auto& [from, to] : fds) {
        const int moved = ::fcntl(from, F_DUPFD_CLOEXEC, above);
        if (moved < 0) return errno_error(ErrorCode::kInternal, "pass descriptor {} to a child", from);
        held.emplace_back(moved);
        posix_spawn_file_actions_adddup2(actions, moved, to);
    }
    return {};
}

}  // namespace

Result<Process> Process::spawn(const SpawnOptions& options) {
    if (options.argv.empty()) return make_error(ErrorCode::kInternal, "spawn without a program");
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    std::vector<Fd> held;
    auto added = add_fds(&actions, options.fds, held);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    short flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;
    if (options.new_session) flags |= POSIX_SPAWN_SETSID;
    posix_spawnattr_setflags(&attributes, flags);

    const auto argv = c_strings(options.argv);
    const auto env = options.env ? c_strings(*options.env) : std::vector<char*>{};
    pid_t pid = -1;
    int result = 0;
    if (added.ok())
        result = ::posix_spawnp(&pid, argv[0], &actions, &attributes, argv.data(),
                                options.env ? env.data() : environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    TRY(std::move(added));
    if (result != 0)
        return Error::from_errno(result == ENOENT ? ErrorCode::kNotFound : ErrorCode::kInternal,
                                 fmt::format("start '{}'", options.argv[0]), result);
    Fd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    if (!pidfd.valid()) {
        auto error = errno_error(ErrorCode::kInternal, "watch process {}", pid);
        ::kill(pid, SIGKILL);
        ::waitpid(pid, nullptr, 0);
        return error;
    }
    return Process(pid, std::move(pidfd));
}

Result<ExitStatus> Process::wait() {
    siginfo_t info{};
    int result;
    do result = ::waitid(static_cast<idtype_t>(P_PIDFD), static_cast<id_t>(pidfd_.get()), &info, WEXITED);
    while (result < 0 && errno == EINTR);
    if (result < 0) return errno_error(ErrorCode::kInternal, "wait for process {}", pid_);
    return decode(info);
}

Result<std::optional<ExitStatus>> Process::wait_for(std::chrono::milliseconds budget) {
    const Deadline deadline(budget);
    for (;;) {
        pollfd entry{pidfd_.get(), POLLIN, 0};
        const int n = ::poll(&entry, 1, deadline.remaining_ms());
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return errno_error(ErrorCode::kInternal, "wait for process {}", pid_);
        if (n == 0) return std::optional<ExitStatus>();
        return std::optional(TRY(wait()));
    }
}

Result<void> Process::signal(int number) const {
    if (::syscall(SYS_pidfd_send_signal, pidfd_.get(), number, nullptr, 0) < 0)
        return errno_error(ErrorCode::kInternal, "send signal {} to process {}", number, pid_);
    return {};
}

Result<CommandOutput> run_command(const std::vector<std::string>& argv, std::string_view input, size_t limit,
                                  std::chrono::milliseconds budget) {
    FdPair in = TRY(make_socketpair(SOCK_STREAM));
    TRY(set_nonblocking(in.second.get(), true));  // ours alone: few programs expect it of their stdin
    FdPair out = TRY(make_pipe());
    FdPair err = TRY(make_pipe());
    Process process = TRY(Process::spawn(
        {.argv = argv, .fds = {{in.first.get(), 0}, {out.second.get(), 1}, {err.second.get(), 2}}}));
    in.first.reset();
    out.second.reset();
    err.second.reset();

    CommandOutput output;
    const Deadline deadline(budget);
    const auto drain = [limit](Fd& fd, std::string& into) {
        char buffer[65536];
        const ssize_t n = ::read(fd.get(), buffer, sizeof buffer);
        if (n <= 0) return fd.reset();
        into.append(buffer, std::min(static_cast<size_t>(n), limit - std::min(limit, into.size())));
    };
    while (out.first.valid() || err.first.valid()) {
        if (in.second.valid() && input.empty()) in.second.reset();
        pollfd entries[] = {
            {out.first.get(), POLLIN, 0}, {err.first.get(), POLLIN, 0}, {in.second.get(), POLLOUT, 0}};
        const int n = ::poll(entries, 3, deadline.remaining_ms());
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) {
            (void)process.signal(SIGKILL);
            (void)process.wait();
            return make_error(ErrorCode::kExecution, "'{}' did not end in time and was killed", argv[0]);
        }
        if (entries[0].revents) drain(out.first, output.out);
        if (entries[1].revents) drain(err.first, output.err);
        if (entries[2].revents) {
            const ssize_t sent = ::send(in.second.get(), input.data(), input.size(), MSG_NOSIGNAL);
            if (sent < 0)
                input = {};  // the program does not want its input: its choice
            else
                input.remove_prefix(static_cast<size_t>(sent));
        }
    }
    output.status = TRY(process.wait());
    return output;
}

}  // namespace boxlite::base
