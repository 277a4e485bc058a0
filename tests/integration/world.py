"""A little internet for tests: two network namespaces, one for the boxes' host and one with servers at addresses that
are public anywhere else, and a DNS server of its own. Needs root.
"""
import contextlib
import ctypes
import hashlib
import json
import os
import socket
import socketserver
import struct
import subprocess
import tempfile
import threading

import boxtest

CLONE_NEWNS, CLONE_NEWNET, MS_BIND, MS_REC, MS_PRIVATE = 0x20000, 0x40000000, 0x1000, 0x4000, 0x40000
HOST, SERVER, OTHER, PRIVATE, DNS = "198.52.100.1", "198.52.100.10", "198.52.100.11", "10.77.0.10", "198.52.100.53"
HOST6, SERVER6, OTHER6 = "2a0e:77::1", "2a0e:77::10", "2a0e:77::11"
A, NS, CNAME, SOA, PTR, MX, TXT, AAAA, SRV, OPT = 1, 2, 5, 6, 12, 15, 16, 28, 33, 41

libc = ctypes.CDLL(None, use_errno=True)


def check(result):
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


@contextlib.contextmanager
def inside(namespace):
    """This thread's new sockets belong to that namespace."""
    with open("/proc/thread-self/ns/net") as home, open(f"/run/netns/{namespace}") as there:
        check(libc.setns(there.fileno(), CLONE_NEWNET))
        try:
            yield
        finally:
            check(libc.setns(home.fileno(), CLONE_NEWNET))


def encode_name(name):
    return b"".join(bytes([len(label)]) + label.encode() for label in name.split(".") if label) + b"\0"


class Names:
    """Records by (name, type): lists of data in wire format. Counts what is asked."""

    def __init__(self):
        self.records, self.asked = {}, []

    def add(self, name, *addresses):
        for address in addresses:
            family, kind = (socket.AF_INET6, AAAA) if ":" in address else (socket.AF_INET, A)
            self.records.setdefault((name, kind), []).append(socket.inet_pton(family, address))

    def put(self, name, kind, data):
        self.records.setdefault((name, kind), []).append(data)

    def answer(self, query, stream):
        at, labels = 12, []
        while query[at]:
            labels.append(query[at + 1:at + 1 + query[at]].decode())
            at += 1 + query[at]
        name, kind = ".".join(labels).lower(), struct.unpack(">H", query[at + 1:at + 3])[0]
        self.asked.append((name, kind))
        question = query[12:at + 5]
        owner = b"\xc0\x0c"
        found = [(owner, kind, data) for data in self.records.get((name, kind), [])]
        if not found and (name, CNAME) in self.records:
            found = [(owner, CNAME, encode_name(self.records[name, CNAME]))]
            target = self.records[name, CNAME]
            found += [(encode_name(target), kind, data) for data in self.records.get((target, kind), [])]
        known = any(key[0] == name for key in self.records)
        body = b"".join(of + struct.pack(">HHIH", k, 1, 60, len(data)) + data for of, k, data in found)
        if not stream and len(body) > 400:
            return query[:2] + struct.pack(">HHHHH", 0x8380, 1, 0, 0, 0) + question
        return query[:2] + struct.pack(">HHHHH", 0x8180 if known else 0x8183, 1, len(found), 0, 0) + question + body


