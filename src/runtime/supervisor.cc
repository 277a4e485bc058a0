#include "runtime/supervisor.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/file.h"
#include "base/log.h"
#include "jail/cgroup.h"
#include "rpc/sized.h"

namespace boxlite::runtime {

namespace {

// From spawn to a socket that answers. The guest is not part of it.
constexpr std::chrono::milliseconds kLaunchBudget{15'000};
constexpr size_t kStderrTail = 2000;

// A supervisor gets nothing else of its creator's environment: it would be readable by whoever breaks in.
constexpr std::array kPassedVariables = {"PATH",          "HOME",         "TMPDIR",       "XDG_RUNTIME_DIR",
                                         "SSL_CERT_FILE", "ASAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS"};

std::vector<std::string> supervisor_environment() {
    std::vector<std::string> env;
    for (const char* name : kPassedVariables)
        if (const char* value = std::getenv(name)) env.push_back(fmt::format("{}={}", name, value));
    return env;
}

Result<base::Fd> pidfd_of_peer(int socket, pid_t* pid) {
    ucred peer{};
    socklen_t size = sizeof peer;
    if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
        return base::errno_error(ErrorCode::kPortal, "find the supervisor's process");
    base::Fd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, peer.pid, 0)));
    if (!pidfd.valid()) return base::errno_error(ErrorCode::kPortal, "watch the supervisor's process");
    // The number could have passed to another process before pidfd_open; not while the peer is connected.
    pollfd entry{socket, POLLRDHUP, 0};
    if (::poll(&entry, 1, 0) < 0 || (entry.revents & (POLLHUP | POLLRDHUP | POLLERR)))
        return base::make_error(ErrorCode::kPortal, "the supervisor has just ended");
    *pid = peer.pid;
    return pidfd;
}

std::string tail_of(const std::string& path) {
    auto text = base::read_file(path);
    if (!text.ok()) return {};
    while (!text->empty() && text->back() == '\n') text->pop_back();
    return text->size() > kStderrTail ? text->substr(text->size() - kStderrTail) : *text;
}

Result<std::string> read_line(int fd, base::Deadline deadline) {
    std::string line;
    char buffer[4096];
    for (;;) {
        pollfd entry{fd, POLLIN, 0};
        const int ready = ::poll(&entry, 1, deadline.remaining_ms());
        if (ready < 0 && errno == EINTR) continue;
        if (ready < 0) return base::errno_error(ErrorCode::kEngine, "wait for the supervisor");
        if (ready == 0) return base::make_error(ErrorCode::kEngine, "the supervisor did not answer in time");
        const ssize_t n = ::read(fd, buffer, sizeof buffer);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return base::errno_error(ErrorCode::kEngine, "read from the supervisor");
        if (n == 0) return base::make_error(ErrorCode::kEngine, "the supervisor ended without a word");
        line.append(buffer, static_cast<size_t>(n));
        if (const size_t end = line.find('\n'); end != std::string::npos) return line.substr(0, end);
    }
}

// The stream stays open as the box's lifeline.
Result<void> send_spec(int socket, const v1::BoxSpec& spec, const Handover& handover) {
    const std::string message = rpc::sized(spec);
    std::vector<int> files;
    files.reserve(handover.memory.size() + 1);
    for (const base::Fd& file : handover.memory) files.push_back(file.get());
    if (spec.network().has_proxy()) files.push_back(handover.proxies.get());
    return base::send_with_fds(socket, base::as_bytes(message), files);
}

}  // namespace

Result<void> parse_greeting(std::string_view line) {
    if (line == "ok") return {};
    constexpr std::string_view kErrorWord = "error ";
    int code = 0;
    if (line.starts_with(kErrorWord)) {
        line.remove_prefix(kErrorWord.size());
        const auto [end, bad] = std::from_chars(line.data(), line.data() + line.size(), code);
        if (bad == std::errc() && end != line.data() + line.size() && *end == ' ')
            return Error{static_cast<ErrorCode>(code), std::string(end + 1, line.data() + line.size())};
    }
    return base::make_error(ErrorCode::kEngine, "the supervisor answered '{}'", line);
}

Result<rpc::Client> connect_client(const BoxFolder& folder) {
    return rpc::Client(TRY(base::connect_unix(folder.socket())));
}

Result<Connection> connect_supervisor(const BoxFolder& folder) {
    base::Fd socket = TRY(base::connect_unix(folder.socket()));
    pid_t pid = 0;
    base::Fd pidfd = TRY(pidfd_of_peer(socket.get(), &pid));
    return Connection{rpc::Client(std::move(socket)), pid, std::move(pidfd)};
}

