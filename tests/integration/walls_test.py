"""What confines a box where the host gives less: under seccomp filters, in containers with Docker's default profile, as
root and as an ordinary user. The standard preset boots and `inspect` tells what is missing; the strict one has every
wall or fails with the names of those it has not. Errors come soon and with their cause."""
import ctypes
import json
import os
import shutil
import struct
import subprocess
import tempfile
import time
import unittest

import boxtest
from boxtest import BOXLITE, BoxTest, Home

# Every wall, as `inspect` names them, of root's boxes and of an ordinary user's.
NAMESPACES = {f"machine: {name} namespace" for name in ("mnt", "pid", "ipc", "uts", "net", "cgroup")}
COMMON = NAMESPACES | {f"machine: {part}" for part in (
    "empty root", "host name", "closed descriptors", "resource limits", "no capabilities", "ends with its parent",
    "no new privileges", "Landlock", "seccomp", "seccomp of device threads")}
SUPERVISOR = {f"supervisor: {part}" for part in ("no new privileges", "not dumpable", "Landlock", "seccomp")}
NETWORK = {f"network: {part}" for part in (
    "mnt namespace", "ipc namespace", "uts namespace", "cgroup namespace", "empty root", "resource limits", "no capabilities",
    "no new privileges", "not dumpable", "Landlock", "seccomp")}
ROOT = COMMON | SUPERVISOR | NETWORK | {"machine: own user", "machine: memory limit", "machine: process limit",
                                         "network: own user"}
USER = COMMON | SUPERVISOR | NETWORK | {f"{whose}: {part}" for whose in ("machine", "network")
                                        for part in ("user namespace", "identity map")}

# Of linux/filter.h, linux/seccomp.h and the x86-64 system call table.
LOAD, JUMP_EQUAL, JUMP_ANY_BIT, RETURN = 0x20, 0x15, 0x45, 0x06
ALLOW, FAIL_EPERM = 0x7fff0000, 0x00050001
NUMBERS = {"clone": 56, "ptrace": 101, "seccomp": 317, "landlock_create_ruleset": 444}
CLONE_NEW_ANY = 0x7e020000
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 22, 38


def forbid(*calls):
    """For subprocess's preexec_fn: these system calls fail with EPERM from now on; clone only for namespaces."""
    filter = []
    for name in calls:
        filter.append((LOAD, 0, 0, 0))
        if name == "clone":
            filter += [(JUMP_EQUAL, 0, 3, NUMBERS[name]), (LOAD, 0, 0, 16), (JUMP_ANY_BIT, 0, 1, CLONE_NEW_ANY), (RETURN, 0, 0, FAIL_EPERM)]
        else:
            filter += [(JUMP_EQUAL, 0, 1, NUMBERS[name]), (RETURN, 0, 0, FAIL_EPERM)]
    filter.append((RETURN, 0, 0, ALLOW))
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in filter))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(filter), ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)

    def apply():
        zero = ctypes.c_ulong(0)
        if libc.prctl(PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), zero, zero, zero) or \
           libc.prctl(PR_SET_SECCOMP, ctypes.c_ulong(2), ctypes.c_ulong(ctypes.addressof(program)), zero, zero):
            raise OSError(ctypes.get_errno(), "seccomp")
        assert code  # is kept until then

    return apply


def missing(jail):
    return {part.partition(" (")[0].replace("missing: ", "") for part in jail if ": missing: " in part}


class Forbidden(BoxTest):
    """System calls that a host may refuse."""

    def setUp(self):
        super().setUp()
        self.check("run", "--rm", "base", "true")

    def run_without(self, calls, *args):
        began = time.monotonic()
        process = self.home.popen(*args, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  preexec_fn=forbid(*calls))
        out, err = process.communicate(timeout=60)
        self.assertLess(time.monotonic() - began, 10, "boots or fails at once, and waits for nothing")
        return process.returncode, out.decode(), err.decode()

    def test_a_box_boots_with_what_is_left_and_tells(self):
        for calls, gone in [(["ptrace"], set()), (["seccomp"], {"machine: seccomp", "machine: seccomp of device threads", "supervisor: seccomp",
                                                                 "network: seccomp"}),
                            (["landlock_create_ruleset"], {"machine: Landlock", "supervisor: Landlock", "network: Landlock"}),
                            (["clone"], NAMESPACES)]:
            code, out, err = self.run_without(calls, "run", "-d", "--name", "box", "base", "sleep", "600")
            self.assertEqual((code, err), (0, ""), calls)
            self.assertEqual(self.output("exec", "box", "echo", "hi"), "hi\n")
            self.assertEqual(missing(self.home.inspect("box")["Jail"]), gone, calls)
            self.check("rm", "-f", "box")

    def test_a_strict_box_fails_with_the_cause(self):
        for calls, words in [(["ptrace"], ["ptrace", "Operation not permitted"]), (["seccomp"], ["missing: seccomp (Operation not permitted"]),
                             (["clone"], ["missing: ", "pid namespace", "net namespace"]), (["landlock_create_ruleset"], ["missing: Landlock"])]:
            code, out, err = self.run_without(calls, "run", "--security", "strict", "--name", "box", "base", "echo", "hi")
            self.assertEqual((code, out), (125, ""), calls)
            for word in words:
                self.assertIn(word, err)
            self.assertEqual(self.home.inspect("box")["State"]["Status"], "failed")
            self.check("rm", "box")

    def test_no_way_to_run_programs_at_all(self):
        code, out, err = self.run_without(["ptrace", "seccomp"], "run", "base", "echo", "hi")
        self.assertEqual((code, out), (125, ""))
        self.assertIn("ptrace", err)
        self.assertIn("Operation not permitted", err)


