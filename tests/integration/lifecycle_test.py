"""Boxes persist: stop, start, a creator that ends, several clients on one home."""
import os
import subprocess
import threading
import unittest

from boxtest import BoxTest, alive, wait_until


class Lifecycle(BoxTest):
    def create(self, *args):
        self.check("create", "--name", "box", *args, "base")

    def test_files_survive_stop_and_start(self):
        self.create()
        self.check("exec", "box", "sh", "-c", "echo kept > /srv/file; mkdir /srv/dir")
        self.check("stop", "box")
        self.assertEqual(self.home.inspect("box")["State"]["Status"], "stopped")
        self.assertEqual(self.output("exec", "box", "cat", "/srv/file"), "kept\n")
        self.check("restart", "box")
        self.assertEqual(self.output("exec", "box", "cat", "/srv/file"), "kept\n")

    def test_a_detached_box_outlives_its_creator_and_others_do_not(self):
        self.check("run", "-d", "--name", "kept", "base", "sleep", "3600")
        self.assertTrue(self.home.inspect("kept")["State"]["Running"])
        process = self.home.popen("run", "--name", "tied", "base", "sleep", "3600", stdout=subprocess.DEVNULL)
        wait_until(lambda: self.home.run("exec", "tied", "true").code == 0, "the box runs")
        shim = self.home.inspect("tied")["State"]["Pid"]
        process.kill()
        process.wait()
        wait_until(lambda: not alive(shim), "the box ends with its creator")
        self.assertFalse(self.home.inspect("tied")["State"]["Running"])
        self.assertTrue(self.home.inspect("kept")["State"]["Running"])

    def test_two_processes_use_one_home_at_once(self):
        self.create()
        failures = []

        def work(number):
            for step in range(5):
                result = self.home.run("exec", "box", "echo", f"{number}-{step}")
                if result.code or result.out.decode() != f"{number}-{step}\n":
                    failures.append(result)
                result = self.home.run("run", "--rm", "base", "echo", f"{number}+{step}")
                if result.code or result.out.decode() != f"{number}+{step}\n":
                    failures.append(result)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])

    def test_logs_wait_and_attach(self):
        self.check("run", "-d", "--name", "box", "base", "sh", "-c", "echo one; echo two >&2; exit 7")
        self.assertEqual(self.output("wait", "box"), "7\n")
        result = self.check("logs", "box")
        self.assertEqual((result.out, result.err), (b"one\n", b"two\n"))
        self.assertEqual(self.home.inspect("box")["State"]["ExitCode"], 7)

    def test_cp_both_ways(self):
        self.create()
        source = os.path.join(self.home.path, "tree")
        os.makedirs(os.path.join(source, "sub"))
        data = os.urandom(3 << 20)
        with open(os.path.join(source, "sub", "file"), "wb") as out:
            out.write(data)
        os.symlink("sub/file", os.path.join(source, "link"))
        self.check("cp", source, "box:/srv/copy")
        back = os.path.join(self.home.path, "back")
        self.check("cp", "box:/srv/copy", back)
        with open(os.path.join(back, "sub", "file"), "rb") as copied:
            self.assertEqual(copied.read(), data)
        self.assertEqual(os.readlink(os.path.join(back, "link")), "sub/file")

    def test_nothing_is_left_behind(self):
        for _ in range(int(os.environ.get("BOXLITE_TEST_CYCLES", "20"))):
            self.assertEqual(self.output("run", "--rm", "base", "echo", "x"), "x\n")
        wait_until(lambda: not self.home.traces(), "a host as it was")


if __name__ == "__main__":
    unittest.main()
