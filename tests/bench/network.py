"""A box's network against slirp4netns and pasta on the same host: throughput each way and connections a second, rounds
interleaved. The server is iperf3, and one that answers connections, on the host's loopback.

    BOXLITE=… python3 -B tests/bench/network.py       as root; needs iperf3, slirp4netns and passt

Not part of the tests: it wants an idle machine.
"""
import contextlib
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "integration"))
import boxtest  # noqa: E402

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "5"))
SECONDS = os.environ.get("BENCH_SECONDS", "4")
CONNECT = """
import socket, sys, time
to = (sys.argv[1], int(sys.argv[2]))
start = time.perf_counter()
for _ in range(300):
    s = socket.create_connection(to); s.sendall(b"x"); s.recv(1); s.close()
print(300 / (time.perf_counter() - start))
"""


class Slirp4netns:
    name, host = "slirp4netns", "10.0.2.2"

    def __enter__(self):
        self.holder = subprocess.Popen(["unshare", "-n", "sleep", "infinity"])
        boxtest.wait_until(lambda: os.readlink(f"/proc/{self.holder.pid}/ns/net") != os.readlink("/proc/self/ns/net"), "a namespace")
        read, write = os.pipe()
        self.process = subprocess.Popen(["slirp4netns", "--configure", "--mtu=65520", f"--ready-fd={write}", str(self.holder.pid), "tap0"],
                                        pass_fds=[write], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(write)
        os.read(read, 1)
        os.close(read)
        return self

    def run(self, *command):
        return subprocess.run(["nsenter", "-t", str(self.holder.pid), "-n", *command], capture_output=True, text=True, check=True).stdout

    def __exit__(self, *_):
        for process in (self.process, self.holder):
            process.kill()
            process.wait()


class Pasta:
    name = "pasta"

    def __enter__(self):
        route = json.loads(subprocess.run(["ip", "-j", "route", "show", "default"], capture_output=True, text=True, check=True).stdout)
        self.host = route[0]["gateway"]
        return self

    def run(self, *command):
        return subprocess.run(["pasta", "-q", "--config-net", "--runas", "0", "--", *command], capture_output=True, text=True, check=True).stdout

    def __exit__(self, *_):
        pass


class Box:
    name, host = "box", "host.boxlite.internal"

    def __init__(self):
        self.home = boxtest.Home()

    def __enter__(self):
        layout = boxtest.debian_image(["python3-minimal", "iperf3"]).rpartition(":")[0]
        self.check("import", layout, "bench:1")
        self.check("run", "-d", "--name", "box", "--memory", "1024", "--allow-net", "host.boxlite.internal", "bench:1", "sleep", "infinity")
        return self

    def check(self, *args):
        result = self.home.run(*args, timeout=600)
        if result.code:
            raise SystemExit(f"{args}: {result!r}")
        return result.out.decode()

    def run(self, *command):
        return self.check("exec", "box", *command)

    def __exit__(self, *_):
        self.home.close()


def answer(listener):
    while True:
        with contextlib.suppress(OSError), listener.accept()[0] as connection:
            connection.recv(1)
            connection.sendall(b"y")


def throughput(peer, port, *flags):
    out = json.loads(peer.run("iperf3", "-J", "-c", peer.host, "-p", port, "-t", SECONDS, *flags))
    return out["end"]["sum_received"]["bits_per_second"] / 1e9


def main():
    port = str(boxtest.free_port())
    server = subprocess.Popen(["iperf3", "-s", "-p", port], stdout=subprocess.DEVNULL)
    listener = socket.create_server(("127.0.0.1", 0), backlog=512)
    threading.Thread(target=answer, args=(listener,), daemon=True).start()
    measures = {
        "to the host, 1 stream, Gbit/s": lambda peer: throughput(peer, port),
        "from the host, 1 stream, Gbit/s": lambda peer: throughput(peer, port, "-R"),
        "to the host, 16 streams, Gbit/s": lambda peer: throughput(peer, port, "-P", "16"),
        "from the host, 16 streams, Gbit/s": lambda peer: throughput(peer, port, "-R", "-P", "16"),
        "connections a second": lambda peer: float(peer.run("python3", "-c", CONNECT, peer.host, str(listener.getsockname()[1]))),
    }
    missing = [tool for tool in ("iperf3", "slirp4netns", "pasta") if not shutil.which(tool)]
    if missing:
        raise SystemExit(f"not installed: {', '.join(missing)}")
    try:
        with Box() as box, Slirp4netns() as slirp, Pasta() as pasta:
            peers = (box, slirp, pasta)
            results = {(name, peer.name): [] for name in measures for peer in peers}
            for _ in range(ROUNDS):
                for name, measure in measures.items():
                    for peer in peers:
                        results[name, peer.name].append(measure(peer))
            for name in measures:
                line = f"{name:<36}"
                for peer in peers:
                    values = results[name, peer.name]
                    line += f"  {peer.name} {statistics.median(values):.3g} ({min(values):.3g} to {max(values):.3g})"
                print(line, flush=True)
    finally:
        server.kill()
        server.wait()


if __name__ == "__main__":
    main()
