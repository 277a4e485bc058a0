"""What the budgets are about, measured against the peers in one run: rounds interleaved, medians with their spread.

    scripts/bench [NAME…]      start, library, compute, idle, pull; all without a name

Prints one line per budget and exits with 1 when one of them is missed. Run it on an idle machine.
"""
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "integration"))
import boxtest  # noqa: E402

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "15"))
PODMAN = ["podman", "--cgroup-manager=cgroupfs", "--runtime", "runc"]
PODMAN_RUN = ["run", "--rm", "--pull=never", "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024"]


class Samples(list):
    def __str__(self):
        ordered = sorted(self)
        quarter = len(ordered) // 4
        return f"{self.median:.3g} ({ordered[quarter]:.3g} to {ordered[-1 - quarter]:.3g})"

    @property
    def median(self):
        return statistics.median(self)


class Report:
    missed = 0

    def line(self, name, value, budget=None, unit="ms", more=True):
        """`more`: whether a larger value than the budget misses it."""
        median = value.median if isinstance(value, Samples) else value
        shown = str(value) if isinstance(value, Samples) else f"{value:.3g}"
        text = f"{name:<58} {shown:>28} {unit}"
        if budget is not None:
            held = median <= budget if more else median >= budget
            self.missed += not held
            text += f"   budget {budget:.3g}: {'held' if held else 'MISSED'}"
        print(text, flush=True)


def timed(command, **options):
    """Milliseconds until the first byte of a command's output; the command must print something and succeed."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
    first = process.stdout.read(1)
    elapsed = (time.perf_counter() - start) * 1000
    _, errors = process.communicate()
    if process.returncode or not first:
        raise SystemExit(f"{command} failed with {process.returncode}: {errors.decode()}")
    return elapsed


def interleaved(tasks, rounds=ROUNDS):
    """{name: Samples} of tasks {name: function that returns a number}; one unmeasured round first."""
    samples = {name: Samples() for name in tasks}
    for number in range(rounds + 1):
        for name, task in tasks.items():
            value = task()
            if number:
                samples[name].append(value)
    return samples


@contextlib.contextmanager
def debian():
    """A home and podman's storage that both have the same image, and its reference in a registry."""
    with contextlib.ExitStack() as stack:
        registry = boxtest.Registry()
        stack.callback(registry.close)
        home = boxtest.Home()
        stack.callback(home.close)
        storage = tempfile.mkdtemp(prefix="boxlite-bench-")
        stack.callback(shutil.rmtree, storage, ignore_errors=True)
        podman = PODMAN + ["--root", f"{storage}/root", "--runroot", f"{storage}/run", "--tmpdir", f"{storage}/tmp"]
        stack.callback(subprocess.run, podman + ["rmi", "-af"], capture_output=True)
        reference = registry.push(boxtest.debian_image(["python3"]), "bench:12")
        subprocess.run(podman + ["pull", "-q", "--tls-verify=false", reference], check=True, stdout=subprocess.DEVNULL)
        assert home.run("pull", reference, timeout=600).code == 0
        assert home.run("run", "--rm", reference, "true", timeout=600).code == 0  # builds the base
        yield home, podman, reference


def start(report):
    """Creation of a box to its first output, cached image, through the commands."""
    with debian() as (home, podman, image):
        options = home.options()
        times = interleaved({
            "boxlite": lambda: timed(home.command("run", "--rm", image, "echo", "x"), **options),
            "podman": lambda: timed(podman + PODMAN_RUN + [image, "echo", "x"]),
            "podman --network none": lambda: timed(podman + PODMAN_RUN + ["--network", "none", image, "echo", "x"]),
        })
        assert home.run("run", "-d", "--name", "box", image, "sleep", "3600").code == 0
        times |= interleaved({"exec": lambda: timed(home.command("exec", "box", "echo", "x"), **options),
                              "version": lambda: timed(home.command("version"), **options)})
    ours = times["boxlite"]
    report.line("boxlite run --rm IMAGE echo, to first byte", ours, 150)
    report.line("podman run --rm, default network", times["podman"])
    report.line("podman run --rm --network none", times["podman --network none"])
    report.line("boxlite run / podman run", ours.median / times["podman"].median, 0.5, "")
    report.line("boxlite run / podman run --network none", ours.median / times["podman --network none"].median, 1, "")
    report.line("boxlite exec BOX echo, to first byte", times["exec"])
    report.line("boxlite version (a command that does nothing)", times["version"])


def library(report):
    """The same from a program that links the library, without the start of a command."""
    with debian() as (home, _, image):
        program = os.path.join(os.path.dirname(boxtest.BOXLITE), "boxlite_latency")
        result = subprocess.run([program, home.path, image, str(ROUNDS)], stdout=subprocess.PIPE, check=True)
        times = {name: Samples(values) for name, values in json.loads(result.stdout).items()}
    report.line("library: create + first output", times["create"], 150)
    report.line("boot, from the supervisor's start to a running box", times["boot"], 100)
    report.line("library: exec in a running box, to first byte", times["exec"], 5)


