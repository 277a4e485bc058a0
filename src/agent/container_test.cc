#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/testing.h"

namespace boxlite::agent_test {
namespace {

bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

TEST_F(ContainerTest, NamespacesOfItsOwn) {
    v1::ContainerSpec spec;
    spec.set_hostname("ship");
    serve(spec);
    EXPECT_EQ(output("hostname"), "ship\n");
    EXPECT_EQ(output("cat /proc/1/comm"), "init\n");
    EXPECT_EQ(output("cat /proc/self/cgroup | grep ^0:"), "0::/\n");
    EXPECT_EQ(output("set -- /proc/[0-9]*; echo $# $1"), "2 /proc/1\n");
    const std::string inside = output("for n in pid mnt ipc uts cgroup; do readlink /proc/self/ns/$n; done");
    for (const char* name : {"pid", "mnt", "ipc", "uts", "cgroup"}) {
        char host[64] = {};
        ASSERT_GT(::readlink((std::string("/proc/self/ns/") + name).c_str(), host, sizeof host - 1), 0);
        EXPECT_TRUE(has(inside, std::string(name) + ":["));
        EXPECT_FALSE(has(inside, host)) << name;
    }
}

TEST_F(ContainerTest, RootIsTheDirectoryAndNothingElse) {
    put("/marker", "here");
    serve();
    EXPECT_EQ(output("cat /marker; cat /../../marker"), "herehere");
    EXPECT_EQ(output("cd /; for i in 1 2 3 4 5; do cd ..; done; pwd; ls -d marker"), "/\nmarker\n");
    EXPECT_FALSE(has(output("cat /proc/mounts"), "/root "));
}

TEST_F(ContainerTest, MountsAsDockerHasThem) {
    v1::ContainerSpec spec;
    spec.set_shm_bytes(1 << 20);
    serve(spec);
    const std::string mounts = output("cat /proc/mounts");
    EXPECT_TRUE(has(mounts, "proc /proc proc rw,nosuid,nodev,noexec"));
    EXPECT_TRUE(has(mounts, "sysfs /sys sysfs ro,nosuid,nodev,noexec"));
    EXPECT_TRUE(has(mounts, "cgroup /sys/fs/cgroup cgroup2 ro,nosuid,nodev,noexec"));
    EXPECT_TRUE(has(mounts, "mqueue /dev/mqueue mqueue rw,nosuid,nodev,noexec"));
    EXPECT_TRUE(has(mounts, "tmpfs /dev/shm tmpfs rw,nosuid,nodev,noexec,relatime,size=1024k"));
    EXPECT_EQ(output("stat -c '%a %n' /dev /dev/shm /dev/null /dev/tty /dev/pts/ptmx"),
              "755 /dev\n1777 /dev/shm\n666 /dev/null\n666 /dev/tty\n666 /dev/pts/ptmx\n");
    EXPECT_EQ(output("ls /dev"),
              "fd\nfull\nmqueue\nnull\nptmx\npts\nrandom\nshm\nstderr\nstdin\nstdout\ntty\nurandom\nzero\n");
    EXPECT_EQ(output("echo x > /dev/full || echo full; head -c 3 /dev/zero | wc -c"), "full\n3\n");
}

TEST_F(ContainerTest, MaskedAndReadOnlyPaths) {
    serve();
    EXPECT_EQ(output("cat /proc/timer_list /proc/keys /proc/kcore | wc -c"), "0\n");
    EXPECT_EQ(output("ls /sys/firmware | wc -l"), "0\n");
    EXPECT_EQ(run(shell("echo 1 > /proc/sys/kernel/core_uses_pid")).err,
              "sh: can't create /proc/sys/kernel/core_uses_pid: Read-only file system\n");
    EXPECT_EQ(run(shell("umount /proc/keys")).err,
              "umount: can't unmount /proc/keys: Operation not permitted\n");
    EXPECT_TRUE(has(run(shell("mkdir /sys/fs/cgroup/x")).err, "Read-only file system"));
}

TEST_F(ContainerTest, PrivilegedHasItAll) {
    v1::ContainerSpec spec;
    spec.set_privileged(true);
    serve(spec);
    EXPECT_EQ(output("grep -c 'sysfs /sys sysfs rw' /proc/mounts; grep -c 'cgroup2 rw' /proc/mounts"),
              "1\n1\n");
    EXPECT_TRUE(has(output("cat /proc/mounts"), "devtmpfs /dev devtmpfs"));
    EXPECT_EQ(output("mkdir /tmp/m && mount -t tmpfs x /tmp/m && echo mounted"), "mounted\n");
    EXPECT_TRUE(has(output("ls /dev"), "kmsg"));
}

TEST_F(ContainerTest, DeviceNodesLeadNowhereUnlessAllowed) {
    serve();
    // Making one is a default capability; opening is another matter. 1:11 is the kernel log, 7:0 a loop
    // device.
    EXPECT_EQ(output("cd /tmp; mknod log c 1 11 && mknod disk b 7 0 && mknod zero c 1 5 && ls | wc -l"),
              "3\n");
    EXPECT_EQ(run(shell("head -c 1 /tmp/log")).err, "head: /tmp/log: Operation not permitted\n");
    EXPECT_EQ(run(shell("head -c 1 /tmp/disk")).err, "head: /tmp/disk: Operation not permitted\n");
    EXPECT_EQ(output("head -c 2 /tmp/zero | wc -c; for d in null zero random urandom ptmx; do : < /dev/$d || "
                     "echo $d; done"),
              "2\n");
    EXPECT_EQ(run(shell(": > /tmp/log")).status.code(), 1);
}

TEST_F(ContainerTest, EtcFilesOfTheMachineLeaveTheImageAlone) {
    put("/etc/hosts", "from the image\n");
    ASSERT_EQ(::symlink("../run/resolve/stub.conf", root("/etc/resolv.conf").c_str()), 0);
    v1::ContainerSpec spec;
    spec.set_hostname("ship");
    spec.add_dns_servers("192.168.127.1");
    spec.add_dns_servers("fd00::1");
    auto* entry = spec.add_hosts();
    entry->set_name("db.internal");
    entry->set_address("10.0.0.7");
    serve(spec);
    EXPECT_EQ(output("cat /etc/hostname"), "ship\n");
    EXPECT_EQ(output("cat /etc/resolv.conf"), "nameserver 192.168.127.1\nnameserver fd00::1\n");
    const std::string hosts = output("cat /etc/hosts");
    EXPECT_TRUE(has(hosts, "127.0.0.1\tlocalhost\n"));
    EXPECT_TRUE(has(hosts, "10.0.0.7\tdb.internal\n"));
    EXPECT_TRUE(has(hosts, "127.0.1.1\tship\n"));
    EXPECT_EQ(output("echo more >> /etc/hosts && grep -c more /etc/hosts"), "1\n");
    stop();
    EXPECT_EQ(base::read_file(root("/etc/hosts")).value(), "from the image\n");
    EXPECT_EQ(base::read_file(root("/run/resolve/stub.conf")).value(), "");
}

TEST_F(ContainerTest, EtcFilesThatAreNotAskedForStayTheImages) {
    put("/etc/hosts", "from the image\n");
    serve();
    EXPECT_EQ(output("cat /etc/hosts; ls /etc"), "from the image\ngroup\nhosts\npasswd\n");
}

TEST_F(ContainerTest, LinksInTheImageLeadNowhereElse) {
    // Mount points and files of ours behind links that point out of the root.
    const base::TempDir outside = base::TempDir::make().value();
    ASSERT_EQ(::symlink(outside.path().c_str(), root("/etc/hosts").c_str()), 0);
    ASSERT_EQ(::symlink((outside.path() + ".r/x").c_str(), root("/etc/resolv.conf").c_str()), 0);
    v1::ContainerSpec spec;
    spec.set_hostname("ship");
    spec.add_dns_servers("1.1.1.1");
    serve(spec);
    EXPECT_TRUE(has(output("cat /etc/hosts"), "ship"));
    EXPECT_EQ(output("cat /etc/resolv.conf"), "nameserver 1.1.1.1\n");
    EXPECT_FALSE(base::path_exists(outside.path() + ".r"));
}

// 0xa80425fb is the set in /proc/self/status of a container that Docker or podman starts without options.
TEST_F(ContainerTest, CapabilitiesAreDockersDefault) {
    serve();
    const char* kCaps = "grep -E '^Cap(Inh|Prm|Eff|Bnd|Amb)' /proc/self/status | awk '{print $2}'";
    EXPECT_EQ(output(kCaps),
              "0000000000000000\n00000000a80425fb\n00000000a80425fb\n00000000a80425fb\n0000000000000000\n");
    v1::ProcessSpec alice = shell(kCaps);
    alice.set_user("alice");
    EXPECT_EQ(run(alice).out,
              "0000000000000000\n0000000000000000\n0000000000000000\n00000000a80425fb\n0000000000000000\n");
    v1::ProcessSpec changed = shell("grep CapEff /proc/self/status");
    changed.add_cap_drop("ALL");
    changed.add_cap_add("net_admin");
    EXPECT_EQ(run(changed).out, "CapEff:\t0000000000001000\n");
    const char* kNamespaces = "cd /proc/self/ns; readlink cgroup ipc mnt net pid uts";
    v1::ProcessSpec beside = shell(kNamespaces);
    beside.add_cap_add("sys_admin");
    EXPECT_EQ(run(beside).out, output(kNamespaces));
    changed.add_cap_add("flying");
    EXPECT_EQ(start("x", changed).error().code, ErrorCode::kInvalidArgument);
}

TEST_F(ContainerTest, NoNewPrivileges) {
    serve();
    EXPECT_EQ(output("grep NoNewPrivs /proc/self/status"), "NoNewPrivs:\t0\n");
    v1::ProcessSpec spec = shell("grep NoNewPrivs /proc/self/status");
    spec.set_no_new_privileges(true);
    EXPECT_EQ(run(spec).out, "NoNewPrivs:\t1\n");
}

TEST_F(ContainerTest, ProcessesStartClean) {
    serve();
    // 3 is the directory that ls reads.
    EXPECT_EQ(output("exec ls /proc/self/fd"), "0\n1\n2\n3\n");
    EXPECT_EQ(output("grep -E '^Sig(Pnd|Blk|Ign|Cgt)' /proc/self/status | awk '{print $2}'"),
              "0000000000000000\n0000000000000000\n0000000000000000\n0000000000000000\n");
    EXPECT_EQ(output("umask; readlink /proc/self/fd/0; env | sort"),
              "0022\n/dev/null\nPATH=/usr/bin:/bin\nPWD=/\nSHLVL=1\n");
    EXPECT_EQ(output("set -- $(cat /proc/$$/stat); test $1 = $6 || echo other session; echo $7"), "0\n");
}

TEST_F(ContainerTest, NobodyInsideLooksIntoTheAgent) {
    serve();
    // PID 1 is the agent's copy; even root may not open its memory, files or program.
    const Finished looked =
        run(shell("for f in mem exe cwd fd/0; do head -c 1 /proc/1/$f; readlink /proc/1/$f; done"));
    EXPECT_EQ(looked.out, "");
}

TEST_F(ContainerTest, ZombiesAreReaped) {
    serve();
    // An orphan that ends: its parent is PID 1 by then.
    EXPECT_EQ(output("sh -c '(sleep 0.05) & exit 0'; for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.05; "
                     "grep -l sleep /proc/[0-9]*/comm >/dev/null || break; done; cat /proc/[0-9]*/stat | "
                     "grep -c ' Z '"),
              "0\n");
}

}  // namespace
}  // namespace boxlite::agent_test
