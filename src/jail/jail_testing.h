// What the tests of the jail share: children to confine, and what they report.
#pragma once

#include <fcntl.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "base/file.h"
#include "jail/jail.h"

namespace boxlite::jail {

inline constexpr uid_t kUser = 48211;  // of nobody

template <typename T>
T must(Result<T> result) {
    if (!result.ok()) ADD_FAILURE() << result.error().message;
    return std::move(result).value();
}

inline void must(const Result<void>& result) {
    if (!result.ok()) ADD_FAILURE() << result.error().message;
}

// Runs `body` in a process of its own, which returns text, as its exit does not end the tests.
inline std::string in_child(const std::function<std::string()>& body) {
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

inline void become_user() {
    if (::setgroups(0, nullptr) < 0 || ::setresgid(kUser, kUser, kUser) < 0 ||
        ::setresuid(kUser, kUser, kUser) < 0)
        ::_exit(3);
    ::prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);  // as after a login: /proc/self is the user's
}

// As on a host where users may not make user namespaces.
inline void forbid_user_namespaces() {
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

inline void become(Caller caller) {
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

inline Probed parse(const std::string& text) {
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

inline std::string to_text(const JailReport& report) {
    std::string text;
    for (const std::string& what : report.applied) text += "applied: " + what + "\n";
    for (const JailReport::Missing& missing : report.missing)
        text += "missing: " + missing.what + ": " + missing.why + "\n";
    return text;
}

}  // namespace boxlite::jail
