"""Boxes of the kvm engine: engine and isolation as told, fork, snapshots with memory. Needs a /dev/kvm
that works; tests/nested-kvm/run gives one.
"""
import json
import os
import time
import unittest

from boxtest import BoxTest, kill, wait_until

# Counts for ever, a line each time, and keeps the count in memory alone.
COUNTER = "i=0; while :; do i=$((i+1)); echo $i; sleep 0.02; done"


class Kvm(BoxTest):
    def start(self, name, *flags, script=COUNTER):
        self.check("run", "-d", "--name", name, "--memory", "128", *flags, "base", "sh", "-c", script)

    def shell(self, box, script, **options):
        return self.output("exec", box, "sh", "-c", script, **options).strip()

    def count(self, box):
        """The newest line of a counting box."""
        lines = self.output("logs", "--tail", "1", box).split()
        return int(lines[-1]) if lines else 0


class Engine(Kvm):
    def test_hardware_is_found_used_and_told(self):
        info = json.loads(self.output("info", "--format", "json"))
        self.assertEqual((info["engine"], info["isolation"]), ("kvm", "hardware"))
        self.assertNotIn("engineReason", info)
        result = self.check("run", "--isolation", "hardware", "--cpus", "2", "base", "sh", "-c", "nproc; uname -r")
        processors, kernel = result.out.decode().split()
        self.assertEqual(processors, "2")
        self.assertTrue(kernel.endswith("-boxlite"), kernel)
        self.assertNotIn(b"uml", result.err)

    def test_streams_codes_and_signals(self):
        self.assertEqual(self.home.run("run", "--rm", "base", "sh", "-c", "exit 7").code, 7)
        data = os.urandom(3 << 20)
        self.start("cat", script="sleep 1000")
        self.assertEqual(self.check("exec", "-i", "cat", "cat", stdin=data).out, data)
        self.assertEqual(self.home.run("exec", "cat", "sh", "-c", "kill -9 $$").code, 137)

    def test_files_outlive_a_killed_supervisor(self):
        self.start("box", script="sleep 1000")
        self.shell("box", "echo kept > /srv/file; sync")
        kill(self.home.inspect("box")["State"]["Pid"])
        wait_until(lambda: self.home.inspect("box")["State"]["Status"] == "stopped", "the box is stopped")
        self.check("start", "box")
        self.assertEqual(self.shell("box", "cat /srv/file"), "kept")


