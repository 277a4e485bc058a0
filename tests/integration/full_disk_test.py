"""A host disk that is full: told as such, nothing hangs, nothing is half there, and all works again once there is room.

The homes are file systems of a few megabytes, mounted in a mount namespace of this process.
"""
import ctypes
import errno
import os
import shutil
import subprocess
import tempfile
import unittest

import boxtest
from boxtest import BoxTest, Home, check_disk

CLONE_NEWNS = 0x00020000


def setUpModule():
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)


class FullDisk(BoxTest):
    def setUp(self):
        self.home = Home()
        self.addCleanup(shutil.rmtree, self.home.path)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200m", "boxlite-test", self.home.path], check=True)
        self.addCleanup(subprocess.run, ["umount", "--lazy", self.home.path], check=True)
        self.addCleanup(self.home.close)

    def resize(self, size):
        subprocess.run(["mount", "-o", f"remount,size={size}", self.home.path], check=True)

    def fill(self):
        with open(os.path.join(self.home.path, "ballast"), "ab", buffering=0) as ballast:
            while True:
                try:
                    ballast.write(bytes(4096))
                except OSError as error:
                    self.assertEqual(error.errno, errno.ENOSPC)
                    return

    def make_room(self):
        os.remove(os.path.join(self.home.path, "ballast"))

    def fails_for_space(self, *args, code):
        error = self.check(*args, code=code, timeout=60).err.decode()
        self.assertRegex(error, "No space left on device|disk is full")
        self.assertIn("make room", error)
        self.assertIn(self.home.path, error)

    def registry_image(self, content):
        registry = boxtest.Registry()
        self.addCleanup(registry.close)
        return registry.push(boxtest.image_of_file(type(self), content), "data:1")

    def test_while_an_image_is_pulled(self):
        reference = self.registry_image(os.urandom(24 << 20))
        self.resize("16m")
        self.fails_for_space("pull", reference, code=1)
        self.assertEqual(self.output("images", "-q"), "")
        self.fails_for_space("run", reference, "/content", code=125)
        self.resize("200m")
        self.check("pull", reference)

    def test_while_a_base_is_built(self):
        reference = self.registry_image(b"well compressible " * (2 << 20))
        self.resize("16m")
        self.fails_for_space("pull", reference, code=1)
        bases = os.path.join(self.home.path, "bases")
        self.assertEqual([name for name in os.listdir(bases) if name.endswith(".ext4")], [])
        self.resize("200m")
        self.check("pull", reference)

    def test_while_a_box_writes(self):
        self.check("create", "--name", "box", "base")
        self.check("exec", "box", "sh", "-c", "echo kept > /srv/kept; sync")
        self.fill()
        wrote = self.home.run("exec", "box", "dd", "if=/dev/urandom", "of=/srv/new", "bs=1M", "count=100", "conv=fsync", timeout=60)
        self.assertEqual(wrote.code, 1, wrote)
        self.assertRegex(wrote.err.decode(), "Input/output error|Read-only|No space")
        self.assertEqual(self.output("exec", "box", "cat", "/srv/kept"), "kept\n")
        self.assertTrue(self.home.inspect("box")["State"]["Running"])
        self.check("stop", "box", timeout=60)
        state = self.home.inspect("box")["State"]
        self.assertEqual((state["Status"], state["Reason"]), ("stopped", "stopped on request"))
        self.assertRegex(self.output("list", "-a"), "box .*Exited")
        # What the last run kept for its end is room enough for the next one, unless somebody takes that too.
        os.remove(os.path.join(self.home.inspect("box")["Folder"], "exit.json"))
        self.fill()
        self.fails_for_space("exec", "box", "true", code=125)
        self.fails_for_space("create", "base", code=1)
        self.make_room()
        self.assertEqual(self.output("exec", "box", "cat", "/srv/kept"), "kept\n")
        self.check("exec", "box", "dd", "if=/dev/urandom", "of=/srv/new", "bs=1M", "count=1", "conv=fsync")
        self.check("stop", "box")
        check_disk(self.home, "box")

    def test_what_fills_the_disk_can_be_removed(self):
        self.check("create", "--name", "stopped", "base")
        self.check("run", "-d", "--name", "running", "base", "sleep", "600")
        self.fill()
        self.check("rm", "-f", "running", "stopped")
        self.assertEqual(self.output("list", "-aq"), "")
        self.assertEqual(self.home.traces(), set())

    def test_output_that_cannot_be_kept_is_missed_aloud(self):
        program = self.home.popen("run", "-i", "--name", "box", "base", "sh", "-c", "echo ready; read line; seq 1000000; exit 3",
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(program.kill)
        self.assertEqual(program.stdout.readline(), b"ready\n")
        self.fill()
        out, error = program.communicate(b"go\n", timeout=60)
        self.assertEqual(program.returncode, 125, error)
        self.assertRegex(error.decode(), "output.*No space left on device.*make room")
        self.assertTrue(b"".join(b"%d\n" % n for n in range(1, 1000001)).startswith(out), "what came is exact")
        self.assertEqual(self.home.inspect("box")["State"]["ExitCode"], 3)


if __name__ == "__main__":
    unittest.main()