class Strict(BoxTest):
    def test_every_wall_stands(self):
        self.check("run", "-d", "--security", "strict", "--name", "box", "base", "sleep", "600")
        self.assertEqual(set(self.home.inspect("box")["Jail"]), ROOT)
        self.assertEqual(self.output("exec", "box", "sh", "-c", "echo a > /srv/f; cat /srv/f; id -u"), "a\n0\n")


class StrictUser(boxtest.AsUser, BoxTest):
    def test_every_wall_stands_or_is_named(self):
        self.check("run", "-d", "--name", "standard", "base", "sleep", "600")
        lost = missing(self.home.inspect("standard")["Jail"])
        self.assertEqual(USER - set(self.home.inspect("standard")["Jail"]), set())
        result = self.home.run("run", "-d", "--security", "strict", "--name", "box", "base", "sleep", "600")
        if lost:
            # Limits: a user without a cgroup of his own cannot set any.
            self.assertLessEqual(lost, {"machine: memory limit", "machine: process limit"})
            self.assertEqual(result.code, 125, result)
            for wall in lost:
                self.assertIn(wall.partition(": ")[2], result.err.decode())
        else:
            self.assertEqual(result.code, 0, result)
            self.assertEqual(missing(self.home.inspect("box")["Jail"]), set())


class Container(BoxTest):
    """In a container of podman with default capabilities, nothing of the host but /usr, the command and a home."""

    PODMAN = ["podman", "--cgroup-manager=cgroupfs", "--runtime", "runc"]
    # Docker's profile differs from podman's in that these need CAP_SYS_ADMIN.
    NEED_ADMIN = {"mount", "umount", "umount2", "mount_setattr", "move_mount", "open_tree", "fsopen", "fsconfig", "fsmount",
                  "fspick", "pivot_root", "setns", "unshare"}

    def setUp(self):
        super().setUp()
        self.root = tempfile.mkdtemp(prefix="boxlite-container-")
        self.addCleanup(shutil.rmtree, self.root)
        os.chmod(self.root, 0o755)
        for folder in ("usr", "proc", "sys", "dev", "tmp", "etc", "run", "home", "boxlite"):
            os.mkdir(os.path.join(self.root, folder))
        for link in ("bin", "lib", "lib64", "sbin"):
            os.symlink(f"usr/{link}", os.path.join(self.root, link))
        os.chmod(self.home.path, 0o777)

    def docker_profile(self):
        with open("/usr/share/containers/seccomp.json") as source:
            profile = json.load(source)
        for rule in profile["syscalls"]:
            rule["names"] = [name for name in rule["names"] if name not in self.NEED_ADMIN | {"clone", "clone3"}]
        profile["syscalls"] = [rule for rule in profile["syscalls"] if rule["names"]]
        profile["syscalls"].append({"names": ["clone"], "action": "SCMP_ACT_ALLOW",
                                    "args": [{"index": 0, "value": CLONE_NEW_ANY, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"}]})
        profile["syscalls"].append({"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": 38})
        profile["defaultErrno"], profile["defaultErrnoRet"] = "EPERM", 1
        path = os.path.join(self.root, "etc", "seccomp.json")
        with open(path, "w") as out:
            json.dump(profile, out)
        return path

    def inside(self, script, *flags):
        command = [*self.PODMAN, "run", "--rm", "--network", "none", "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024",
                   *flags, "-v", "/usr:/usr:ro", "-v", f"{BOXLITE}:/boxlite/boxlite:ro", "-v", f"{self.home.path}:/home",
                   "-e", "BOXLITE_HOME=/home/state", "-e", "PATH=/boxlite:/usr/bin", "--rootfs", self.root, "sh", "-c", script]
        return boxtest.Result(subprocess.run(command, capture_output=True, timeout=120))

    def boots(self, *flags):
        script = ("boxlite run -q --rm base echo hi && boxlite run -d --name box base sleep 600 && boxlite exec box echo there && "
                  "boxlite inspect box; boxlite run --security strict -q --rm base true; echo $?; boxlite rm -f -a")
        result = self.inside(script, *flags)
        self.assertEqual(result.code, 0, result)
        lines = result.out.decode().splitlines()
        self.assertEqual((lines[0], lines[2]), ("hi", "there"), result)
        self.assertEqual(lines[-2], "125", result)
        jail = json.loads("\n".join(lines[3:-2]))[0]["Jail"]
        self.assertIn("missing: memory limit (", result.err.decode())
        self.assertLessEqual({"machine: memory limit", "machine: process limit"}, missing(jail))
        return set(jail)

    def test_podmans_profile(self):
        jail = self.boots()
        self.assertEqual((COMMON | SUPERVISOR) - jail, {"machine: host name"})

    def test_dockers_profile(self):
        for user in ("0", "1000"):
            shutil.rmtree(os.path.join(self.home.path, "state"), ignore_errors=True)
            jail = self.boots("--security-opt", f"seccomp={self.docker_profile()}", "--user", user)
            self.assertEqual((COMMON | SUPERVISOR) - jail, NAMESPACES | {"machine: empty root", "machine: host name"})
            self.assertLessEqual(NAMESPACES, missing(jail))


if __name__ == "__main__":
    unittest.main()
