"""A box with many connections: 10,000 that are open and idle, and short ones beside them as fast as they go. None may be
lost, and what its network process has afterwards is what it had before.

    BOXLITE=… python3 -B tests/bench/flows.py       as root

Not part of the tests: it wants an idle machine and takes half a minute. It ends with 1 when something was lost or kept.
"""
import multiprocessing
import os
import resource
import socket
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "integration"))
import boxtest  # noqa: E402
from network import Box, answer  # noqa: E402

IDLE = int(os.environ.get("BENCH_IDLE", "10000"))
SECONDS = os.environ.get("BENCH_SECONDS", "8")
# Opens connections, holds them until a line comes, and then asks on each whether it is still there and ends it. One
# by one: a kernel resets what is left of very many at a time, and what it then drops it does not send again.
HOLD = """
import socket, sys
to, count = (sys.argv[1], int(sys.argv[2])), int(sys.argv[3])
ones = [socket.create_connection(to) for _ in range(count)]
print("open", flush=True)
sys.stdin.readline()
lost = 0
for s in ones:
    try:
        s.settimeout(20); s.sendall(b"x"); lost += s.recv(1) != b"x"
        s.shutdown(socket.SHUT_WR); s.recv(1); s.close()
    except OSError:
        lost += 1
print(lost)
"""
# Many at a time: connects, gets a byte back, closes.
SHORT = """
import select, socket, sys, time
to, end = (sys.argv[1], int(sys.argv[2])), time.monotonic() + float(sys.argv[3])
poll, ones, done, failed, started = select.epoll(), {}, 0, 0, 0
begin = time.monotonic()
while ones or time.monotonic() < end:
    while len(ones) < 64 and time.monotonic() < end:
        s = socket.socket(); s.setblocking(False); s.connect_ex(to)
        ones[s.fileno()] = s; poll.register(s.fileno(), select.EPOLLOUT)
    events = poll.poll(20)
    if not events:
        failed += len(ones); break
    for fd, event in events:
        s = ones[fd]
        try:
            if event & select.EPOLLOUT:
                s.send(b"x"); poll.modify(fd, select.EPOLLIN); continue
            if s.recv(1) != b"x": raise OSError
            done += 1
        except OSError:
            failed += 1
        del ones[fd]; s.close()
print(done, failed, done / (time.monotonic() - begin))
"""


def netd_of(box):
    shim = box.home.inspect("box")["State"]["Pid"]
    for child in boxtest.children(shim):
        with open(f"/proc/{child}/comm") as name:
            if name.read().strip() == "boxlite-netd":
                return child
    raise SystemExit("no network process")


def state_of(pid):
    with open(f"/proc/{pid}/status") as file:
        memory = next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))
    return len(os.listdir(f"/proc/{pid}/fd")), memory / 1024


def main():
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
    echo = multiprocessing.Process(target=answer, args=(listener,), daemon=True)
    echo.start()
    port = str(listener.getsockname()[1])
    bad = False
    try:
        with Box() as box:
            netd = netd_of(box)

            def short(label):
                done, failed, rate = box.run("python3", "-c", SHORT, box.address, port, SECONDS).split()
                print(f"{label}: {done} connections, {failed} lost, {float(rate):.0f} a second", flush=True)
                return int(failed) > 0
            bad |= short("alone")
            before = state_of(netd)
            holder = box.home.popen("exec", "-i", "box", "python3", "-c", HOLD, box.address, port, str(IDLE),
                                    stdin=-1, stdout=-1, text=True)
            begin = time.monotonic()
            if holder.stdout.readline() != "open\n":
                raise SystemExit("the connections did not open")
            held = state_of(netd)
            print(f"{IDLE} opened in {time.monotonic() - begin:.1f} s: {held[0] - before[0]} descriptors, "
                  f"{held[1] - before[1]:.0f} MiB", flush=True)
            bad |= short(f"beside {IDLE} that are idle")
            lost = int(holder.communicate("\n", timeout=120)[0])
            print(f"of the idle ones {lost} lost", flush=True)
            bad |= lost > 0
            boxtest.wait_until(lambda: state_of(netd)[0] <= before[0] + 8, "the descriptors are closed", 60)
            boxtest.wait_until(lambda: state_of(netd)[1] < 16, "its memory is given back", 10)
            after = state_of(netd)
            print(f"before: {before[0]} descriptors, {before[1]:.0f} MiB; after: {after[0]}, {after[1]:.0f} MiB")
            counters = box.home.inspect("box")["Network"]
            print(f"connections in all: {counters['TotalFlows']}, open: {counters['OpenFlows']}, refused: {counters['Refused']}")
            bad |= counters["Refused"] > 0 or counters["OpenFlows"] > 0
    finally:
        echo.kill()
    return bad


if __name__ == "__main__":
    raise SystemExit(main())
