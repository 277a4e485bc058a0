#include "agent/testing.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <iostream>

#include "agent/testing_server.h"

namespace boxlite::agent_test {

namespace {

constexpr const char* kBusybox = "/bin/busybox";

}  // namespace

ContainerTest::ContainerTest() {
    for (const char* folder : {"/bin", "/etc", "/tmp", "/root", "/home"})
        EXPECT_TRUE(base::make_directories(root(folder)).ok());
    ::chmod(root("/tmp").c_str(), 01777);
    const std::string busybox = base::read_file(kBusybox).value();
    put("/bin/busybox", busybox, 0755);
    for (const char* applet : {"sh",   "cat",      "ls",       "id",   "echo",  "sleep",  "head", "wc",
                               "stat", "ps",       "hostname", "dd",   "mount", "umount", "tty",  "stty",
                               "kill", "env",      "pwd",      "true", "grep",  "mkdir",  "rm",   "sha256sum",
                               "awk",  "readlink", "mknod",    "ln",   "chmod", "usleep", "touch"})
        EXPECT_EQ(::symlink("busybox", root(std::string("/bin/") + applet).c_str()), 0);
    put("/etc/passwd", "root:x:0:0:root:/root:/bin/sh\nalice:x:1000:1000::/home/alice:/bin/sh\n");
    put("/etc/group", "root:x:0:\nalice:x:1000:\nwheel:x:10:root,alice\naudio:x:29:alice\n");
}

ContainerTest::~ContainerTest() {
    stop();
}

void ContainerTest::put(const std::string& path, const std::string& content, mode_t mode) const {
    const base::Fd fd = base::open_file(root(path), O_WRONLY | O_CREAT | O_TRUNC, mode).value();
    EXPECT_TRUE(base::write_all(fd.get(), base::as_bytes(content)).ok());
    ::fchmod(fd.get(), mode);
}

void ContainerTest::serve(const v1::ContainerSpec& spec, bool idle_init) {
    std::vector<base::Fd> far;
    for (int i = 0; i < 3; ++i) {
        auto pair = base::make_socketpair(SOCK_STREAM).value();
        clients_.push_back(std::make_unique<rpc::Client>(std::move(pair.first)));
        far.push_back(std::move(pair.second));
    }
    server_ = ::fork();
    ASSERT_GE(server_, 0);
    if (server_ > 0) return;
    clients_.clear();
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::umask(0);
    sigset_t all;
    sigfillset(&all);
    ::sigprocmask(SIG_SETMASK, &all, nullptr);
    const auto served =
        agent::serve_for_test(dir_.path(), spec.SerializeAsString(), idle_init, std::move(far));
    if (!served) std::cerr << "server: " << served.error().message << std::endl;
    ::_exit(served ? 0 : 1);
}

void ContainerTest::stop() {
    if (!server_) return;
    clients_.clear();
    int status = -1;
    ::waitpid(std::exchange(server_, 0), &status, 0);
    EXPECT_EQ(status, 0);
}

v1::ProcessSpec ContainerTest::program(const std::vector<std::string>& argv) {
    v1::ProcessSpec spec;
    for (const std::string& argument : argv) spec.add_argv(argument);
    spec.add_env("PATH=/usr/bin:/bin");
    return spec;
}

Result<int> ContainerTest::start(const std::string& id, const v1::ProcessSpec& spec) {
    v1::StartRequest request;
    request.set_id(id);
    *request.mutable_process() = spec;
    return TRY(client(0).call<v1::StartResponse>(kExecution, "Start", request, kPatience)).pid();
}

v1::ReadResponse ContainerTest::read(const std::string& id, v1::Stream stream, uint32_t max) {
    v1::ReadRequest request;
    request.set_id(id);
    request.set_stream(stream);
    request.set_max_bytes(max);
    auto response = client(0).call<v1::ReadResponse>(kExecution, "Read", request, kPatience);
    EXPECT_TRUE(response.ok()) << response.error().message;
    v1::ReadResponse end;
    end.set_eof(true);
    return response ? std::move(response).value() : end;
}

std::string ContainerTest::read_all(const std::string& id, v1::Stream stream) {
    std::string text;
    for (;;) {
        const v1::ReadResponse part = read(id, stream);
        EXPECT_EQ(part.eof(), part.data().empty());
        if (part.eof()) return text;
        text += part.data();
    }
}

v1::ExitStatus ContainerTest::wait(const std::string& id) {
    v1::ExecutionId request;
    request.set_id(id);
    auto response = client(0).call<v1::ExitStatus>(kExecution, "Wait", request, kPatience);
    EXPECT_TRUE(response.ok()) << response.error().message;
    return response ? std::move(response).value() : v1::ExitStatus();
}

Result<void> ContainerTest::write(const std::string& id, const std::string& data, bool close) {
    v1::WriteRequest request;
    request.set_id(id);
    request.set_data(data);
    request.set_close(close);
    TRY(client(1).call<v1::Empty>(kExecution, "Write", request, kPatience));
    return {};
}

Result<void> ContainerTest::signal(const std::string& id, int number, bool group) {
    v1::SignalRequest request;
    request.set_id(id);
    request.set_signal(number);
    request.set_group(group);
    TRY(client(1).call<v1::Empty>(kExecution, "Signal", request, kPatience));
    return {};
}

Result<void> ContainerTest::close(const std::string& id) {
    v1::ExecutionId request;
    request.set_id(id);
    TRY(client(1).call<v1::Empty>(kExecution, "Close", request, kPatience));
    return {};
}

Finished ContainerTest::run(const v1::ProcessSpec& spec) {
    const std::string id = fmt::format("run{}", next_id_++);
    const auto started = start(id, spec);
    EXPECT_TRUE(started.ok()) << started.error().message;
    if (!started) return {};
    Finished finished;
    finished.out = read_all(id);
    if (!spec.has_tty()) finished.err = read_all(id, v1::STDERR);
    finished.status = wait(id);
    EXPECT_TRUE(close(id).ok());
    return finished;
}

}  // namespace boxlite::agent_test
