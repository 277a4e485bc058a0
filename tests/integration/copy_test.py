"""`boxlite cp`: Docker's rules for where things go, and a box that tries to reach the host through it."""
import os
import stat
import subprocess
import unittest

from boxtest import BoxTest, wait_until


class Copy(BoxTest):
    def setUp(self):
        super().setUp()
        self.check("create", "--name", "box", "base")
        self.work = os.path.join(self.home.path, "work")
        os.makedirs(os.path.join(self.work, "tree", "sub"))
        self.write("tree/a", b"a")
        self.write("tree/sub/b", b"b")
        self.write("file", b"content")

    def path(self, name):
        return os.path.join(self.work, name)

    def write(self, name, content):
        with open(self.path(name), "wb") as out:
            out.write(content)

    def read(self, name):
        with open(self.path(name), "rb") as source:
            return source.read()

    def shell(self, script, **options):
        return self.output("exec", "box", "sh", "-c", script, **options)

    def test_where_a_file_goes(self):
        self.shell("mkdir /d; echo old > /old")
        for target, found in [("/d", "/d/file"), ("/d/", "/d/file"), ("/d/new", "/d/new"), ("/old", "/old"), ("/made/up/x", "/made/up/x")]:
            self.check("cp", self.path("file"), f"box:{target}")
            self.assertEqual(self.shell(f"cat {found}"), "content", target)
        self.assertIn(b"no directory", self.check("cp", self.path("file"), "box:/none/", code=1).err)
        self.assertIn(b"directory", self.check("cp", self.path("file"), "box:/old/", code=1).err)

    def test_where_a_folder_goes(self):
        self.shell("mkdir /d")
        for args, found in [((self.path("tree"), "box:/d"), "/d/tree/sub/b"), ((self.path("tree"), "box:/new"), "/new/sub/b"),
                            ((self.path("tree") + "/.", "box:/d"), "/d/sub/b"),
                            (("--no-include-parent", self.path("tree"), "box:/new"), "/new/a")]:
            self.check("cp", *args)
            self.shell(f"test -f {found}")
        self.shell("echo x > /plain")
        self.check("cp", self.path("tree"), "box:/plain", code=1)
        os.mkdir(self.path("out"))
        for args, found in [(("box:/d", self.path("out")), "out/d/tree/sub/b"), (("box:/d", self.path("fresh")), "fresh/tree/a"),
                            (("box:/d/.", self.path("out")), "out/sub/b"), (("box:/plain", self.path("out")), "out/plain"),
                            (("box:/plain", self.path("renamed")), "renamed")]:
            self.check("cp", *args)
            self.assertTrue(os.path.isfile(self.path(found)), found)

    def test_a_killed_client_leaves_no_file_open(self):
        self.check("start", "box")
        self.write("large", b"x" * (64 << 20))

        def sending(client):
            with open(f"/proc/{client.pid}/io") as counters:
                return int(counters.readline().split()[1]) > 4 << 20

        most = 256  # files that can be open at once
        for _ in range(most // 20 + 1):
            clients = [self.home.popen("cp", self.path("large"), "box:/large", stdout=-3, stderr=-3) for _ in range(20)]
            for client in clients:
                wait_until(lambda: sending(client), "the file is being sent")
                client.kill()
            for client in clients:
                client.wait()
        self.check("cp", self.path("file"), "box:/large")
        self.assertEqual(self.shell("cat /large"), "content")

    def test_modes_times_links_and_owners(self):
        os.chmod(self.path("tree/a"), 0o4751)
        os.utime(self.path("tree/a"), ns=(1, 1_500_000_000_123_456_789))
        os.symlink("/etc/passwd", self.path("tree/absolute"))
        os.mkfifo(self.path("tree/fifo"))
        self.check("cp", self.path("tree"), "box:/t")
        self.assertEqual(self.shell("stat -c '%a %Y %u:%g' /t/a; readlink /t/absolute; test -p /t/fifo && echo fifo"),
                         "4751 1500000000 0:0\n/etc/passwd\nfifo\n")
        self.check("cp", "box:/t", self.path("back"))
        info = os.lstat(self.path("back/a"))
        self.assertEqual(stat.S_IMODE(info.st_mode), 0o751, "no setuid program comes out of a box")
        self.assertEqual(info.st_mtime_ns, 1_500_000_000_123_456_789)
        self.assertEqual(os.readlink(self.path("back/absolute")), "/etc/passwd")

    def test_what_exists(self):
        self.shell("echo box > /file")
        self.check("cp", "--no-overwrite", self.path("file"), "box:/file", code=1)
        self.assertEqual(self.shell("cat /file"), "box\n")
        self.check("cp", "--no-overwrite", "box:/file", self.path("file"), code=1)
        self.assertEqual(self.read("file"), b"content")
        os.symlink("file", self.path("link"))
        self.check("cp", self.path("link"), "box:/link")
        self.assertEqual(self.shell("readlink /link"), "file\n")
        self.check("cp", "-L", self.path("link"), "box:/followed")
        self.assertEqual(self.shell("cat /followed"), "content")
        self.check("cp", "box:/no/such", self.path("x"), code=1)
        self.assertFalse(os.path.lexists(self.path("x")))
        self.check("cp", self.path("no-such"), "box:/x", code=1)
        self.check("cp", "box:/a", "box:/b", code=2)

    def test_odd_names_and_large_files(self):
        name = "tab\tnew\nline ümläut \\ * 'q'"
        self.write(name, b"odd")
        large = os.urandom(5 << 20) + b"\0" * (3 << 20)
        self.write("large", large)
        self.check("cp", self.work, "box:/w")
        self.check("cp", "box:/w", self.path("again"))
        self.assertEqual(self.read(f"again/{name}"), b"odd")
        self.assertEqual(self.read("again/large"), large)
        self.check("cp", "box:/proc/version", self.path("version"))  # a file that tells no size
        self.assertIn(b"Linux version", self.read("version"))
        self.check("cp", "box:/w/large", "/dev/null")
        self.assertTrue(stat.S_ISCHR(os.stat("/dev/null").st_mode))

    def test_a_stopped_box_is_started_for_the_copy_and_stopped_again(self):
        self.check("cp", self.path("file"), "box:/f")
        self.assertEqual(self.home.inspect("box")["State"]["Status"], "stopped")
        self.check("cp", "box:/f", self.path("f"))
        self.assertEqual(self.read("f"), b"content")
        self.check("create", "--name", "job", "base", "true")
        self.assertIn(b"boxlite start job", self.check("cp", self.path("file"), "job:/f", code=1).err)

    def test_links_in_the_way_are_replaced_on_both_sides(self):
        self.write("victim", b"untouched")
        os.makedirs(self.path("out/d"))
        os.symlink(self.path("victim"), self.path("out/d/f"))
        self.shell("mkdir /d; echo new > /d/f")
        self.check("cp", "box:/d", self.path("out"))
        self.assertEqual(self.read("victim"), b"untouched")
        self.assertEqual(self.read("out/d/f"), b"new\n")
        os.symlink(self.work, self.path("out/e"))
        self.shell("mkdir -p /e/x; echo evil > /e/planted")
        self.check("cp", "box:/e", self.path("out"), code=1)
        self.assertFalse(os.path.exists(self.path("planted")))
        self.shell("echo guest > /victim; mkdir /in; ln -s /victim /in/a")
        self.check("cp", self.path("tree") + "/.", "box:/in")
        self.assertEqual(self.shell("cat /victim /in/a"), "guest\na")

    def test_a_box_that_swaps_links_while_it_is_read(self):
        """CVE-2018-15664: what comes out is the box's own, whatever the path becomes meanwhile."""
        self.write("host-only", b"secret")
        self.shell("mkdir -p /real/sub; echo mine > /real/sub/host-only")
        racer = self.home.popen("exec", "box", "sh", "-c",
                                f"while :; do ln -sfn /real/sub /real/x; rm -f /real/x; ln -sfn {self.work} /real/x; rm -f /real/x; done",
                                stdin=subprocess.DEVNULL)
        self.addCleanup(racer.wait)
        self.addCleanup(racer.kill)
        for attempt in range(30):
            target = self.path(f"got{attempt}")
            self.home.run("cp", "box:/real/x/host-only", target)
            if os.path.exists(target):
                self.assertEqual(self.read(f"got{attempt}"), b"mine\n")
            tree = self.path(f"tree{attempt}")
            self.home.run("cp", "box:/real", tree)
            for folder, _, files in os.walk(tree):
                for name in files:
                    if os.path.islink(os.path.join(folder, name)):
                        continue
                    with open(os.path.join(folder, name), "rb") as copied:
                        self.assertNotIn(b"secret", copied.read())


if __name__ == "__main__":
    unittest.main()
