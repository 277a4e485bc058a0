// boxlite-shim: the supervisor process of one box. Started by the library, never by hand; with --probe-kvm
// it is none, but says whether this host's KVM can carry a machine, and with --make-template (and a
// TemplateSpec on stdin) it makes one while its creator goes on.
//   stdin   length (32 bits, big endian) and a BoxSpec; then the lifeline of a box that is not detached
//   stdout  one line: "ok", or "error <code> <message>"; then closed
//   3       the box's change lock, held until that line
#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string_view>

#include "base/log.h"
#include "rpc/sized.h"
#include "shim/supervisor.h"
#include "shim/template.h"

namespace boxlite::shim {
namespace {

constexpr uint32_t kMaxSpecBytes = 4 << 20;
constexpr uint32_t kTerminationGraceMs = 5000;
constexpr int kChangeLockFd = 3;

struct Specification {
    v1::BoxSpec box;
    std::vector<base::Fd> memory;
};

Result<Specification> read_spec() {
    // Descriptors come with the first byte.
    Specification specification;
    uint8_t first = 0;
    if (TRY(base::recv_with_fds(STDIN_FILENO, {&first, 1}, specification.memory)) != 1)
        return base::make_error(ErrorCode::kInvalidArgument, "no specification of a box came");
    TRY_CONTEXT(rpc::read_sized(STDIN_FILENO, first, kMaxSpecBytes, specification.box), "a specification");
    return specification;
}

// SIGTERM and SIGINT stop the box in order.
Result<base::Fd> watch_signals() {
    ::signal(SIGPIPE, SIG_IGN);
    ::signal(SIGXFSZ, SIG_IGN);
    ::signal(SIGHUP, SIG_IGN);
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    base::Fd fd(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!fd.valid()) return base::errno_error(ErrorCode::kInternal, "watch signals");
    return fd;
}

void greet(const Result<void>& outcome) {
    std::string line = "ok\n";
    if (!outcome.ok()) {
        std::string message = outcome.error().message;
        std::replace(message.begin(), message.end(), '\n', ' ');
        line = fmt::format("error {} {}\n", static_cast<int>(outcome.error().code), message);
    }
    (void)base::write_all(STDOUT_FILENO, base::as_bytes(line));
    const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    ::dup2(null, STDOUT_FILENO);
    ::close(null);
}

// Answers on stdout as for a box: whether this host's KVM can carry a machine.
int probe_kvm() {
    const auto usable = engine::probe_kvm();
    greet(usable);
    return usable.ok() ? 0 : 1;
}

// In the background: nobody waits for it, and what went wrong is in the log.
Result<void> run_template_maker() {
    v1::TemplateSpec spec;
    uint8_t first = 0;
    TRY_CONTEXT(base::read_exact(STDIN_FILENO, {&first, 1}), "a specification");
    TRY_CONTEXT(rpc::read_sized(STDIN_FILENO, first, kMaxSpecBytes, spec), "a specification");
    if (const pid_t child = ::fork(); child != 0) {
        if (child < 0) return base::errno_error(ErrorCode::kEngine, "start a process");
        return {};
    }
    ::setsid();
    const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(null, fd);
    if (!spec.log_dir().empty())
        (void)base::log_to(spec.log_dir(), "shim", base::LogLevel::kInfo, base::LogLevel::kError);
    if (const auto made = make_template(spec); !made.ok())
        base::log_error("no template was made", {{"error", made.error().message}});
    return {};
}

// The lock of whoever changes the box: until this process answers, it is still being started.
base::Fd inherited_change_lock() {
    return base::Fd(::fcntl(kChangeLockFd, F_SETFD, FD_CLOEXEC) == 0 ? kChangeLockFd : -1);
}

Result<void> run() {
    base::Fd starting = inherited_change_lock();
    auto spec = read_spec();
    if (!spec.ok()) {
        greet(spec.error());
        return std::move(spec).error();
    }
    if (!spec->box.log_dir().empty())
        (void)base::log_to(spec->box.log_dir(), "shim", base::LogLevel::kInfo, base::LogLevel::kError);
    auto loop = TRY(base::EventLoop::make());
    const base::Fd signals = TRY(watch_signals());
    auto supervisor =
        Supervisor::start(*loop, std::move(spec->box), base::Fd(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)),
                          std::move(spec->memory));
    starting.reset();
    greet(supervisor.ok() ? Result<void>() : supervisor.error());
    if (!supervisor.ok()) return std::move(supervisor).error();
    TRY(loop->watch(signals.get(), EPOLLIN, [&](uint32_t) {
        signalfd_siginfo info;
        while (::read(signals.get(), &info, sizeof info) == sizeof info)
            (*supervisor)
                ->stop(kTerminationGraceMs, fmt::format("the supervisor got signal {}", info.ssi_signo));
    }));
    return loop->run();
}

}  // namespace
}  // namespace boxlite::shim

int main(int argc, char** argv) {
    if (argc == 2 && std::string_view(argv[1]) == "--probe-kvm") return boxlite::shim::probe_kvm();
    const bool makes_template = argc == 2 && std::string_view(argv[1]) == "--make-template";
    const auto outcome = makes_template ? boxlite::shim::run_template_maker() : boxlite::shim::run();
    if (outcome.ok()) return 0;
    std::fprintf(stderr, "boxlite-shim: %s\n", outcome.error().message.c_str());
    return 1;
}
