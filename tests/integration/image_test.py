"""A real Debian image: built by mmdebstrap, pushed by skopeo, pulled and run by us; judged by umoci, e2fsck and
qemu-img."""
import os
import subprocess
import tempfile
import unittest

import boxtest
from boxtest import BoxTest, check_disk, debian_image

COMPARE = r"""
import hashlib, os, stat, sys
for folder, names, files in os.walk("/", followlinks=False):
    for skipped in ("proc", "sys", "dev"):
        if folder == "/" and skipped in names: names.remove(skipped)
    for name in names + files:
        path = os.path.join(folder, name)
        info = os.lstat(path)
        kind = stat.S_IFMT(info.st_mode)
        what = os.readlink(path) if kind == stat.S_IFLNK else ""
        if kind == stat.S_IFREG: what = hashlib.sha256(open(path, "rb").read()).hexdigest()
        xattrs = sorted((n, os.getxattr(path, n, follow_symlinks=False).hex()) for n in os.listxattr(path, follow_symlinks=False))
        links = info.st_nlink if kind == stat.S_IFREG else 0
        print(path, oct(info.st_mode), info.st_uid, info.st_gid, links, what, xattrs)
"""


class DebianImage(BoxTest):
    @classmethod
    def setUpClass(cls):
        cls.layout = debian_image(["python3"])
        cls.registry = boxtest.Registry()
        cls.addClassCleanup(cls.registry.close)
        cls.reference = cls.registry.push(cls.layout, "python:12")

    def test_the_main_job(self):
        self.check("pull", self.reference, timeout=300)
        out = self.output("run", "--rm", self.reference, "python3", "-c",
                          "import os; print(os.uname().release, sum(n * n for n in range(1000)))", timeout=300)
        self.assertRegex(out, r"^\d+\.\d+\S*-boxlite 332833500\n$")
        self.assertIn("python", self.output("images"))

    def test_the_box_sees_what_umoci_unpacks(self):
        with tempfile.TemporaryDirectory() as work:
            bundle = os.path.join(work, "bundle")
            subprocess.run(["umoci", "unpack", "--image", self.layout, bundle], check=True, stderr=subprocess.DEVNULL)
            wanted = subprocess.run(["chroot", os.path.join(bundle, "rootfs"), "python3", "-c", COMPARE],
                                    check=True, capture_output=True).stdout.splitlines()
        seen = self.check("run", "--rm", self.reference, "python3", "-c", COMPARE, timeout=600).out.splitlines()
        # What a container runtime puts over the image, as Docker does.
        ours = (b"/etc/hosts ", b"/etc/hostname ", b"/etc/resolv.conf ")
        different = [line for line in set(wanted) ^ set(seen) if not line.startswith(ours)]
        self.assertEqual(sorted(different)[:10], [])
        self.assertGreater(len(seen), 3000)

    def test_twenty_thousand_files_survive_and_the_disk_is_clean(self):
        self.check("create", "--name", "box", self.reference, timeout=300)
        make = ("import os\n"
                "for n in range(20000):\n"
                "    p = f'/srv/t/{n % 100}/f{n}'\n"
                "    os.makedirs(os.path.dirname(p), exist_ok=True)\n"
                "    open(p, 'w').write(str(n) * (n % 50)); os.chmod(p, 0o600 + n % 0o100); os.chown(p, n, n + 1)\n"
                "    if n % 10 == 0: os.setxattr(p, 'user.n', str(n).encode())\n")
        self.check("exec", "box", "python3", "-c", make, timeout=600)
        tree = COMPARE.replace('os.walk("/"', 'os.walk("/srv/t"')
        before = self.check("exec", "box", "python3", "-c", tree, timeout=600).out
        self.check("stop", "box", timeout=120)
        check_disk(self.home, "box")
        after = self.check("exec", "box", "python3", "-c", tree, timeout=600).out
        self.assertEqual(before.count(b"\n"), 20100)
        self.assertEqual(before, after)


class SmallestImage(BoxTest):
    def test_one_static_program_and_nothing_else(self):
        with tempfile.TemporaryDirectory() as work:
            program = os.path.join(work, "program")
            subprocess.run(["gcc", "-static", "-o", program, "-x", "c", "-"], check=True,
                           input=b'#include <stdio.h>\nint main(void) { return puts("alone") < 0; }')
            # umoci insert leaves out what fills a tar archive's last block.
            os.truncate(program, -(-os.path.getsize(program) // 512) * 512)
            layout = boxtest.image_of_file(type(self), program)
        self.check("import", layout.partition(":")[0], "smallest")
        self.assertEqual(self.output("run", "--rm", "smallest", "/content"), "alone\n")


if __name__ == "__main__":
    unittest.main()
