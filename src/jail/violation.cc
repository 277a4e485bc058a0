#include "jail/violation.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <charconv>

namespace boxlite::jail {

namespace {

constexpr int kSysSeccomp = 1;  // SYS_SECCOMP, which glibc does not name

// A signal handler has nothing but what is global.
int report_to = -1;
thread_local const char* thread_name = "threads";

// Async-signal-safe, and with no call that a role might lack but write and exit_group.
class Text {
  public:
    void add(const char* text) {
        for (; *text && size_ < sizeof bytes_; ++text) bytes_[size_++] = *text;
    }
    void add(int number) {
        size_ =
            static_cast<size_t>(std::to_chars(bytes_ + size_, bytes_ + sizeof bytes_, number).ptr - bytes_);
    }
    void write_to(int fd) const { (void)!::write(fd, bytes_, size_); }

  private:
    char bytes_[400];
    size_t size_ = 0;
};

void end_process(int signal, siginfo_t* info, void*) {
    // Sent by somebody, it does what it does everywhere.
    if (info->si_code != kSysSeccomp) {
        ::signal(signal, SIG_DFL);
        ::raise(signal);
        return;
    }
    Text text;
    text.add(R"({"code": 0, "signal": 0, "failed": true, "finished_at": 0, "reason": ")");
    text.add("the supervisor was ended by the rules of its own jail: one of its ");
    text.add(thread_name);
    text.add(" made system call ");
    text.add(info->si_syscall);
    text.add("\"}");
    text.write_to(report_to);
    ::_exit(128 + SIGSYS);
}

}  // namespace

void report_violations(int record) {
    report_to = record;
    struct sigaction action {};
    action.sa_sigaction = end_process;
    action.sa_flags = SA_SIGINFO;
    ::sigfillset(&action.sa_mask);
    ::sigaction(SIGSYS, &action, nullptr);
}

void set_thread_name_in_report(const char* name) {
    thread_name = name;
    // A blocked signal would end the process without a word.
    sigset_t trap;
    ::sigemptyset(&trap);
    ::sigaddset(&trap, SIGSYS);
    ::pthread_sigmask(SIG_UNBLOCK, &trap, nullptr);
}

}  // namespace boxlite::jail