class World:
    def __init__(self):
        self.stack = contextlib.ExitStack()
        self.host, self.net = (f"boxlite-{kind}-{os.getpid()}" for kind in ("host", "net"))
        self.names = Names()
        try:
            self.build()
        except BaseException:
            self.close()
            raise

    def build(self):
        for namespace in (self.host, self.net):
            subprocess.run(["ip", "netns", "add", namespace], check=True)
            self.stack.callback(subprocess.run, ["ip", "netns", "del", namespace])
        # As on most hosts; a fresh namespace lets nobody send echoes.
        with inside(self.host), open("/proc/sys/net/ipv4/ping_group_range", "w") as file:
            file.write("0 2147483647")
        ip = lambda namespace, *args: subprocess.run(["ip", "-n", namespace, *args], check=True)
        ip(self.host, "link", "add", "world", "type", "veth", "peer", "name", "hosts", "netns", self.net)
        for namespace, device, addresses in ((self.host, "world", [f"{HOST}/24", "10.77.0.1/24", f"{HOST6}/64"]),
                                             (self.net, "hosts", [f"{a}/24" for a in (SERVER, OTHER, PRIVATE, DNS)] + [f"{a}/64" for a in (SERVER6, OTHER6)])):
            ip(namespace, "link", "set", "lo", "up")
            for address in addresses:
                ip(namespace, "addr", "add", address, "dev", device, *(["nodad"] if ":" in address else []))
            ip(namespace, "link", "set", device, "up")
        folder = self.stack.enter_context(tempfile.TemporaryDirectory(prefix="boxlite-world-"))
        self.resolv_conf = os.path.join(folder, "resolv.conf")
        with open(self.resolv_conf, "w") as out:
            out.write(f"nameserver {DNS}\nsearch corp.example\noptions timeout:2 attempts:2\n")
        os.chmod(folder, 0o755)
        self.serve(DNS, 53, self.dns_stream)
        self.serve_udp(DNS, 53, lambda query: self.names.answer(query, False))

    def dns_stream(self, connection):
        while header := connection.recv(2, socket.MSG_WAITALL):
            answer = self.names.answer(connection.recv(struct.unpack(">H", header)[0], socket.MSG_WAITALL), True)
            connection.sendall(struct.pack(">H", len(answer)) + answer)

    def serve(self, address, port, handle, namespace=None):
        """Calls handle(connection) in a thread for each connection; returns the port."""
        class Handler(socketserver.BaseRequestHandler):
            def handle(self):
                with contextlib.suppress(ConnectionError):
                    handle(self.request)

        class Server(socketserver.ThreadingTCPServer):
            address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
            allow_reuse_address, daemon_threads, request_queue_size = True, True, 1024

        with inside(namespace or self.net):
            server = Server((address, port), Handler)
        self.start(server)
        return server.server_address[1]

    def serve_udp(self, address, port, answer, namespace=None):
        class Handler(socketserver.BaseRequestHandler):
            def handle(self):
                self.request[1].sendto(answer(self.request[0]), self.client_address)

        class Server(socketserver.ThreadingUDPServer):
            address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
            daemon_threads, max_packet_size = True, 65535

        with inside(namespace or self.net):
            server = Server((address, port), Handler)
        self.start(server)
        return server.server_address[1]

    def start(self, server):
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        self.stack.callback(server.server_close)
        self.stack.callback(server.shutdown)

    def enter(self, user=None):
        """For subprocess's preexec_fn: the process sees this world's host, with its resolv.conf."""
        with open(f"/run/netns/{self.host}") as there:
            check(libc.setns(there.fileno(), CLONE_NEWNET))
        check(libc.unshare(CLONE_NEWNS))
        check(libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None))
        check(libc.mount(self.resolv_conf.encode(), b"/etc/resolv.conf", None, MS_BIND, None))
        if user:
            os.setgroups([])
            os.setresgid(user.pw_gid, user.pw_gid, user.pw_gid)
            os.setresuid(user.pw_uid, user.pw_uid, user.pw_uid)
            libc.prctl(4, 1, 0, 0, 0)  # /proc/self is the user's, as after a login

    def close(self):
        self.stack.close()


class Home(boxtest.Home):
    """A home whose boxes run on the world's host."""

    def __init__(self, world, user=None):
        super().__init__(user)
        self.world = world

    def options(self):
        options = super().options()
        for key in ("user", "group", "extra_groups"):
            options.pop(key, None)
        options["preexec_fn"] = lambda: self.world.enter(self.user)
        return options

    def flows(self, box):
        """The log of its connections."""
        result = self.run("network", "log", "--format", "json", box)
        assert result.code == 0, result
        return [json.loads(line) for line in result.out.decode().splitlines()]


def read_head(connection, step=65536):
    """The head of an HTTP request, with a step of 1 nothing that comes behind it; None when the connection ends before."""
    head = b""
    while b"\r\n\r\n" not in head:
        piece = connection.recv(step)
        if not piece:
            return None
        head += piece
    return head


def http(body, log=None):
    """A handler that answers each request with `body`."""
    def handle(connection):
        head = read_head(connection)
        if head is None:
            return
        if log is not None:
            log.append(head)
        connection.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    return handle


def swallow(results):
    """A handler that reads to the end, answers with the digest, and appends it."""
    def handle(connection):
        digest = hashlib.sha256()
        while piece := connection.recv(1 << 20):
            digest.update(piece)
        results.append(digest.hexdigest())
        connection.sendall(digest.hexdigest().encode())
    return handle