class Fork(Kvm):
    def test_children_go_on_apart_from_each_other(self):
        self.start("parent")
        self.shell("parent", "echo of-the-parent > /srv/file; echo in-memory > /dev/shm/file; "
                             "echo 0123456789abcdef0123456789abcdef > /etc/machine-id")
        wait_until(lambda: self.count("parent") > 5, "the parent counts")
        children = self.output("fork", "parent", "-n", "3", "--name", "child").split()
        self.assertEqual(len(set(children)), 3)
        for index, child in enumerate(children):
            self.assertEqual(self.home.inspect(child)["Name"], f"child-{index + 1}")
            wait_until(lambda: self.count(child) > 5, "the child goes on counting")
            self.assertEqual(self.shell(child, "cat /srv/file /dev/shm/file"), "of-the-parent\nin-memory")
            self.shell(child, f"echo {child} > /srv/file; echo {child} > /dev/shm/file")
        for child in children:
            self.assertEqual(self.shell(child, "cat /srv/file /dev/shm/file"), f"{child}\n{child}")
        self.assertEqual(self.shell("parent", "cat /srv/file /dev/shm/file"), "of-the-parent\nin-memory")

        # What belongs to one machine alone.
        everybody = [*children, self.home.inspect("parent")["Id"]]
        for what in ("hostname", "cat /etc/hostname", "cat /etc/machine-id", "head -c 16 /dev/urandom | od -An -tx1"):
            self.assertEqual(len({self.shell(box, what) for box in everybody}), len(everybody), what)
        for box in everybody:
            self.assertAlmostEqual(int(self.shell(box, "date +%s")), time.time(), delta=10)

        # None needs another one.
        self.check("rm", "-f", "parent")
        kill(self.home.inspect(children[0])["State"]["Pid"])
        for child in children[1:]:
            self.assertEqual(self.shell(child, "cat /srv/file"), child)
        grandchild = self.output("fork", children[1]).strip()
        self.assertEqual(self.shell(grandchild, "cat /srv/file /dev/shm/file"), f"{children[1]}\n{children[1]}")
        self.check("stop", "-t", "0", grandchild)
        self.check("start", grandchild)
        self.assertEqual(self.shell(grandchild, "cat /srv/file"), children[1])

    def test_memory_is_counted_once(self):
        self.start("parent", script="head -c 50000000 /dev/zero > /dev/shm/ballast; sleep 1000")
        wait_until(lambda: self.shell("parent", "stat -c %s /dev/shm/ballast") == "50000000", "the ballast is there")
        for child in self.output("fork", "parent", "-n", "4").split():
            self.assertEqual(self.shell(child, "stat -c %s /dev/shm/ballast"), "50000000")
            with open(f"/proc/{self.home.inspect(child)['State']['Pid']}/smaps_rollup") as lines:
                private = sum(int(line.split()[1]) for line in lines if line.startswith("Private_Dirty"))
            self.assertLess(private, 40_000, "a child has the parent's memory to itself")

    def test_an_exec_session_of_the_parent_is_none_of_the_child(self):
        self.start("parent")
        with self.home.popen("exec", "-i", "parent", "cat", stdin=-1, stdout=-1) as session:
            session.stdin.write(b"before\n")
            session.stdin.flush()
            self.assertEqual(session.stdout.readline(), b"before\n")
            child = self.output("fork", "parent").strip()
            session.stdin.write(b"after\n")
            session.stdin.flush()
            self.assertEqual(session.stdout.readline(), b"after\n")
            wait_until(lambda: "cat" not in self.shell(child, "ps -o comm").split(), "the child's cat has ended")
            session.stdin.close()
            self.assertEqual(session.wait(30), 0)

    def test_what_cannot_be_forked_says_so(self):
        self.check("create", "--name", "box", "base")
        self.assertIn(b"not running", self.check("fork", "box", code=1).err)
        self.assertIn(b"256", self.check("fork", "box", "-n", "257", code=2).err)
        self.assertEqual(len(self.output("list", "-a", "-q").split()), 1)


class Snapshots(Kvm):
    def test_memory_goes_on_where_it_was(self):
        self.start("box")
        self.shell("box", "echo then > /srv/file; echo then > /dev/shm/file")
        wait_until(lambda: self.count("box") > 5, "the box counts")
        self.check("snapshot", "create", "box", "point", "--memory")
        then = self.count("box")
        self.shell("box", "echo later > /srv/file; echo later > /dev/shm/file")
        wait_until(lambda: self.count("box") > then + 20, "the box counts on")
        self.assertIn(b"running", self.check("snapshot", "restore", "box", "point", "--memory", code=1).err)
        self.check("snapshot", "restore", "--force", "box", "point", "--memory")
        self.assertEqual(self.shell("box", "cat /srv/file /dev/shm/file"), "then\nthen")
        wait_until(lambda: self.count("box") > then, "the box counts again")

        other = self.output("snapshot", "restore", "box", "point", "--memory", "--name", "other").strip()
        self.assertEqual(self.shell(other, "cat /srv/file /dev/shm/file; hostname"), f"then\nthen\n{other}")
        self.check("rm", "-f", "box")
        self.assertEqual(self.shell(other, "cat /srv/file"), "then")

    def test_a_damaged_memory_is_refused_and_nothing_is_lost(self):
        self.start("box")
        self.check("snapshot", "create", "box", "point", "--memory")
        self.check("stop", "-t", "0", "box")
        memory = os.path.join(self.home.inspect("box")["Folder"], "snapshots", "point", "memory")
        with open(memory, "r+b") as file:
            file.seek(1 << 20)
            file.write(b"damage")
        self.assertIn(b"damaged", self.check("snapshot", "restore", "box", "point", "--memory", code=1).err)
        self.check("snapshot", "restore", "box", "point")
        self.check("start", "box")


if __name__ == "__main__":
    unittest.main()
