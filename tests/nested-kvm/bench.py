"""What the kvm engine costs, side by side with QEMU's microvm where it has the same to do: in the emulated host, so
counts tell more than times, and times only beside each other. Run by `tests/nested-kvm/run bench`.
"""
import glob
import os
import re
import statistics
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "tests"))
import boxtest  # noqa: E402

KVM = "/sys/kernel/debug/kvm"
COUNTED = ["exits", "io_exits", "mmio_exits", "halt_exits", "irq_exits", "pf_fixed"]
ROUNDS = 5


def counters():
    values = {}
    for name in COUNTED:
        with open(f"{KVM}/{name}") as file:
            values[name] = int(file.read())
    return values


def counted(work):
    """Its outcome, milliseconds, and what KVM counted. The counters are of the machines that exist, so they are looked at
    until the end: of a machine that ends meanwhile, the last moments are missing."""
    before = most = counters()
    over = threading.Event()

    def watch():
        nonlocal most
        while not over.wait(0.05):
            most = {name: max(value, most[name]) for name, value in counters().items()}

    watcher = threading.Thread(target=watch)
    watcher.start()
    began = time.monotonic()
    outcome = work()
    elapsed = time.monotonic() - began
    over.set()
    watcher.join()
    most = {name: max(value, most[name]) for name, value in counters().items()}
    return outcome, elapsed * 1000, {name: value - before[name] for name, value in most.items()}


def median(samples):
    return f"{statistics.median(samples):.0f} ({min(samples):.0f} to {max(samples):.0f})"


def line(name, text):
    print(f"{name:<66} {text}", flush=True)


def microvm(task):
    """QEMU's microvm with our kernel, whose first process does `task`."""
    disk = f"/tmp/{task}.raw"
    with open(disk, "wb") as file:
        file.write(task.encode().ljust(1 << 20, b"\0"))
    machine = "microvm,acpi=off,x-option-roms=off,pit=off,pic=off,rtc=off,isa-serial=off"
    return ["qemu/qemu-system-x86_64", "-L", "qemu/share", "-bios", "qboot.rom", "-M", machine, "-accel", "kvm",
            "-cpu", "host", "-m", "128", "-smp", "1", "-nodefaults", "-no-user-config", "-nographic", "-no-reboot",
            "-kernel", os.environ["BOXLITE_TEST_KERNEL"], "-initrd", os.environ["BOXLITE_TEST_INITRAMFS"],
            "-append", "console=hvc0 quiet panic=-1 reboot=t", "-drive", f"file={disk},format=raw,if=none,id=disk",
            "-device", "virtio-blk-device,drive=disk", "-device", "virtio-rng-device", "-device", "virtio-serial-device",
            "-device", "virtconsole,chardev=console", "-chardev", "stdio,id=console"]


