"""What the integration tests share: the built command, homes that clean up after themselves, a registry on
loopback, and Debian images made by mmdebstrap.

$BOXLITE names the command under test.
"""
import contextlib
import glob
import hashlib
import json
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest

BOXLITE = os.environ["BOXLITE"]
# By how much everything is given more time, on a machine that is emulated.
PATIENCE = int(os.environ.get("BOXLITE_TEST_PATIENCE", "1"))
CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "boxlite", "test-images")


class Result:
    def __init__(self, process):
        self.code, self.out, self.err = process.returncode, process.stdout, process.stderr

    def __repr__(self):
        return f"exit {self.code}\nstdout: {self.out[-2000:]!r}\nstderr: {self.err[-2000:]!r}"


class Home:
    """A BOXLITE_HOME. On close every box is removed by force and the folder deleted."""

    def __init__(self, user=None):
        self.user = user
        self.path = tempfile.mkdtemp(prefix="boxlite-test-")
        if user:
            os.chown(self.path, user.pw_uid, user.pw_gid)

    def command(self, *args):
        return [BOXLITE, "--home", self.path, *args]

    def options(self):
        env = {"PATH": os.environ["PATH"], "HOME": self.path, "LANG": "C.UTF-8"}
        options = {"env": env}
        if self.user:
            options.update(user=self.user.pw_uid, group=self.user.pw_gid, extra_groups=[], cwd=self.path)
        return options

    def run(self, *args, stdin=b"", timeout=120):
        return Result(subprocess.run(self.command(*args), input=stdin, capture_output=True, timeout=timeout * PATIENCE,
                                     **self.options()))

    def popen(self, *args, **extra):
        return subprocess.Popen(self.command(*args), **self.options(), **extra)

    def inspect(self, box):
        result = self.run("inspect", box)
        assert result.code == 0, result
        return json.loads(result.out)[0]

    def box_ids(self):
        """Of every box that was ever made here."""
        ids = set()
        for log in glob.glob(os.path.join(self.path, "logs", "boxlite-*.log")):
            with open(log) as lines:
                ids.update(re.findall(r'msg="box created" box=(\w+)', lines.read()))
        return ids

    def traces(self):
        """What its boxes have on the host, as a set of words: empty once they are gone."""
        ids = self.box_ids()
        found = {f"folder {name}" for name in os.listdir(os.path.join(self.path, "boxes")) if not name.startswith(".")}
        with open("/proc/self/mounts") as mounts:
            found.update(f"mount {line}" for line in mounts if self.path + "/" in line)
        for folder, names, _ in os.walk("/sys/fs/cgroup"):
            found.update(f"cgroup {folder}/{name}" for name in names if name in ids)
        for process in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                with open(f"/proc/{process}/cmdline", "rb") as command:
                    words = command.read().decode(errors="replace").split("\0")
                if len(words) > 1 and words[0].endswith("boxlite-shim") and words[1] in ids:
                    found.add(f"process {words}")
                for descriptor in os.listdir(f"/proc/{process}/fd"):
                    with contextlib.suppress(OSError):
                        target = os.readlink(f"/proc/{process}/fd/{descriptor}")
                        if target.startswith(self.path + "/"):
                            found.add(f"descriptor of process {process}: {target}")
        return found

    def close(self):
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.run("rm", "-f", "-a")
        shutil.rmtree(self.path, ignore_errors=True)


class BoxTest(unittest.TestCase):
    """A test with a home of its own. check() runs a command that must succeed."""

    user = None

    def setUp(self):
        self.home = Home(self.user)
        self.addCleanup(self.home.close)

    def check(self, *args, code=0, **options):
        result = self.home.run(*args, **options)
        self.assertEqual(result.code, code, f"{args}: {result!r}")
        return result

    def output(self, *args, **options):
        return self.check(*args, **options).out.decode()


def wait_until(condition, what, seconds=30):
    """Polls a condition that has no event to wait for; fails the test when the time is up."""
    deadline = time.monotonic() + seconds * PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(0.02)


def alive(pid):
    """Whether a process is there and not a zombie."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] not in ("Z", "X")
    except FileNotFoundError:
        return False


def files_with(folder, value):
    """Those below the folder that have the bytes in them, and how many were looked at. Holes are not read."""
    paths = [os.path.join(place, name) for place, _, names in os.walk(folder) for name in names]
    paths = [path for path in paths if os.path.isfile(path)]
    return [path for path in paths if has_data(path, value)], len(paths)


def has_data(path, value):
    with open(path, "rb") as file:
        end, size = 0, os.path.getsize(path)
        while end < size:
            try:
                begin = os.lseek(file.fileno(), end, os.SEEK_DATA)
            except OSError:  # a hole up to the end
                return False
            end = os.lseek(file.fileno(), begin, os.SEEK_HOLE)
            if any(value in os.pread(file.fileno(), (1 << 20) + len(value), at) for at in range(begin, end, 1 << 20)):
                return True
    return False


def children(pid):
    """The process's children, oldest first."""
    found = []
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children") as numbers:
                found += map(int, numbers.read().split())
    return sorted(found)


