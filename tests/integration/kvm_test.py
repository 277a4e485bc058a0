"""Boxes of the kvm engine: engine and isolation as told, fork, snapshots with memory. Needs a /dev/kvm
that works; tests/nested-kvm/run gives one.
"""
import concurrent.futures
import glob
import json
import os
import re
import socket
import time
import unittest

import boxtest
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

    def test_four_processors(self):
        self.start("box", "--cpus", "4", script="sleep 1000")
        self.assertEqual(self.shell("box", "nproc"), "4")
        busy = "for i in 1 2 3 4; do (n=0; while [ $n -lt 20000 ]; do n=$((n+1)); done; echo $n) & done; wait"
        self.assertEqual(self.shell("box", busy).split(), ["20000"] * 4)

    def test_many_programs_and_streams_at_once(self):
        self.start("box", script="sleep 1000")
        data = os.urandom(1 << 20)

        def stream(_):
            return self.check("exec", "-i", "box", "cat", stdin=data).out == data

        def program(number):
            return self.shell("box", f"echo {number}") == str(number)

        with concurrent.futures.ThreadPoolExecutor(12) as threads:
            outcomes = [*threads.map(stream, range(8)), *threads.map(program, range(60))]
        self.assertTrue(all(outcomes))

    def test_files_outlive_a_killed_supervisor(self):
        self.start("box", script="sleep 1000")
        self.shell("box", "echo kept > /srv/file; sync")
        kill(self.home.inspect("box")["State"]["Pid"])
        wait_until(lambda: self.home.inspect("box")["State"]["Status"] == "stopped", "the box is stopped")
        self.check("start", "box")
        self.assertEqual(self.shell("box", "cat /srv/file"), "kept")