def boots():
    """The same kernel with the same first process, from the start of the monitor to the guest's restart."""
    ours = ["./kvm_machine_test", "--gtest_filter=KvmMachineTest.ARestartIsNoPowerOff"]
    results = {"qemu microvm": [], "boxlite kvm": []}
    for _ in range(ROUNDS):
        for name, command in (("qemu microvm", microvm("restart")), ("boxlite kvm", ours)):
            done, elapsed, exits = counted(lambda: subprocess.run(command, capture_output=True, timeout=120))
            if done.returncode or (name.startswith("qemu") and b"init: restart" not in done.stdout):
                raise SystemExit(f"{name}: {done}")
            results[name].append((elapsed, exits))
    for name, rounds in results.items():
        line(f"{name}: start to the guest's restart, ms", median([elapsed for elapsed, _ in rounds]))
        for counter in COUNTED:
            line(f"{name}: {counter}", median([exits[counter] for _, exits in rounds]))
    with subprocess.Popen(microvm("idle"), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as machine:
        if not any(b"init: idle" in text for text in machine.stdout):
            raise SystemExit("qemu microvm: its guest did not come up")
        line("qemu microvm: beyond the guest, MiB", f"{beyond_guest(machine.pid):.1f}")
        machine.kill()


def beyond_guest(pid):
    """MiB of a monitor's own, without the guest's memory: of QEMU's, the one mapping that is as large."""
    total, guest = 0, False
    with open(f"/proc/{pid}/smaps") as lines:
        for text in lines:
            first = text.split(" ", 1)[0]
            if "-" in first:
                begin, end = (int(address, 16) for address in first.split("-"))
                guest = "guest-memory" in text or "/templates/" in text or end - begin == 128 << 20
            elif text.startswith("Private_") and not guest:
                total += int(text.split()[1])
    return total / 1024


def captures(home):
    """The pauses that the home's boxes had for forks so far, in ms."""
    found = []
    for log in glob.glob(f"{home.path}/logs/boxlite-*.log"):
        with open(log) as text:
            found += [int(us) / 1000 for us in re.findall(r'msg="box forked".*pause_us=(\d+)', text.read())]
    return found


def run(home, *arguments):
    result = home.run(*arguments, timeout=300)
    if result.code:
        raise SystemExit(f"{arguments}: {result!r}")
    return result.out.decode().strip()


def templates(home):
    begun = ("run", "-d", "--network", "none", "--memory", "128", "base", "sleep", "1000")
    run(home, "run", "--rm", "--network", "none", "--memory", "96", "base", "true")  # unpacks and builds what is needed once
    cold, elapsed, exits = counted(lambda: run(home, *begun))
    line("first box, boots: BootMs / command ms / exits", f"{home.inspect(cold)['BootMs']} / {elapsed:.0f} / {exits['exits']}")
    boxtest.wait_until(lambda: len(glob.glob(f"{home.path}/cache/templates/*/memory")) == 2, "there is a template", 120)
    samples = []
    for _ in range(ROUNDS):
        box, elapsed, exits = counted(lambda: run(home, *begun))
        state = home.inspect(box)
        assert state["StartedFrom"] == "template", state
        samples.append((state["BootMs"], elapsed, exits["exits"], beyond_guest(state["State"]["Pid"])))
        run(home, "rm", "-f", box)
    for index, name in enumerate(("BootMs", "command, ms", "exits", "supervisor beyond the guest, MiB")):
        line(f"later boxes, from the template: {name}", median([sample[index] for sample in samples]))
    run(home, "rm", "-f", cold)


def effort(pid):
    """What a supervisor has done so far that does not depend on the host's speed."""
    with open(f"/proc/{pid}/io") as file:
        counts = dict(text.split(": ") for text in file.read().splitlines())
    with open(f"/proc/{pid}/stat") as file:
        faults = int(file.read().rsplit(")", 1)[1].split()[7])
    return {"KiB read": int(counts["rchar"]) >> 10, "KiB written": int(counts["wchar"]) >> 10, "pages touched": faults}


def since(before, after):
    return ", ".join(f"{after[name] - before.get(name, 0)} {name}" for name in after)


def pid_of(home, box):
    return home.inspect(box)["State"]["Pid"]


def parent_of(home, memory):
    """A box that was forked once, as a first capture looks at all of its memory."""
    parent = run(home, "run", "-d", "--network", "none", "--memory", str(memory), "base", "sleep", "1000")
    run(home, "rm", "-f", run(home, "fork", parent))
    return parent


def forks(home):
    for memory in (64, 128, 256, 512):
        parent = parent_of(home, memory)
        before, done, times, exits = len(captures(home)), effort(pid_of(home, parent)), [], []
        for _ in range(ROUNDS):
            child, elapsed, counts = counted(lambda: run(home, "fork", parent))
            times.append(elapsed)
            exits.append(counts["exits"])
            child_did = since({}, effort(pid_of(home, child)))
            run(home, "rm", "-f", child)
        name = f"fork of a box with {memory} MiB"
        line(f"{name}: command ms / pause ms / exits", f"{median(times)} / {median(captures(home)[before:])} / {median(exits)}")
        line(f"{name}: its supervisor, {ROUNDS} forks", since(done, effort(pid_of(home, parent))))
        line(f"{name}: the child's", child_did)
        run(home, "rm", "-f", parent)
    parent = parent_of(home, 256)
    for mebibytes in (0, 4, 16, 48):
        run(home, "exec", parent, "sh", "-c", f"head -c {mebibytes << 20} /dev/zero > /dev/shm/written")
        before, done = len(captures(home)), effort(pid_of(home, parent))
        run(home, "rm", "-f", run(home, "fork", parent))
        line(f"pause after {mebibytes} MiB were written, ms", median(captures(home)[before:]))
        line(f"after {mebibytes} MiB were written: its supervisor", since(done, effort(pid_of(home, parent))))
    run(home, "rm", "-f", parent)


def restores(home):
    for memory in (64, 128, 256, 512):
        box = run(home, "run", "-d", "--network", "none", "--memory", str(memory), "base", "sleep", "1000")
        _, elapsed, _ = counted(lambda: run(home, "snapshot", "create", box, "point", "--memory"))
        times, exits = [], []
        for _ in range(ROUNDS):
            _, restored, counts = counted(lambda: run(home, "snapshot", "restore", "--force", box, "point", "--memory"))
            times.append(restored)
            exits.append(counts["exits"])
            assert home.inspect(box)["StartedFrom"] == "snapshot", home.inspect(box)
        name = f"snapshot of a box with {memory} MiB"
        line(f"{name}: made, ms / restored, ms / exits", f"{elapsed:.0f} / {median(times)} / {median(exits)}")
        line(f"{name}: restored, the supervisor's", since({}, effort(pid_of(home, box))))
        run(home, "rm", "-f", box)


def main():
    boots()
    home = boxtest.Home()
    try:
        templates(home)
        forks(home)
        restores(home)
    finally:
        home.close()


if __name__ == "__main__":
    main()