def kill(pid):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def check_disk(home, box):
    """The disk of a box that was stopped in order is sound in the eyes of qemu-img and e2fsck."""
    disk = os.path.join(home.inspect(box)["Folder"], "disk.qcow2")
    subprocess.run(["qemu-img", "check", "-q", disk], check=True)
    with tempfile.TemporaryDirectory() as work:
        raw = os.path.join(work, "disk.raw")
        subprocess.run(["qemu-img", "convert", "-O", "raw", disk, raw], check=True)
        checked = subprocess.run(["e2fsck", "-fn", raw], capture_output=True, text=True)
        assert checked.returncode == 0, checked.stdout


class Registry:
    """Debian's docker-registry on a port of loopback."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="boxlite-registry-")
        self.address = f"127.0.0.1:{free_port()}"
        config = os.path.join(self.folder, "config.yml")
        with open(config, "w") as out:
            json.dump({"version": 0.1, "log": {"level": "error"},
                       "storage": {"filesystem": {"rootdirectory": os.path.join(self.folder, "data")}},
                       "http": {"addr": self.address}}, out)
        self.process = subprocess.Popen(["docker-registry", "serve", config], stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        host, port = self.address.split(":")

        def answers():
            with socket.socket() as probe:
                return probe.connect_ex((host, int(port))) == 0

        try:
            wait_until(answers, "the registry listens")
        except AssertionError:
            self.close()
            raise

    def push(self, layout, name):
        """Copies an image from an OCI layout into the registry; returns its reference."""
        reference = f"{self.address}/{name}"
        subprocess.run(["skopeo", "copy", "-q", "--dest-tls-verify=false", f"oci:{layout}", f"docker://{reference}"],
                       check=True, stdout=subprocess.DEVNULL)
        return reference

    def close(self):
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def debian_image(packages):
    """An OCI layout ("folder:tag") of a minimal Debian 12 with some packages, built once by mmdebstrap."""
    key = hashlib.sha256(("bookworm 1 " + " ".join(sorted(packages))).encode()).hexdigest()[:16]
    layout = os.path.join(CACHE, key)
    if not os.path.exists(layout):
        os.makedirs(CACHE, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as work:
            tree = os.path.join(work, "bundle")
            made = os.path.join(work, "layout")
            mirror = subprocess.run(["apt-get", "indextargets", "--format", "$(SITE)", "Created-By: Packages", "Origin: Debian"],
                                    capture_output=True, text=True, check=True).stdout.split()
            subprocess.run(["umoci", "init", "--layout", made], check=True)
            subprocess.run(["umoci", "new", "--image", f"{made}:latest"], check=True)
            subprocess.run(["umoci", "unpack", "--image", f"{made}:latest", tree], check=True, stderr=subprocess.DEVNULL)
            subprocess.run(["mmdebstrap", "--quiet", "--variant=minbase", "--mode=root", f"--include={','.join(packages)}",
                            "bookworm", os.path.join(work, "root.tar"), f"deb {mirror[0]} bookworm main"], check=True)
            subprocess.run(["tar", "-xpf", os.path.join(work, "root.tar"), "--xattrs", "--xattrs-include=*", "--numeric-owner",
                            "-C", os.path.join(tree, "rootfs")], check=True)
            subprocess.run(["umoci", "repack", "--image", f"{made}:latest", tree], check=True)
            subprocess.run(["umoci", "config", "--image", f"{made}:latest", "--config.cmd", "/bin/bash",
                            "--config.env", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"], check=True)
            os.rename(made, layout)
    return f"{layout}:latest"


def image_of_file(test_class, content):
    """An OCI layout of an image with nothing but /content in it, made of bytes or a copy of the file of that path; for
    as long as the class's tests run."""
    folder = tempfile.mkdtemp(prefix="boxlite-image-")
    test_class.addClassCleanup(shutil.rmtree, folder)
    layout = os.path.join(folder, "layout")
    with tempfile.NamedTemporaryFile() as source:
        if isinstance(content, bytes):
            source.write(content)
            source.flush()
        subprocess.run(["umoci", "init", "--layout", layout], check=True)
        subprocess.run(["umoci", "new", "--image", f"{layout}:latest"], check=True)
        subprocess.run(["umoci", "insert", "--image", f"{layout}:latest",
                        source.name if isinstance(content, bytes) else content, "/content"], check=True)
    return f"{layout}:latest"


def layers_of(image):
    """The digests of the layers of an image in an OCI layout."""
    manifest = subprocess.run(["skopeo", "inspect", "--raw", f"oci:{image}"], capture_output=True, check=True).stdout
    return [layer["digest"] for layer in json.loads(manifest)["layers"]]


@contextlib.contextmanager
def ordinary_user():
    """A freshly made user without any group or privilege."""
    name = f"boxlite{os.getpid()}"
    subprocess.run(["useradd", "--no-create-home", "--shell", "/bin/sh", name], check=True)
    try:
        yield pwd.getpwnam(name)
    finally:
        subprocess.run(["userdel", name], check=True)


class AsUser:
    """Beside a BoxTest: its homes belong to a freshly made ordinary user."""

    @classmethod
    def setUpClass(cls):
        manager = ordinary_user()
        cls.user = manager.__enter__()
        cls.addClassCleanup(manager.__exit__, None, None, None)


if __name__ == "__main__":
    raise SystemExit("a library; run the test files")
