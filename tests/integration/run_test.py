"""`boxlite run base …`, offline, as root and as an ordinary user; Docker's exit codes; byte-exact streams."""
import hashlib
import json
import os
import subprocess
import unittest

import boxtest
from boxtest import BOXLITE, BoxTest, children, wait_until


class RunAsRoot(BoxTest):
    def test_kernel_identity_and_release(self):
        out = self.output("run", "base", "sh", "-c", "uname -r; id; cat /etc/os-release")
        lines = out.splitlines()
        self.assertTrue(lines[0].endswith("-boxlite"), out)
        self.assertNotEqual(lines[0], os.uname().release)
        self.assertTrue(lines[1].startswith("uid=0(root) gid=0(root)"), out)
        self.assertIn("ID=boxlite-base", out)

    def test_the_box_has_processes_and_files_of_its_own(self):
        with open(os.path.join(self.home.path, "host-secret"), "w") as out:
            out.write("hidden")
        seen = self.output("run", "base", "sh", "-c", f"ls -d {self.home.path} /proc/[0-9]* 2>&1; ls /")
        self.assertNotIn("host-secret", seen)
        processes = [line for line in seen.splitlines() if line.startswith("/proc/")]
        self.assertLessEqual(len(processes), 3, seen)

    def test_exit_codes(self):
        outcomes = [(0, ["true"]), (3, ["sh", "-c", "exit 3"]), (127, ["no-such-program"]), (126, ["/etc/passwd"])]
        for code, args in outcomes:
            self.check("run", "--rm", "base", *args, code=code)
        # Not as PID 1, which a namespace protects from its own signals.
        self.check("create", "--name", "box", "base")
        for code, args in outcomes + [(128 + 9, ["sh", "-c", "kill -9 $$"])]:
            self.check("exec", "box", *args, code=code)

    def test_own_failures_are_125_and_usage_is_2(self):
        result = self.check("run", "127.0.0.1:1/none:latest", "true", code=125)
        self.assertIn(b"127.0.0.1:1/none", result.err)
        result = self.check("run", "--no-such-flag", "base", code=2)
        self.assertIn(b"--no-such-flag", result.err)
        result = self.check("run", "--name", "../evil", "base", "true", code=2)
        self.assertIn(b"../evil", result.err)
        result = self.check("exec", "no-such-box", "true", code=125)
        self.assertIn(b"no-such-box", result.err)

    def test_environment_user_and_directory(self):
        out = self.output("run", "--rm", "-e", "A=b c", "-w", "/tmp", "-u", "65534:100", "base", "sh", "-c",
                          'echo "$A"; pwd; id -u; id -g')
        self.assertEqual(out, "b c\n/tmp\n65534\n100\n")

    def test_streams_stay_apart(self):
        self.check("run", "--rm", "base", "true")  # the first run of an image tells that it builds its disk
        result = self.check("run", "--rm", "base", "sh", "-c", "echo out; echo err >&2")
        self.assertEqual((result.out, result.err), (b"out\n", b"err\n"))

    def test_isolation_is_told_and_demanded(self):
        info = json.loads(self.output("info", "--format", "json"))
        self.assertIn((info["engine"], info["isolation"]), (("uml", "software"), ("kvm", "hardware")))
        self.check("run", "-d", "--name", "box", "base", "sleep", "600")
        box = self.home.inspect("box")
        self.assertEqual((box["Engine"], box["Isolation"]), (info["engine"], info["isolation"]))
        self.assertEqual(box["EngineReason"], info.get("engineReason", ""))
        if info["isolation"] == "hardware":
            self.check("run", "--isolation", "hardware", "base", "true")
        else:
            result = self.check("run", "--isolation", "hardware", "base", "true", code=125)
            self.assertIn(info["engineReason"].encode(), result.err)
        result = self.check("run", "--engine", "uml", "--isolation", "hardware", "base", "true", code=2)
        self.assertIn(b"uml", result.err)

    def test_why_it_is_software_is_told_once(self):
        first = self.check("run", "--rm", "base", "true")
        second = self.check("run", "--rm", "base", "true")
        software = json.loads(self.output("info", "--format", "json"))["isolation"] == "software"
        self.assertEqual(b"in software" in first.err, software, first)
        self.assertEqual(second.err, b"")


