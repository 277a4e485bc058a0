"""Snapshots of disks and paused boxes, on any engine; what needs memory is refused with the reason on uml."""
import glob
import json
import os
import subprocess
import unittest

from boxtest import BoxTest, wait_until


class Snapshots(BoxTest):
    def shell(self, box, script):
        return self.output("exec", box, "sh", "-c", script).strip()

    def disks(self):
        return glob.glob(os.path.join(self.home.path, "boxes", "*", "disk.qcow2")) + glob.glob(
            os.path.join(self.home.path, "bases", "layers", "*"))

    def test_a_box_goes_back_to_what_it_was(self):
        self.check("create", "--name", "box", "base")
        self.shell("box", "echo one > /srv/file; head -c 3000000 /dev/urandom > /srv/large")
        large = self.shell("box", "sha256sum /srv/large")
        self.check("snapshot", "create", "box", "running")
        self.shell("box", "echo two > /srv/file; rm /srv/large")
        self.check("stop", "-t", "1", "box")
        self.check("snapshot", "create", "box", "stopped")
        self.check("start", "box")
        self.shell("box", "echo three > /srv/file")

        self.assertIn(b"running", self.check("snapshot", "restore", "box", "running", code=1).err)
        self.check("snapshot", "restore", "--force", "box", "running")
        self.assertEqual(self.shell("box", "cat /srv/file; sha256sum /srv/large"), f"one\n{large}")
        self.check("snapshot", "restore", "--force", "box", "stopped")
        self.assertEqual(self.shell("box", "cat /srv/file; ls /srv/large 2>&1 || true").splitlines()[0], "two")

        other = self.output("snapshot", "restore", "box", "running", "--name", "other").strip()
        self.assertEqual(self.shell("other", "cat /srv/file; hostname"), f"one\n{other}")
        self.shell("other", "echo its-own > /srv/file")
        self.check("rm", "-f", "box")
        self.assertEqual(self.shell("other", "cat /srv/file"), "its-own")
        self.check("stop", "-t", "1", "other")
        for disk in self.disks():
            subprocess.run(["qemu-img", "check", "-q", disk], check=True)
        raw = os.path.join(self.home.path, "whole")
        subprocess.run(["qemu-img", "convert", "-O", "raw", os.path.join(self.home.inspect("other")["Folder"], "disk.qcow2"),
                        raw], check=True)
        subprocess.run(["e2fsck", "-fn", raw], check=True, capture_output=True)

    def test_nothing_stays_of_what_nobody_needs(self):
        self.check("create", "--name", "box", "base")
        for name in ("first", "second", "third"):
            self.check("snapshot", "create", "box", name)
        listed = self.output("snapshot", "ls", "box", "--format", "{{.Name}} {{.Memory}}")
        self.assertEqual(listed.split(), ["first", "false", "second", "false", "third", "false"])
        self.check("snapshot", "rm", "box", "third")
        # The disk stands on the third and that on the others.
        self.assertEqual(len(self.disks()), 1 + 3)
        self.check("rm", "-f", "box")
        self.assertEqual(self.disks(), [])

    def test_however_many_there_are_a_disk_stands_on_few(self):
        self.check("create", "--name", "box", "base")
        for number in range(36):
            self.shell("box", f"echo {number} > /srv/number; head -c 100000 /dev/urandom > /srv/file-{number}")
            if number == 20:
                self.check("stop", "-t", "1", "box")  # one in a row of its own kind
            self.check("snapshot", "create", "box", f"number-{number}")
        sums = self.shell("box", "sha256sum /srv/file-*; sync")
        self.check("stop", "-t", "1", "box")
        disk = os.path.join(self.home.inspect("box")["Folder"], "disk.qcow2")
        chain = json.loads(subprocess.run(["qemu-img", "info", "--backing-chain", "--output=json", disk], check=True,
                                          capture_output=True).stdout)
        self.assertLess(len(chain), 16)
        for path in self.disks():
            subprocess.run(["qemu-img", "check", "-q", path], check=True)
        self.assertEqual(self.shell("box", "sha256sum /srv/file-*"), sums)
        for number in (3, 13, 20, 35):
            self.check("snapshot", "restore", "--force", "box", f"number-{number}")
            self.assertEqual(self.shell("box", "cat /srv/number; ls /srv | grep -c file").split(), [str(number), str(number + 1)])
            self.assertEqual(self.shell("box", "sha256sum /srv/file-*").splitlines(),
                             [line for line in sums.splitlines() if int(line.rpartition("-")[2]) <= number])

    def test_refusals(self):
        self.check("create", "--name", "box", "base")
        self.check("snapshot", "create", "box", "point")
        for args, code, words in (
            (("create", "box", "point"), 1, b"point"),
            (("create", "box", "../evil"), 2, b"../evil"),
            (("create", "no-such-box", "point"), 1, b"no-such-box"),
            (("create", "box", "memory", "--memory"), 1, b"not running"),
            (("restore", "box", "none"), 1, b"none"),
            (("restore", "box", "point", "--memory"), 2, b"no memory"),
            (("rm", "box", "none"), 1, b"none"),
            (("burn", "box"), 2, b"burn"),
            (("create", "box"), 2, b"name of a snapshot"),
        ):
            result = self.check("snapshot", *args, code=code)
            self.assertIn(words, result.err, args)

    def test_a_damaged_record_is_refused_and_can_be_removed(self):
        self.check("create", "--name", "box", "base")
        self.check("snapshot", "create", "box", "before")
        self.check("snapshot", "create", "box", "point")
        self.check("snapshot", "restore", "box", "before")  # so that nothing else stands on the other's layer
        record = os.path.join(self.home.inspect("box")["Folder"], "snapshots", "point", "snapshot.json")
        with open(record, "w") as out:
            out.write('{"format": 1')
        self.assertIn(b"damaged", self.check("snapshot", "restore", "box", "point", code=1).err)
        with open(record, "w") as out:
            out.write('{"format": 4}')
        self.assertIn(b"format 4", self.check("snapshot", "restore", "box", "point", code=1).err)
        # What a newer release may need stays, whatever is collected meanwhile.
        self.check("run", "--rm", "base", "true")
        self.assertEqual(len(self.disks()), 1 + 2)
        self.check("snapshot", "rm", "box", "point")
        self.assertEqual(self.output("snapshot", "ls", "box", "--format", "{{.Name}}"), "before\n")
        self.assertEqual(len(self.disks()), 1 + 1)

    def test_memory_and_forks_need_the_kvm_engine(self):
        self.check("run", "-d", "--engine", "uml", "--name", "box", "base", "sleep", "600")
        for args in (("fork", "box"), ("snapshot", "create", "box", "point", "--memory")):
            self.assertIn(b"use the kvm engine", self.check(*args, code=1).err)
        self.assertIn(b"stop it first", self.check("update", "--memory", "256", "box", code=1).err)
        self.assertIn(b"kvm engine", self.check("create", "--engine", "uml", "--huge-pages", "base", code=1).err)
        # It goes on as if nobody had asked.
        self.assertEqual(self.shell("box", "echo here > /srv/file; sync; cat /srv/file"), "here")
        self.assertEqual(self.output("snapshot", "ls", "box", "--format", "{{.Name}}"), "")
        self.assertEqual(self.home.inspect("box")["Memory"], 1 << 30)
        self.check("stop", "-t", "0", "box")
        self.check("update", "--memory", "256", "box")
        self.check("start", "box")
        self.assertLess(int(self.shell("box", "grep MemTotal /proc/meminfo").split()[1]), 256 << 10)


