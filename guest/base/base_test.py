#!/usr/bin/env python3
"""Unpacks the base image with tar, as root, and uses it through chroot.

usage: base_test.py BASE_TAR
"""

import subprocess
import sys
import tempfile


def run(*command):
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def expect(got, wanted):
    if got != wanted:
        sys.exit(f"got {got!r}, wanted {wanted!r}")


def main():
    (base,) = sys.argv[1:]
    with tempfile.TemporaryDirectory() as root:
        run("tar", "-xpf", base, "-C", root, "--numeric-owner")
        expect(run("chroot", root, "sh", "-c", "id -un; ls -ld /tmp | cut -c1-10; cat /etc/hostname"),
               "root\ndrwxrwxrwt\nboxlite\n")
        expect(run("chroot", root, "sh", "-c", ". /etc/os-release; echo $ID"), "boxlite-base\n")
        expect(run("chroot", root, "sh", "-lc", "echo $PATH").count("/usr/bin"), 1)
        expect(int(run("chroot", root, "sh", "-c", "grep -c BEGIN /etc/ssl/cert.pem")) > 50, True)
        # Every link leads to something, and all belong to root.
        expect(run("find", "-L", root, "-type", "l", "-not", "-lname", "/bin/busybox", "-not", "-name", "mtab"), "")
        expect(run("find", root, "-not", "-user", "0", "-o", "-not", "-group", "0"), "")
        expect(run("chroot", root, "find", "/bin", "/sbin", "/usr", "-type", "l", "-not", "-exec", "test", "-e", "{}",
                   ";", "-print"), "")


if __name__ == "__main__":
    main()
