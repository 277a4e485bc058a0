"""A box's network against slirp4netns and pasta on the same host: throughput each way, connections and requests a
second, how long a connection takes to open, rounds interleaved. The server is iperf3, and one that answers bytes, on
the host's loopback. Two minutes at most, once the guest's image has been made.

    BOXLITE=… python3 -B tests/bench/network.py       as root; needs iperf3, slirp4netns and passt

Not part of the tests: it wants an idle machine.
"""
import collections
import contextlib
import json
import multiprocessing
import os
import select
import shutil
import socket
import statistics
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "integration"))
import boxtest  # noqa: E402

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "2"))
SECONDS = os.environ.get("BENCH_SECONDS", "2")
SMALL = """
import socket, sys, time
to, count = (sys.argv[1], int(sys.argv[2])), int(sys.argv[3])
to = socket.getaddrinfo(*to, socket.AF_INET, socket.SOCK_STREAM)[0][4]
opening, start = [], time.perf_counter()
for _ in range(count):
    before = time.perf_counter()
    s = socket.create_connection(to)
    opening.append(time.perf_counter() - before)
    s.sendall(b"x"); s.recv(1); s.close()
connections = count / (time.perf_counter() - start)
s = socket.create_connection(to)
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
start = time.perf_counter()
for _ in range(count):
    s.sendall(b"x"); s.recv(1)
print(connections, sorted(opening)[count // 2] * 1e6, count / (time.perf_counter() - start))
"""
SMALL_COUNT = "500"


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
    name, host, address = "box", "host.boxlite.internal", "192.168.127.254"

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
    """Each byte with one, on every connection, for ever."""
    poll = select.epoll()
    poll.register(listener.fileno(), select.EPOLLIN)
    open_ones = {}
    while True:
        for descriptor, _ in poll.poll():
            if descriptor == listener.fileno():
                connection, _ = listener.accept()
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                open_ones[connection.fileno()] = connection
                poll.register(connection.fileno(), select.EPOLLIN)
                continue
            with contextlib.suppress(ConnectionError):
                if data := open_ones[descriptor].recv(4096):
                    open_ones[descriptor].sendall(data)
                    continue
            open_ones.pop(descriptor).close()


def throughput(peer, port, *flags):
    out = json.loads(peer.run("iperf3", "-J", "-c", peer.host, "-p", port, "-t", SECONDS, *flags))
    return [out["end"]["sum_received"]["bits_per_second"] / 1e9]


def small(peer, port):
    return [float(number) for number in peer.run("python3", "-c", SMALL, peer.host, port, SMALL_COUNT).split()]


def main():
    missing = [tool for tool in ("iperf3", "slirp4netns", "pasta") if not shutil.which(tool)]
    if missing:
        raise SystemExit(f"not installed: {', '.join(missing)}")
    port = str(boxtest.free_port())
    server = subprocess.Popen(["iperf3", "-s", "-p", port], stdout=subprocess.DEVNULL)
    listener = socket.create_server(("127.0.0.1", 0), backlog=512)
    echo = multiprocessing.Process(target=answer, args=(listener,), daemon=True)
    echo.start()
    measures = [
        (["to the host, 1 stream, Gbit/s"], lambda peer: throughput(peer, port)),
        (["from the host, 1 stream, Gbit/s"], lambda peer: throughput(peer, port, "-R")),
        (["to the host, 16 streams, Gbit/s"], lambda peer: throughput(peer, port, "-P", "16")),
        (["from the host, 16 streams, Gbit/s"], lambda peer: throughput(peer, port, "-R", "-P", "16")),
        (["connections a second, one by one", "a connection opens in, us", "requests a second, one by one"],
         lambda peer: small(peer, str(listener.getsockname()[1]))),
    ]
    try:
        with Box() as box, Slirp4netns() as slirp, Pasta() as pasta:
            peers = (box, slirp, pasta)
            results = collections.defaultdict(list)
            for _ in range(ROUNDS):
                for names, measure in measures:
                    for peer in peers:
                        for name, value in zip(names, measure(peer)):
                            results[name, peer.name].append(value)
            for name in (name for names, _ in measures for name in names):
                line = f"{name:<36}"
                for peer in peers:
                    values = results[name, peer.name]
                    line += f"  {peer.name} {statistics.median(values):.3g} ({min(values):.3g} to {max(values):.3g})"
                print(line, flush=True)
    finally:
        echo.kill()
        server.kill()
        server.wait()


if __name__ == "__main__":
    main()