class RunAsUser(boxtest.AsUser, RunAsRoot):
    """The same, as a user who may do nothing on the host."""


class Processes(BoxTest):
    """Guest processes are processes of the host on the uml engine."""

    def machine(self):
        return children(self.home.inspect("box")["State"]["Pid"])[0]

    def test_ended_programs_leave_few_processes_on_the_host(self):
        self.check("run", "-d", "--name", "box", "base", "sleep", "3600")
        before = len(children(self.machine()))
        script = ("for i in $(seq 40); do sleep 3600 & all=\"$all $!\"; done; ls /proc/*/stat | wc -l; kill $all; wait; "
                  "for i in $(seq 40); do sh -c 'echo $0' $i; done")
        lines = self.output("exec", "box", "sh", "-c", script).split()
        self.assertGreater(int(lines[0]), 40)
        self.assertEqual(lines[1:], [str(n) for n in range(1, 41)])
        wait_until(lambda: len(children(self.machine())) <= before + 4, "only spare processes stay")

    def test_what_a_program_computes_is_its_own_time(self):
        loop = "i=0; while [ $i -lt 300000 ]; do i=$((i + 1)); done; uname -r; cat /proc/$$/stat"
        release, stat = self.output("run", "--rm", "base", "sh", "-c", loop).splitlines()
        if tuple(map(int, release.split(".")[:2])) < (6, 16):
            self.skipTest("the ptrace mode of UML counts it as the kernel's")
        user, system = map(int, stat.split()[13:15])
        self.assertGreater(user, 10 * system)

    def test_a_single_processor_will_do(self):
        process = self.home.popen("run", "-d", "--name", "box", "base", "sleep", "3600", stdout=subprocess.DEVNULL,
                                  preexec_fn=lambda: os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}))
        self.assertEqual(process.wait(60 * boxtest.PATIENCE), 0)
        if self.home.inspect("box")["Engine"] == "uml":
            with open(f"/proc/{self.machine()}/cmdline", "rb") as cmdline:
                self.assertIn(b"spin=off", cmdline.read().split(b"\0"))
        self.assertEqual(self.output("exec", "box", "sh", "-c", "for i in 1 2 3; do sh -c 'echo $0' $i; done"), "1\n2\n3\n")


class Streams(BoxTest):
    def setUp(self):
        super().setUp()
        self.check("run", "-d", "--name", "box", "base", "sleep", "3600")

    def test_a_hundred_megabytes_both_ways(self):
        data = os.urandom(100 << 20)
        result = self.check("exec", "-i", "box", "cat", stdin=data, timeout=300)
        self.assertEqual(hashlib.sha256(result.out).digest(), hashlib.sha256(data).digest())
        counted = self.check("exec", "-i", "box", "sha256sum", stdin=data, timeout=300).out.decode().split()[0]
        self.assertEqual(counted, hashlib.sha256(data).hexdigest())

    def test_a_reader_that_does_not_read_costs_no_memory(self):
        process = self.home.popen("exec", "box", "sh", "-c", "cat /dev/zero", stdout=subprocess.PIPE)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        process.stdout.read(1 << 20)
        state = self.home.inspect("box")
        pids = [process.pid, state["State"]["Pid"]]

        def resident():
            total = 0
            for pid in pids:
                with open(f"/proc/{pid}/status") as status:
                    total += sum(int(line.split()[1]) for line in status if line.startswith("VmRSS"))
            return total

        first = resident()
        for _ in range(20):  # a stalled stream has no event; other work in the box passes the time
            self.check("exec", "box", "true")
        self.assertLess(resident() - first, 8 << 10, "KiB grown while nobody read")


if __name__ == "__main__":
    unittest.main()