class Templates(Kvm):
    """The first box of a size boots; later ones go on from a machine that has."""

    def templates(self):
        folder = os.path.join(self.home.path, "cache", "templates")
        return [name for name in os.listdir(folder) if not name.startswith(".")] if os.path.isdir(folder) else []

    def begin(self, name, *flags):
        self.start(name, *flags, script="sleep 1000")

    def started_from(self, box):
        return self.home.inspect(box)["StartedFrom"]

    def test_a_new_box_goes_on_from_a_booted_machine(self):
        self.begin("first")
        self.assertEqual(self.started_from("first"), "boot")
        wait_until(self.templates, "there is a template", 60)
        self.begin("second", "--disk-size", "3")
        self.begin("third", "--hostname", "a-host")
        self.begin("other-size", "--cpus", "2")
        boxes = ("first", "second", "third", "other-size")
        self.assertEqual([self.started_from(box) for box in boxes], ["boot", "template", "template", "boot"])
        self.assertEqual(self.shell("third", "hostname"), "a-host")
        random = {self.shell(box, "head -c 16 /dev/urandom | od -An -tx1") for box in boxes}
        self.assertEqual(len(random), len(boxes))
        for box in boxes:
            self.assertAlmostEqual(int(self.shell(box, "date +%s")), time.time(), delta=10)
            self.assertEqual(self.shell(box, "echo its-own > /srv/file; cat /srv/file"), "its-own")

        # The disk is the box's own, as large as it was asked for, in the machine's eyes too.
        blocks = int(self.shell("second", "df -k / | tail -n 1").split()[1])
        self.assertAlmostEqual(blocks / (3 << 20), 1, delta=0.1)
        wait_until(lambda: self.shell("second", "cat /sys/block/vda/size") == str((3 << 30) // 512), "the disk's size is known")
        # What it writes is its own, and can be forked and kept like any other box's.
        child = self.output("fork", "second").strip()
        self.assertEqual(self.shell(child, "cat /srv/file"), "its-own")
        self.check("snapshot", "create", "second", "point", "--memory")
        self.check("snapshot", "restore", "--force", "second", "point", "--memory")
        self.assertEqual(self.started_from("second"), "snapshot")
        self.check("restart", "-t", "0", "second")
        self.assertEqual((self.started_from("second"), self.shell("second", "cat /srv/file")), ("template", "its-own"))

    def test_a_useless_template_keeps_no_box_from_starting(self):
        self.begin("first")
        wait_until(self.templates, "there is a template", 60)
        folder = os.path.join(self.home.path, "cache", "templates", *self.templates())
        for content in (b"", b"no machine", os.urandom(5000)):
            os.chmod(os.path.join(folder, "state"), 0o600)
            with open(os.path.join(folder, "state"), "wb") as state:
                state.write(content)
            self.begin("box")
            self.assertEqual(self.started_from("box"), "boot")
            self.check("rm", "-f", "box")


class Memory(Kvm):
    def resident(self, box):
        """MiB of the host that the supervisor has, the guest's memory with it."""
        with open(f"/proc/{self.home.inspect(box)['State']['Pid']}/smaps_rollup") as lines:
            return sum(int(line.split()[1]) for line in lines if line.startswith("Rss:")) >> 10

    def available(self, box):
        return int(self.shell(box, "grep MemAvailable /proc/meminfo").split()[1]) >> 10

    def test_what_the_guest_frees_goes_back_to_the_host(self):
        self.check("run", "-d", "--name", "box", "--memory", "256", "base", "sleep", "1000")
        before = self.resident("box")
        self.shell("box", "head -c 60000000 /dev/zero > /dev/shm/ballast")
        full = self.resident("box")
        self.assertGreater(full, before + 50)
        self.shell("box", "rm /dev/shm/ballast")
        wait_until(lambda: self.resident("box") < full - 40, "the memory goes back")
        self.assertEqual(self.shell("box", "head -c 100000000 /dev/zero | wc -c"), "100000000")

    def test_huge_pages_or_the_reason_why_not(self):
        setting = "/sys/kernel/mm/transparent_hugepage/shmem_enabled"
        with open(setting) as file:
            before = re.search(r"\[(\w+)\]", file.read())[1]

        def allow(value):
            with open(setting, "w") as file:
                file.write(value)

        self.addCleanup(allow, before)
        allow("never")
        self.assertIn(b"shmem_enabled", self.check("run", "--huge-pages", "base", "true", code=125).err)
        allow("advise")
        self.check("run", "-d", "--name", "box", "--memory", "128", "--huge-pages", "base", "sleep", "1000")
        self.shell("box", "head -c 30000000 /dev/zero > /dev/shm/ballast")
        with open(f"/proc/{self.home.inspect('box')['State']['Pid']}/smaps") as lines:
            huge = sum(int(line.split()[1]) for line in lines if line.startswith("ShmemPmdMapped:"))
        self.assertGreaterEqual(huge, 20 << 10)

    def test_a_running_box_is_made_smaller_and_larger(self):
        self.check("run", "-d", "--name", "box", "--memory", "256", "base", "sleep", "1000")
        large = self.available("box")
        self.check("update", "--memory", "128", "box")
        wait_until(lambda: self.available("box") < large - 110, "the guest gives memory up")
        self.assertEqual(self.home.inspect("box")["Memory"], 128 << 20)
        # A child has what its parent had, and can have the rest back.
        child = self.output("fork", "box").strip()
        self.assertLess(self.available(child), large - 110)
        for box in ("box", child):
            self.check("update", "--memory", "256", box)
            wait_until(lambda: self.available(box) > large - 40, "the guest has it back")
        self.assertIn(b"256 MiB", self.check("update", "--memory", "257", "box", code=1).err)
        self.assertIn(b"too few", self.check("update", "--memory", "8", "box", code=1).err)
        self.assertEqual(self.home.inspect("box")["Memory"], 256 << 20)
        self.check("stop", "-t", "0", "box")
        self.check("update", "--memory", "300", "box")
        self.check("start", "box")
        self.assertGreater(self.available("box"), large + 30)


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
        for what in ("hostname", "cat /etc/hostname", "cat /etc/machine-id", "head -c 16 /dev/urandom | od -An -tx1",
                     "cat /sys/class/net/eth0/address"):
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

    def test_twenty_children_in_one_call(self):
        self.start("parent", "--network", "none", script="sleep 1000")
        children = self.output("fork", "parent", "-n", "20").split()
        self.assertEqual(len(set(children)), 20)
        running = self.output("list", "--format", "{{.Id}}").split()
        self.assertEqual(set(running), {*children, self.home.inspect("parent")["Id"]})
        asked = children[::5]
        self.assertEqual([self.shell(child, "hostname") for child in asked], asked)

    def test_a_connection_of_the_parent_stays_with_it(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            self.start("parent", "--allow-net", f"host.boxlite.internal:{port}",
                       script=f"{COUNTER} | nc host.boxlite.internal {port}; echo over; sleep 1000")
            server.settimeout(60)
            with server.accept()[0] as connection:
                received = connection.recv(1000)
                child = self.output("fork", "parent").strip()
                wait_until(lambda: "over" in self.output("logs", child), "the child's connection has ended")
                connection.settimeout(60)
                while received.count(b"\n") < 200:
                    received += connection.recv(1000)
            numbers = [int(line) for line in received.split(b"\n")[:-1]]
            self.assertEqual(numbers, list(range(1, len(numbers) + 1)))
            server.settimeout(0)
            with self.assertRaises(BlockingIOError):
                server.accept()

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
        secret = os.urandom(16).hex()
        self.start("box", "--secret", f"KEY@api.example.com={secret}")
        self.shell("box", "echo then > /srv/file; echo then > /dev/shm/file")
        wait_until(lambda: self.count("box") > 5, "the box counts")
        self.check("snapshot", "create", "box", "point", "--memory")
        self.assertTrue(glob.glob(self.home.path + "/**/memory.*", recursive=True))
        self.assertEqual(boxtest.files_with(self.home.path, secret.encode())[0], [])
        then = self.count("box")
        self.shell("box", "echo later > /srv/file; echo later > /dev/shm/file")
        wait_until(lambda: self.count("box") > then + 20, "the box counts on")
        self.assertIn(b"running", self.check("snapshot", "restore", "box", "point", "--memory", code=1).err)
        self.check("snapshot", "restore", "--force", "box", "point", "--memory")
        self.assertEqual(self.shell("box", "cat /srv/file /dev/shm/file"), "then\nthen")
        wait_until(lambda: self.count("box") > then, "the box counts again")

        other = self.output("snapshot", "restore", "box", "point", "--memory", "--name", "other").strip()
        self.assertEqual(self.shell(other, "cat /srv/file /dev/shm/file; hostname"), f"then\nthen\n{other}")
        self.assertEqual(self.shell(other, "echo $BOXLITE_SECRET_KEY"), "<BOXLITE_SECRET:KEY>")
        self.check("update", "--secret", "KEY=another", other)
        self.check("rm", "-f", "box")
        self.assertEqual(self.shell(other, "cat /srv/file"), "then")

    def test_later_snapshots_keep_what_was_written_since(self):
        self.start("box")
        folder = os.path.join(self.home.inspect("box")["Folder"], "snapshots")

        def stored():
            """Of every file of memory once, in MiB."""
            files = {status.st_ino: status.st_blocks for status in map(os.stat, glob.glob(f"{folder}/*/memory.*"))}
            return sum(files.values()) >> 11

        self.check("snapshot", "create", "box", "first", "--memory")
        whole = stored()
        self.shell("box", "echo second > /dev/shm/file")
        self.check("snapshot", "create", "box", "second", "--memory")
        self.shell("box", "echo third > /dev/shm/file")
        self.check("snapshot", "create", "box", "third", "--memory")
        self.assertLess(stored() - whole, whole)
        self.check("snapshot", "rm", "box", "first")
        for name in ("second", "third"):
            self.check("snapshot", "restore", "--force", "box", name, "--memory")
            self.assertEqual(self.shell("box", "cat /dev/shm/file"), name)
        # What a restored machine writes comes on top of what it was restored from.
        self.shell("box", "echo fourth > /dev/shm/file")
        before = stored()
        self.check("snapshot", "create", "box", "fourth", "--memory")
        self.assertLess(stored() - before, whole)
        self.check("snapshot", "rm", "box", "third")
        self.check("snapshot", "restore", "--force", "box", "fourth", "--memory")
        self.assertEqual(self.shell("box", "cat /dev/shm/file"), "fourth")

    def test_a_damaged_memory_is_refused_and_nothing_is_lost(self):
        self.start("box")
        self.check("snapshot", "create", "box", "point", "--memory")
        self.check("stop", "-t", "0", "box")
        folder = os.path.join(self.home.inspect("box")["Folder"], "snapshots", "point")
        with open(os.path.join(folder, "snapshot.json"), "r+") as file:
            record = json.load(file)
            for number in (2, record["format"]):
                file.seek(0)
                json.dump({**record, "format": number}, file)
                file.truncate()
                file.flush()
                if number == 2:
                    refused = self.check("snapshot", "restore", "box", "point", "--memory", code=1)
                    self.assertIn(b"earlier release", refused.err)
        with open(os.path.join(folder, "memory.0"), "r+b") as file:
            file.seek(1 << 20)
            file.write(b"damage")  # after its checksum was made and noted as right
        self.assertIn(b"damaged", self.check("snapshot", "restore", "box", "point", "--memory", code=1).err)
        self.check("snapshot", "restore", "box", "point")
        self.check("start", "box")


if __name__ == "__main__":
    unittest.main()