class Pause(BoxTest):
    def count(self):
        lines = self.output("logs", "--tail", "1", "box").split()
        return int(lines[-1]) if lines else 0

    def test_a_paused_box_stands_still(self):
        self.check("run", "-d", "--name", "box", "base", "sh", "-c",
                   "i=0; while :; do i=$((i+1)); echo $i; sleep 0.02; done")
        wait_until(lambda: self.count() > 3, "the box counts")
        self.check("pause", "box")
        self.check("pause", "box")
        before = self.count()
        self.assertIn(b"paused", self.check("exec", "box", "true", code=125).err)
        self.assertEqual(self.home.inspect("box")["Status"], "paused")
        self.assertIn("Paused", self.output("list"))
        self.assertLessEqual(self.count(), before + 1)
        self.check("unpause", "box")
        wait_until(lambda: self.count() > before + 1, "the box counts again")
        self.check("pause", "box")
        self.check("stop", "-t", "1", "box")
        self.assertIn(b"not running", self.check("pause", "box", code=1).err)

    def test_where_it_cannot_be_done_it_is_refused(self):
        self.check("run", "-d", "--engine", "uml", "--security", "strict", "--name", "box", "base", "sleep", "600")
        self.assertIn(b"strict", self.check("pause", "box", code=1).err)
        self.check("exec", "box", "true")


if __name__ == "__main__":
    unittest.main()
