"""Drives the emulated host of the rig over its serial console and QEMU's monitor.

usage: drive.py save|run SECONDS SNAPSHOT COMMAND...

save boots COMMAND until it says that KVM is ready and writes its state to SNAPSHOT. run restores that state,
lets the host run its disk's run.sh, shows what it prints and exits with its status; 124 after SECONDS, 125
when the host ended without a status.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time


class Monitor:
    def __init__(self, path, deadline):
        while True:
            try:
                connection = socket.socket(socket.AF_UNIX)
                connection.connect(path)
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)
        self.stream = connection.makefile("rw")
        self.stream.readline()
        self.call("qmp_capabilities")

    def call(self, command, **arguments):
        self.stream.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
        self.stream.flush()
        while True:
            answer = json.loads(self.stream.readline())
            if "error" in answer:
                sys.exit(f"rig: QEMU refused {command}: {answer['error']}")
            if "return" in answer:
                return answer["return"]

    def wait(self, command, states):
        while (state := self.call(command)["status"]) not in states:
            time.sleep(0.02)
        return state


def lines(process):
    for line in process.stdout:
        text = line.decode(errors="replace").strip("\r\n\x1b")
        if "TCG doesn't support" not in text:
            yield text


def save(process, monitor, snapshot):
    for line in lines(process):
        if "RIG-READY" in line:
            break
        print(f"rig: {line}", flush=True)
        if "RIG-WITHOUT-KVM" in line:
            sys.exit("rig: the emulated processor has no nested paging, so its KVM is not one to test with; "
                     "another version of QEMU may")
    else:
        return 125
    monitor().call("stop")
    monitor().call("migrate", uri=f"exec:cat > {snapshot}.new")
    if monitor().wait("query-migrate", ("completed", "failed")) != "completed":
        sys.exit("rig: the state of the emulated host could not be saved")
    monitor().call("quit")
    os.rename(snapshot + ".new", snapshot)
    return 0


def run(process, monitor):
    monitor().wait("query-status", ("paused", "running", "postmigrate"))
    monitor().call("cont")
    process.stdin.write(b"go\n")
    process.stdin.flush()
    status = 125
    for line in lines(process):
        if line.startswith("RIG-STATUS="):
            status = int(line.split("=")[1])
        else:
            print(line, flush=True)
    return status


def main():
    mode, seconds, snapshot, command = sys.argv[1], float(sys.argv[2]), sys.argv[3], sys.argv[4:]
    late = threading.Event()
    with tempfile.TemporaryDirectory() as folder:
        command += ["-qmp", f"unix:{folder}/qmp,server=on,wait=off"]
        if mode == "run":
            command += ["-incoming", f"exec:cat {snapshot}"]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT)

        def end():
            late.set()
            process.kill()

        timer = threading.Timer(seconds, end)
        timer.daemon = True
        timer.start()
        connected = []

        def monitor():
            if not connected:
                connected.append(Monitor(f"{folder}/qmp", time.monotonic() + 10))
            return connected[0]

        try:
            status = save(process, monitor, snapshot) if mode == "save" else run(process, monitor)
            process.wait()
        finally:
            process.kill()
    sys.exit(124 if late.is_set() else status)


main()