Result<bool> wait_for_end(const Connection& connection, std::chrono::milliseconds budget) {
    const base::Deadline deadline(budget);
    for (;;) {
        pollfd entry{connection.pidfd.get(), POLLIN, 0};
        const int n = ::poll(&entry, 1, deadline.remaining_ms());
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return base::errno_error(ErrorCode::kPortal, "wait for the supervisor");
        return n > 0;
    }
}

Result<void> wait_for_end(const Connection& connection) {
    while (!TRY(wait_for_end(connection, std::chrono::hours(1)))) {
    }
    return {};
}

Result<bool> supervisor_exists(const BoxFolder& folder) {
    auto lock = base::FileLock::try_acquire(folder.lock());
    if (lock.ok()) return false;
    if (lock.error().code == ErrorCode::kInvalidState) return true;
    return std::move(lock).error();
}

Result<void> wait_until_gone(const BoxFolder& folder, std::chrono::milliseconds budget) {
    const base::Deadline deadline(budget);
    for (int pause_ms = 1; TRY(supervisor_exists(folder)); pause_ms = std::min(2 * pause_ms, 50)) {
        if (deadline.passed())
            return base::make_error(ErrorCode::kInvalidState,
                                    "the supervisor that holds '{}' neither answers nor ends", folder.lock());
        ::poll(nullptr, 0, pause_ms);  // flock() has no timed wait
    }
    return {};
}

void remove_leftovers(const std::string& box_id, const BoxFolder& folder) {
    const auto note = base::read_file(folder.cgroups(), size_t{64} << 10);
    if (!note.ok()) return;
    std::vector<std::string> groups;
    std::istringstream lines(*note);
    for (std::string line; std::getline(lines, line);) groups.push_back(line);
    jail::Cgroup::remove_stale(box_id, groups);
    ::unlink(folder.cgroups().c_str());
}

std::optional<ExitRecord> read_exit_record(const BoxFolder& folder) {
    constexpr size_t kMaxBytes = size_t{1} << 20;
    auto text = base::read_file(folder.exit_file(), kMaxBytes);
    if (!text.ok()) text = base::read_file(folder.unfinished_exit_file(), kMaxBytes);
    if (!text.ok()) return std::nullopt;
    const auto json = nlohmann::json::parse(*text, nullptr, false);
    if (!json.is_object()) return std::nullopt;
    ExitRecord record;
    const auto number = [&json](const char* key, auto& value) {
        const auto found = json.find(key);
        if (found != json.end() && found->is_number_integer())
            value = found->get<std::remove_reference_t<decltype(value)>>();
    };
    number("code", record.code);
    number("signal", record.signal);
    number("finished_at", record.finished_at);
    if (const auto reason = json.find("reason"); reason != json.end() && reason->is_string())
        record.reason = reason->get<std::string>();
    if (const auto failed = json.find("failed"); failed != json.end()) record.failed = *failed == true;
    return record;
}

Result<Launched> launch_supervisor(const std::string& program, const BoxFolder& folder,
                                   const v1::BoxSpec& spec, const Handover& handover) {
    TRY(base::make_directories(folder.logs(), 0700));
    base::FdPair input = TRY(base::make_socketpair(SOCK_STREAM));
    base::FdPair greeting = TRY(base::make_pipe());
    const base::Fd errors =
        TRY(base::open_file(folder.supervisor_stderr(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600));
    // A session of its own: the terminal's ^C is for the client, which decides what it means.
    base::Process process = TRY(base::Process::spawn({.argv = {program, spec.box_id()},
                                                      .env = supervisor_environment(),
                                                      .fds = {{input.second.get(), 0},
                                                              {greeting.second.get(), 1},
                                                              {errors.get(), 2},
                                                              {handover.changes.fd(), 3}},
                                                      .new_session = true}));
    input.second.reset();
    greeting.second.reset();

    const auto handshake = [&]() -> Result<void> {
        // A supervisor that dies early shows as a failed send here, and with its reason on the greeting pipe.
        auto sent = send_spec(input.first.get(), spec, handover);
        const std::string line = TRY(read_line(greeting.first.get(), base::Deadline(kLaunchBudget)));
        TRY(parse_greeting(line));
        return sent;
    };
    if (auto shaken = handshake(); !shaken.ok()) {
        (void)process.signal(SIGKILL);
        (void)process.wait();
        Error error = std::move(shaken).error();
        const std::string words = tail_of(folder.supervisor_stderr());
        if (!words.empty() && words.find(error.message) == std::string::npos)
            error.message += fmt::format("; it printed: {}", words);
        return error;
    }
    base::log_debug("supervisor started", {{"box", spec.box_id()}, {"pid", fmt::to_string(process.pid())}});
    if (spec.detach()) input.first.reset();
    return Launched{std::move(process), std::move(input.first)};
}

}  // namespace boxlite::runtime
