#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <filesystem>
#include <thread>

#include "agent/testing.h"

namespace boxlite::agent_test {
namespace {

bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

TEST_F(ContainerTest, OutputErrorAndExitCode) {
    serve();
    const Finished done = run(shell("echo out; echo err >&2; exit 7"));
    EXPECT_EQ(done.out, "out\n");
    EXPECT_EQ(done.err, "err\n");
    EXPECT_EQ(done.status.code(), 7);
    EXPECT_EQ(done.status.signal(), 0);
    EXPECT_EQ(run(shell("kill -9 $$")).status.signal(), SIGKILL);
}

TEST_F(ContainerTest, WhyAProgramDidNotStart) {
    put("/bin/plain", "text", 0644);
    put("/bin/data",
        "\x7f"
        "ELFnot",
        0755);
    put("/bin/lost", "#!/no/such/interpreter\n", 0755);
    serve();
    const auto error = [this](const v1::ProcessSpec& spec) {
        const auto started = start("x", spec);
        EXPECT_FALSE(started.ok());
        return started.ok() ? Error{} : started.error();
    };
    EXPECT_EQ(error(program({"nosuch"})).code, ErrorCode::kNotFound);
    EXPECT_TRUE(
        has(error(program({"nosuch"})).message, "cannot run 'nosuch' in the container: No such file"));
    EXPECT_EQ(error(program({"/bin/nosuch"})).code, ErrorCode::kNotFound);
    EXPECT_EQ(error(program({"lost"})).code, ErrorCode::kNotFound);
    EXPECT_EQ(error(program({"plain"})).code, ErrorCode::kExecution);
    EXPECT_EQ(error(program({"data"})).code, ErrorCode::kExecution);
    EXPECT_EQ(error(program({"/etc"})).code, ErrorCode::kExecution);
    EXPECT_EQ(error(program({""})).code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(error(program({})).code, ErrorCode::kInvalidArgument);
    v1::ProcessSpec spec = program({"true"});
    spec.set_user("nobody");
    EXPECT_EQ(error(spec).code, ErrorCode::kInvalidArgument);
    spec = program({"true"});
    spec.set_cwd("/bin/plain");
    EXPECT_EQ(error(spec).code, ErrorCode::kInvalidArgument);
    spec.set_cwd("relative");
    EXPECT_EQ(error(spec).code, ErrorCode::kInvalidArgument);
    // None of them is left behind.
    v1::ExecutionId id;
    id.set_id("x");
    EXPECT_EQ(client(0).call<v1::ExitStatus>(kExecution, "Wait", id, kPatience).error().code,
              ErrorCode::kNotFound);
}

TEST_F(ContainerTest, ProgramsAreFoundOnThePathOfTheirOwnEnvironment) {
    put("/home/tool", "#!/bin/sh\necho \"$0 $*\"\n", 0755);
    serve();
    v1::ProcessSpec spec = program({"tool", "a", "b c"});
    spec.clear_env();
    spec.add_env("PATH=/nowhere:/bin/busybox:/home:/bin");
    EXPECT_EQ(run(spec).out, "/home/tool a b c\n");
    spec.clear_env();
    EXPECT_EQ(start("x", spec).error().code, ErrorCode::kNotFound);
    spec = program({"./tool"});
    spec.set_cwd("/home");
    EXPECT_EQ(run(spec).out, "./tool \n");
}

TEST_F(ContainerTest, UsersAreTheContainersOwn) {
    serve();
    const auto id = [this](const std::string& user) {
        v1::ProcessSpec spec = program({"id"});
        spec.set_user(user);
        return run(spec).out;
    };
    EXPECT_EQ(id(""), "uid=0(root) gid=0(root) groups=0(root),10(wheel)\n");
    EXPECT_EQ(id("alice"), "uid=1000(alice) gid=1000(alice) groups=10(wheel),29(audio),1000(alice)\n");
    EXPECT_EQ(id("alice:audio"), "uid=1000(alice) gid=29(audio) groups=29(audio)\n");
    EXPECT_EQ(id("4711:4712"), "uid=4711 gid=4712 groups=4712\n");
}

// Fault row 7 (CVE-2024-9676): the account files are links to the host's.
TEST_F(ContainerTest, AccountFilesAreReadInsideTheRoot) {
    const base::TempDir outside = base::TempDir::make().value();
    const std::string trap = outside.path() + "/passwd";
    ASSERT_TRUE(base::write_file_atomically(trap, base::as_bytes("trap:x:0:0::/:/bin/sh\n")).ok());
    ASSERT_EQ(::unlink(root("/etc/passwd").c_str()), 0);
    ASSERT_EQ(::symlink(trap.c_str(), root("/etc/passwd").c_str()), 0);
    serve();
    v1::ProcessSpec spec = program({"id", "-u"});
    spec.set_user("trap");
    EXPECT_EQ(start("x", spec).error().code, ErrorCode::kInvalidArgument);
    spec.set_user("7");
    EXPECT_EQ(run(spec).out, "7\n");
}

TEST_F(ContainerTest, AFifoForAnAccountFileDoesNotHang) {
    ASSERT_EQ(::unlink(root("/etc/group").c_str()), 0);
    ASSERT_EQ(::mkfifo(root("/etc/group").c_str(), 0600), 0);
    serve();
    EXPECT_EQ(output("echo fine"), "fine\n");
}

TEST_F(ContainerTest, TheWorkingDirectoryIsMadeForTheUser) {
    serve();
    v1::ProcessSpec spec = shell("pwd; stat -c '%u:%g %a' . .. /home");
    spec.set_user("alice");
    spec.set_cwd("/home//alice/deep/");
    EXPECT_EQ(run(spec).out, "/home/alice/deep\n1000:1000 755\n1000:1000 755\n0:0 755\n");
    EXPECT_EQ(run(spec).status.code(), 0);
}

TEST_F(ContainerTest, MegabytesThroughCatComeBackAsTheyWere) {
    serve();
    v1::ProcessSpec spec = program({"cat"});
    spec.set_stdin_open(true);
    ASSERT_TRUE(start("cat", spec).ok());
    std::string sent(20 << 20, '\0');
    uint32_t state = 1;
    for (char& c : sent) c = static_cast<char>((state = state * 1664525 + 1013904223) >> 24);
    std::thread writer([&] {
        for (size_t at = 0; at < sent.size(); at += 300'000)
            EXPECT_TRUE(write("cat", sent.substr(at, 300'000), at + 300'000 >= sent.size()).ok());
    });
    const std::string received = read_all("cat");
    writer.join();
    EXPECT_TRUE(received == sent);
    EXPECT_EQ(wait("cat").code(), 0);
}

TEST_F(ContainerTest, AWriterIsHeldUpByWhoDoesNotRead) {
    serve();
    v1::ProcessSpec spec = shell("read line; echo \"$line\"; cat >/dev/null; echo done");
    spec.set_stdin_open(true);
    ASSERT_TRUE(start("slow", spec).ok());
    // Does not fit into the pipe: the answer comes only after the first line was typed.
    v1::WriteRequest request;
    request.set_id("slow");
    ASSERT_TRUE(signal("slow", SIGSTOP).ok());
    request.set_data("first\n" + std::string(1 << 20, 'x'));
    EXPECT_EQ(
        client(2).call<v1::Empty>(kExecution, "Write", request, std::chrono::milliseconds(100)).error().code,
        ErrorCode::kRpc);
    ASSERT_TRUE(signal("slow", SIGCONT).ok());
    EXPECT_EQ(read("slow").data(), "first\n");
    EXPECT_TRUE(write("slow", "", true).ok());
    EXPECT_EQ(read_all("slow"), "done\n");
}

TEST_F(ContainerTest, WritingToNobody) {
    serve();
    v1::ProcessSpec spec = shell("exec <&-; echo closed; sleep 5");
    spec.set_stdin_open(true);
    ASSERT_TRUE(start("deaf", spec).ok());
    EXPECT_EQ(read("deaf").data(), "closed\n");
    EXPECT_EQ(write("deaf", "x").error().code, ErrorCode::kInvalidState);
    ASSERT_TRUE(start("none", shell("sleep 5")).ok());
    EXPECT_EQ(write("none", "x").error().code, ErrorCode::kInvalidState);
    EXPECT_EQ(write("missing", "x").error().code, ErrorCode::kNotFound);
}

TEST_F(ContainerTest, ReadsAreCutToTheSizeThatIsAskedFor) {
    serve();
    ASSERT_TRUE(start("x", shell("echo abcdef")).ok());
    EXPECT_EQ(read("x", v1::STDOUT, 4).data(), "abcd");
    EXPECT_EQ(read("x", v1::STDOUT, 4).data(), "ef\n");
    EXPECT_TRUE(read("x", v1::STDOUT, 4).eof());
    EXPECT_TRUE(read("x", v1::STDERR, 4).eof());
    v1::ReadRequest request;
    request.set_id("x");
    for (const uint32_t size : {0u, (1u << 20) + 1}) {
        request.set_max_bytes(size);
        EXPECT_EQ(client(0).call<v1::ReadResponse>(kExecution, "Read", request, kPatience).error().code,
                  ErrorCode::kInvalidArgument);
    }
}

TEST_F(ContainerTest, OutputEndsWithTheProcessEvenIfADescendantKeepsThePipe) {
    serve();
    const auto begin = base::Clock::now();
    EXPECT_EQ(run(shell("sleep 30 & echo started")).out, "started\n");
    EXPECT_LT(base::Clock::now() - begin, std::chrono::seconds(10));
}

TEST_F(ContainerTest, SignalsToTheProcessAndToItsGroup) {
    serve();
    ASSERT_TRUE(start("one", shell("trap 'echo caught' USR1; echo ready; sleep 30; sleep 30")).ok());
    EXPECT_EQ(read("one").data(), "ready\n");
    ASSERT_TRUE(signal("one", SIGUSR1).ok());
    ASSERT_TRUE(signal("one", SIGTERM, true).ok());
    EXPECT_EQ(wait("one").signal(), SIGTERM);
    EXPECT_EQ(signal("one", SIGTERM).error().code, ErrorCode::kInvalidState);
    EXPECT_EQ(signal("one", 0).error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(signal("one", 65).error().code, ErrorCode::kInvalidArgument);
}

TEST_F(ContainerTest, TimeIsUp) {
    serve();
    v1::ProcessSpec spec = shell("sleep 30");
    spec.set_timeout_ms(50);
    v1::ExitStatus status = run(spec).status;
    EXPECT_TRUE(status.timed_out());
    EXPECT_EQ(status.signal(), SIGTERM);
    // One that does not listen gets two seconds more.
    spec = shell("trap '' TERM; echo deaf; while :; do sleep 1; done");
    spec.set_timeout_ms(50);
    const auto begin = base::Clock::now();
    status = run(spec).status;
    EXPECT_TRUE(status.timed_out());
    EXPECT_EQ(status.signal(), SIGKILL);
    EXPECT_FALSE(status.oom_killed());
    EXPECT_GE(base::Clock::now() - begin, std::chrono::seconds(2));
    spec = shell("exit 3");
    spec.set_timeout_ms(20'000);
    status = run(spec).status;
    EXPECT_FALSE(status.timed_out());
    EXPECT_EQ(status.code(), 3);
}

TEST_F(ContainerTest, ATerminal) {
    serve();
    v1::ProcessSpec spec =
        shell("tty; stty size; stty -echo; echo to-err >&2; read line; echo \"got $line\"; stty size; cat");
    spec.mutable_tty()->set_rows(24);
    spec.mutable_tty()->set_cols(80);
    spec.set_user("alice");
    ASSERT_TRUE(start("t", spec).ok());
    std::string text;
    while (!has(text, "to-err")) text += read("t").data();
    EXPECT_EQ(text, "/dev/pts/0\r\n24 80\r\nto-err\r\n");
    EXPECT_TRUE(read("t", v1::STDERR).eof());
    v1::ResizeRequest resize;
    resize.set_id("t");
    resize.mutable_tty()->set_rows(50);
    resize.mutable_tty()->set_cols(132);
    ASSERT_TRUE(client(1).call<v1::Empty>(kExecution, "Resize", resize, kPatience).ok());
    // A close is not passed on to a terminal: the user types ^D.
    ASSERT_TRUE(write("t", "hello\n", true).ok());
    ASSERT_TRUE(write("t", "\x04").ok());
    EXPECT_EQ(read_all("t"), "got hello\r\n50 132\r\n");
    EXPECT_EQ(wait("t").code(), 0);
    resize.set_id("p");
    ASSERT_TRUE(start("p", shell("sleep 5")).ok());
    EXPECT_EQ(client(1).call<v1::Empty>(kExecution, "Resize", resize, kPatience).error().code,
              ErrorCode::kInvalidState);
}

TEST_F(ContainerTest, ATerminalsInterruptReachesTheForegroundGroup) {
    serve();
    v1::ProcessSpec spec = shell("echo ready; sleep 30; echo not reached");
    spec.mutable_tty()->set_rows(1);
    ASSERT_TRUE(start("t", spec).ok());
    EXPECT_EQ(read("t").data(), "ready\r\n");
    ASSERT_TRUE(write("t", "\x03").ok());
    EXPECT_EQ(read_all("t"), "^C");
    EXPECT_EQ(wait("t").signal(), SIGINT);
}

TEST_F(ContainerTest, CloseForgetsAndLetsTheProcessGoOn) {
    serve();
    ASSERT_TRUE(start("x", shell("while echo y; do :; done; echo $? > /tmp/ended")).ok());
    EXPECT_EQ(start("x", shell("true")).error().code, ErrorCode::kAlreadyExists);
    ASSERT_TRUE(close("x").ok());
    EXPECT_EQ(close("x").error().code, ErrorCode::kNotFound);
    EXPECT_EQ(signal("x", SIGTERM).error().code, ErrorCode::kNotFound);
    // Its pipe is gone, so it ends; its id is free.
    EXPECT_EQ(output("for i in 1 2 3 4 5 6 7 8 9; do ps | grep -q 'while ech[o]' || break; sleep 0.1; done; "
                     "ps | grep -c 'while ech[o]'"),
              "0\n");
    EXPECT_TRUE(start("x", shell("true")).ok());
}

TEST_F(ContainerTest, FinishedExecutionsAreKeptUpToALimit) {
    serve();
    for (int i = 0; i < 70; ++i) {
        ASSERT_TRUE(start("e" + std::to_string(i), shell("exit " + std::to_string(i))).ok());
        EXPECT_EQ(wait("e" + std::to_string(i)).code(), i);
    }
    EXPECT_EQ(wait("e69").code(), 69);
    EXPECT_EQ(wait("e6").code(), 6);
    EXPECT_EQ(close("e5").error().code, ErrorCode::kNotFound);
}

TEST_F(ContainerTest, NothingLeaksOverManyExecutions) {
    serve();
    const auto fds = [this] {
        const auto entries = std::filesystem::directory_iterator("/proc/" + std::to_string(server()) + "/fd");
        return std::distance(begin(entries), end(entries));
    };
    output("true");
    const auto before = fds();
    for (int i = 0; i < 200; ++i) {
        v1::ProcessSpec spec = program({"true"});
        spec.set_stdin_open(i % 2);
        if (i % 3 == 0) spec.mutable_tty()->set_rows(24);
        run(spec);
        start("bad", program({"nosuch"})).ok();
    }
    output("true");
    EXPECT_EQ(fds(), before);
    EXPECT_EQ(output("ls /dev/pts"), "ptmx\n");
}

TEST_F(ContainerTest, TheMainProcessIsPid1AndTheContainerEndsWithIt) {
    serve({}, false);
    EXPECT_EQ(start("early", shell("true")).error().code, ErrorCode::kInvalidState);
    EXPECT_EQ(start("main", program({"nosuch"})).error().code, ErrorCode::kNotFound);
    v1::ProcessSpec spec = shell("echo $$; read line; exit 4");
    spec.set_stdin_open(true);
    auto main_pid = start("main", spec);
    ASSERT_TRUE(main_pid.ok()) << main_pid.error().message;
    EXPECT_EQ(*main_pid, 1);
    EXPECT_EQ(read("main").data(), "1\n");
    EXPECT_EQ(start("side", shell("sleep 30")).value(), 2);
    ASSERT_TRUE(write("main", "go\n").ok());
    EXPECT_EQ(wait("main").code(), 4);
    EXPECT_EQ(wait("side").signal(), SIGKILL);
    EXPECT_EQ(start("late", shell("true")).error().code, ErrorCode::kStopped);
}

TEST_F(ContainerTest, TerminationAsksFirst) {
    serve({}, false);
    ASSERT_TRUE(
        start("main", shell("trap 'echo bye; exit 9' TERM; echo up; while :; do sleep 0.05; done")).ok());
    EXPECT_EQ(read("main").data(), "up\n");
    v1::ShutdownRequest request;
    request.set_grace_ms(10'000);
    ASSERT_TRUE(client(1).call<v1::Empty>("test", "Terminate", request, kPatience).ok());
    EXPECT_EQ(wait("main").code(), 9);
    EXPECT_EQ(read_all("main"), "bye\n");
}

TEST_F(ContainerTest, TerminationInsistsAfterTheGrace) {
    serve({}, false);
    ASSERT_TRUE(start("main", shell("trap '' TERM; echo up; while :; do sleep 1; done")).ok());
    EXPECT_EQ(read("main").data(), "up\n");
    v1::ShutdownRequest request;
    request.set_grace_ms(50);
    ASSERT_TRUE(client(1).call<v1::Empty>("test", "Terminate", request, kPatience).ok());
    EXPECT_EQ(wait("main").signal(), SIGKILL);
}

TEST_F(ContainerTest, AnIdleContainerPassesTheTerminationOn) {
    serve();
    ASSERT_TRUE(
        start("a", shell("trap 'echo bye; exit 9' TERM; echo up; while :; do sleep 0.05; done")).ok());
    EXPECT_EQ(read("a").data(), "up\n");
    v1::ShutdownRequest request;
    request.set_grace_ms(10'000);
    const auto begin = base::Clock::now();
    ASSERT_TRUE(client(1).call<v1::Empty>("test", "Terminate", request, kPatience).ok());
    EXPECT_LT(base::Clock::now() - begin, std::chrono::seconds(8));
    EXPECT_EQ(wait("a").code(), 9);
}

TEST_F(ContainerTest, CallsMayRunAheadOfTheStart) {
    serve();
    // Reads and waits that are sent with the start, before its answer, and on another connection.
    ASSERT_TRUE(start("x", shell("sleep 0.1; echo late")).ok());
    std::thread waiter([this] {
        v1::ExecutionId id;
        id.set_id("x");
        EXPECT_EQ(client(2).call<v1::ExitStatus>(kExecution, "Wait", id, kPatience).value().code(), 0);
    });
    EXPECT_EQ(read_all("x"), "late\n");
    waiter.join();
}

}  // namespace
}  // namespace boxlite::agent_test