COMPUTE = """
#include <stdint.h>
#include <stdio.h>
#include <time.h>
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec / 1e9; }
int main(void) {
    const double start = now();
    uint64_t x = 88172645463325252ull, sum = 0;
    for (int i = 0; i < 300000000; i++) { x ^= x << 13; x ^= x >> 7; x ^= x << 17; sum += x; }
    printf("%.6f %llu\\n", now() - start, (unsigned long long)sum);
}
"""


def compute(report):
    """A loop without system calls, in a box and on the host."""
    home = boxtest.Home()
    try:
        program = os.path.join(home.path, "compute")
        subprocess.run(["gcc", "-O2", "-static", "-x", "c", "-", "-o", program], input=COMPUTE.encode(), check=True)
        assert home.run("create", "--name", "box", "base").code == 0
        assert home.run("cp", program, "box:/compute").code == 0

        def seconds(command):
            return float(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout.split()[0])

        times = interleaved({"box": lambda: seconds(home.command("exec", "box", "/compute")),
                             "host": lambda: seconds([program])})
    finally:
        home.close()
    report.line("compute: host's time / box's time", times["host"].median / times["box"].median, 0.98, "", more=False)


def idle(report):
    """What a box costs that does nothing."""
    home = boxtest.Home()
    try:
        assert home.run("run", "-d", "--name", "box", "base", "sleep", "100000").code == 0
        shim = home.inspect("box")["State"]["Pid"]
        # The guest writes what its boot changed some time later: that is its own wish, and may be over now.
        assert home.run("exec", "box", "sync").code == 0
        time.sleep(12)

        def switches():
            """Of the supervisor itself, and of its device threads, which work when the guest asks them to."""
            own = devices = 0
            for task in os.listdir(f"/proc/{shim}/task"):
                with open(f"/proc/{shim}/task/{task}/status") as status:
                    number = sum(int(line.split()[1]) for line in status if line.startswith("voluntary_ctxt"))
                if int(task) == shim:
                    own += number
                else:
                    devices += number
            return own, devices

        before = switches()
        time.sleep(20)
        woken, asked = (after - start for after, start in zip(switches(), before))
        private = shared = 0
        with open(f"/proc/{shim}/smaps") as smaps:
            guest = False
            for line in smaps:
                if "-" in line.split(" ", 1)[0]:
                    guest = "uml-memory" in line
                elif not guest and line.startswith("Private_"):
                    private += int(line.split()[1])
                elif not guest and line.startswith("Shared_"):
                    shared += int(line.split()[1])
    finally:
        home.close()
    report.line("supervisor's private memory beyond the guest's", private / 1024, 12, "MiB")
    report.line("supervisor's pages shared with other processes", shared / 1024, None, "MiB")
    report.line("supervisor's wake-ups in 20 s of an idle box", woken, 0, "")
    report.line("device threads' wake-ups, for the guest's entropy and disk", asked, None, "")


def pull(report):
    """Fetching an image and making a disk of it, against skopeo and umoci, all from the same registry."""
    layout = boxtest.debian_image(["python3"])
    registry = boxtest.Registry()
    work = tempfile.mkdtemp(prefix="boxlite-bench-")
    try:
        reference = registry.push(layout, "bench:12")

        def once(make):
            folder = tempfile.mkdtemp(dir=work)
            os.sync()  # or who syncs what it wrote, as only we do, waits for what the others left behind
            started = time.perf_counter()
            make(folder)
            elapsed = (time.perf_counter() - started) * 1000
            shutil.rmtree(folder)
            return elapsed

        def ours(folder):
            subprocess.run([boxtest.BOXLITE, "--home", folder, "pull", reference], check=True,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

        def skopeo(folder):
            subprocess.run(["skopeo", "copy", "-q", "--src-tls-verify=false", f"docker://{reference}", f"oci:{folder}/oci:x"],
                           check=True)

        def unpacked(folder):
            skopeo(folder)
            subprocess.run(["umoci", "unpack", "--image", f"{folder}/oci:x", f"{folder}/bundle"], check=True,
                           stderr=subprocess.DEVNULL)

        times = interleaved({"boxlite": lambda: once(ours), "skopeo": lambda: once(skopeo),
                             "skopeo + umoci": lambda: once(unpacked)}, max(3, ROUNDS // 3))
    finally:
        registry.close()
        shutil.rmtree(work, ignore_errors=True)
    report.line("boxlite: pull + disk", times["boxlite"])
    report.line("skopeo copy", times["skopeo"])
    report.line("skopeo copy + umoci unpack", times["skopeo + umoci"])
    report.line("boxlite / skopeo copy", times["boxlite"].median / times["skopeo"].median, 1.3, "")


def main():
    parts = {part.__name__: part for part in (start, library, compute, idle, pull)}
    unknown = [name for name in sys.argv[1:] if name not in parts]
    if unknown:
        raise SystemExit(f"no such part: {unknown[0]}; there are {', '.join(parts)}")
    report = Report()
    for name in sys.argv[1:] or parts:
        print(f"-- {name}: {parts[name].__doc__}", flush=True)
        parts[name](report)
    return 1 if report.missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
