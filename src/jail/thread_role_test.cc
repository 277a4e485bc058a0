#include "jail/thread_role.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/fd.h"
#include "jail/violation.h"

namespace boxlite::jail {
namespace {

struct Outcome {
    int status;
    std::string record;
};

// A process with one thread in the role, which calls `work`.
Outcome in_role(Result<SeccompProgram> (*policy)(), const std::function<void()>& work) {
    const base::Fd record = base::make_memfd("record", 0).value();
    const pid_t child = ::fork();
    if (child == 0) {
        ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        report_violations(record.get());
        ThreadRole role("device threads", policy().value(), true);
        std::thread thread([&] {
            if (!role.enter().ok()) ::_exit(1);
            work();
        });
        thread.join();
        // The rest of the process is as it was.
        ::_exit(::socket(AF_INET, SOCK_STREAM, 0) >= 0 ? 0 : 2);
    }
    Outcome outcome{};
    ::waitpid(child, &outcome.status, 0);
    char text[1000];
    const ssize_t n = ::pread(record.get(), text, sizeof text, 0);
    outcome.record.assign(text, n > 0 ? static_cast<size_t>(n) : 0);
    return outcome;
}

TEST(ThreadRole, WhatItIsForWorks) {
    const auto outcome = in_role(device_thread_policy, [] {
        const auto pair = base::make_socketpair(SOCK_STREAM);
        if (!pair.ok() || ::write(pair->first.get(), "x", 1) != 1) ::_exit(3);
    });
    EXPECT_EQ(outcome.status, 0);
    EXPECT_EQ(outcome.record, "");
}

TEST(ThreadRole, AnythingElseEndsTheProcessWhichSaysWhy) {
    for (auto* policy : {device_thread_policy, vcpu_thread_policy}) {
        const auto outcome = in_role(policy, [] {
            // As a thread of a device that blocks every signal.
            sigset_t all;
            ::sigfillset(&all);
            ::sigdelset(&all, SIGSYS);
            ::pthread_sigmask(SIG_SETMASK, &all, nullptr);
            (void)::socket(AF_INET, SOCK_STREAM, 0);
            ::_exit(4);
        });
        ASSERT_TRUE(WIFEXITED(outcome.status));
        EXPECT_EQ(WEXITSTATUS(outcome.status), 128 + SIGSYS);
        const auto record = nlohmann::json::parse(outcome.record, nullptr, false);
        ASSERT_TRUE(record.is_object()) << outcome.record;
        EXPECT_EQ(record["failed"], true);
        // 41 is socket(2) on x86-64.
        EXPECT_EQ(record["reason"],
                  "the supervisor was ended by the rules of its own jail: one of its device threads made "
                  "system call 41");
    }
}

}  // namespace
}  // namespace boxlite::jail
