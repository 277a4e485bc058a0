"""What leaves a box, and what does not: a table of the ways around egress policies that are known of sandboxes, each over
both address families, against servers in network namespaces. A program in the box takes each way; what it saw, that it
saw it soon, what the servers saw, and the rule that the log names are compared with the table."""
import contextlib
import json
import ssl
import struct
import unittest

import boxtest
import world
from boxtest import wait_until
from world import OTHER, OTHER6, PRIVATE, SERVER, SERVER6

SOON = 5  # seconds: a refusal is not a time-out

# In the box: takes [kind, arguments…] lists from its input, prints [outcome, seconds] for each.
PROBE = r"""
import json, socket, sys, time
def tcp(host, port, data=""):
    try: s = socket.create_connection((host, port), 20)
    except socket.gaierror: return "no such name"
    except ConnectionRefusedError: return "refused"
    except OSError as error: return str(error)
    with s:
        try:
            s.sendall(bytes.fromhex(data))
            answer = s.recv(1000)
            return answer.decode("latin-1").rpartition("\n\n")[2].rpartition("\r\n\r\n")[2] if answer else "ended"
        except ConnectionError: return "ended"
        except TimeoutError: return "silent"
def udp(host, port, data="78"):
    try: to = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
    except socket.gaierror: return "no such name"
    with socket.socket(to[0], socket.SOCK_DGRAM) as s:
        s.settimeout(3)
        try:
            s.connect(to[4]); s.send(bytes.fromhex(data)); return "answer" if s.recv(1000) else "empty"
        except TimeoutError: return "silent"
        except OSError as error: return "refused"
def resolve(host, family):
    try: return socket.getaddrinfo(host, 1, socket.AF_INET6 if family == 6 else socket.AF_INET, socket.SOCK_STREAM)[0][4][0]
    except socket.gaierror: return "no such name"
def ask(data):
    with open("/etc/resolv.conf") as conf: server = next(l.split()[1] for l in conf if l.startswith("nameserver"))
    with socket.socket(socket.AF_INET6 if ":" in server else socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.settimeout(3); s.sendto(bytes.fromhex(data), (server, 53))
        return "code %d" % (s.recv(1000)[3] & 15)
def echo(host):
    six = ":" in host
    with socket.socket(socket.AF_INET6 if six else socket.AF_INET, socket.SOCK_RAW, 58 if six else 1) as s:
        s.settimeout(0.2); s.connect((host, 0))
        data = bytes([128 if six else 8, 0, 0, 0, 0, 1, 0, 1])
        if not six: data = data[:2] + (0xffff ^ 0x0802).to_bytes(2, "big") + data[4:]
        end = time.monotonic() + 1
        s.send(data)
        while time.monotonic() < end:
            try: got = s.recv(1000)
            except TimeoutError: continue
            except OSError: return "refused"
            if (got[0] == 129) if six else (got[20] == 0): return "answer"
        return "silent"
for way in json.load(sys.stdin):
    begin = time.monotonic()
    print(json.dumps([globals()[way[0]](*way[1:]), time.monotonic() - begin]), flush=True)
"""


def http(host, target="/", method="GET"):
    return f"{method} {target} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode("latin-1").hex()


def client_hello(name, extension=None):
    """The opening of a TLS connection; with an extension more where one is given."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    out = ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), out, server_hostname=name).do_handshake()
    hello = bytearray(out.read())
    if extension:
        # The extensions are the last part of the hello: behind version, random, session, suites and compression.
        at = 5 + 4 + 2 + 32
        at += 1 + hello[at]
        at += 2 + struct.unpack_from(">H", hello, at)[0]
        at += 1 + hello[at]
        added = struct.pack(">HH", extension, 8) + bytes(8)
        struct.pack_into(">H", hello, at, len(hello) - at - 2 + len(added))
        hello += added
        struct.pack_into(">H", hello, 3, len(hello) - 5)
        hello[6:9] = struct.pack(">I", len(hello) - 9)[1:]
    return hello.hex()


def question(*labels, kind=world.A):
    return (b"\1\2\1\0\0\1\0\0\0\0\0\0" + b"".join(bytes([len(label)]) + label for label in labels) + b"\0"
            + struct.pack(">HH", kind, 1)).hex()


class Egress(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.world = world.World()
        cls.addClassCleanup(cls.world.close)
        cls.seen = []  # by servers that nothing may reach, or with which nothing may be said

        def listening(address):
            def handle(connection):
                data = connection.recv(1000)
                if data:
                    cls.seen.append((address, data))
                    connection.sendall(b"HTTP/1.0 200 OK\r\n\r\nhere")
            return handle

        for address in (SERVER, SERVER6, OTHER, OTHER6, PRIVATE):
            for port in (80, 443, 853):
                cls.world.serve(address, port, listening(address))
            for port in (53, 443, 853):
                cls.world.serve_udp(address, port, lambda data, address=address: cls.seen.append((address, data)) or data)
        names = cls.world.names
        names.add("www.example.com", SERVER, SERVER6)
        names.add("other.example.org", OTHER, OTHER6)
        for family, own, other in ((4, SERVER, OTHER), (6, SERVER6, OTHER6)):
            names.add(f"own{family}.example.com", own)
            names.add(f"other{family}.example.org", other)
            names.add(f"flip{family}.example.net", own)
        names.add("inner.example.net", PRIVATE, "fd00:77::10")
        names.records["chain.example.net", world.CNAME] = "inner.example.net"
        layout = boxtest.debian_image(["python3"]).rpartition(":")[0]
        cls.home = world.Home(cls.world)
        cls.addClassCleanup(cls.home.close)
        result = cls.home.run("import", layout, "python:12", timeout=300)
        assert result.code == 0, result

    def box(self, *flags):
        result = self.home.run("run", "-d", "--name", "box", *flags, "python:12", "sleep", "900")
        self.assertEqual(result.code, 0, result)
        self.addCleanup(self.home.run, "rm", "-f", "box")
        del self.seen[:]

    def take(self, ways):
        result = self.home.run("exec", "-i", "box", "python3", "-c", PROBE, stdin=json.dumps(ways).encode(), timeout=300)
        self.assertEqual(result.code, 0, result)
        return [json.loads(line) for line in result.out.splitlines()]

    def table(self, rows):
        """Of (what it is, way, outcome, part of the rule that refuses or "")."""
        outcomes = self.take([row[1] for row in rows])
        self.assertEqual(len(outcomes), len(rows))
        for (what, way, expected, rule), (outcome, seconds) in zip(rows, outcomes):
            with self.subTest(what, way=way[:3]):
                self.assertIn(outcome, expected if isinstance(expected, tuple) else (expected,))
                if rule:
                    self.assertLess(seconds, SOON * boxtest.PATIENCE)
                    wait_until(lambda: any(self.is_about(flow, way, rule) for flow in self.refused()),
                               f"the log has {way[:3]} with '{rule}': {self.refused()}", 5)

    def refused(self):
        return [flow for flow in self.home.flows("box") if flow["verdict"] == "refused"]

    @staticmethod
    def is_about(flow, way, rule):
        protocol = {"tcp": "tcp", "udp": "udp", "echo": "icmp", "resolve": "dns", "ask": "dns"}[way[0]]
        # A name that is not told is refused before anything is sent to it.
        return flow["protocol"] in (protocol, "dns") and rule in flow["rule"] and (
            way[0] == "ask" or flow["protocol"] == "dns" or way[0] == "echo" or flow["port"] == way[2])

    def reached(self, *allowed):
        """Nothing arrived but at these servers."""
        self.assertEqual([entry for entry in self.seen if entry[0] not in allowed], [])

    def test_without_a_list(self):
        """Public is open; everything special is closed, whatever it is written as."""
        self.box()
        closed = (
            # 0.0.0.0 and :: are the box itself. One address of each kind; then forms that hold another address.
            [("10.77.0.10", "private"), ("172.16.0.1", "private"), ("192.168.1.1", "private"), ("100.64.0.1", "shared"),
             ("169.254.0.1", "link-local"), ("169.254.169.254", "metadata"), ("192.0.2.1", "documentation"),
             ("198.18.0.1", "benchmarking"), ("240.0.0.1", "reserved"), ("192.168.5.255", "private"), (world.HOST, "own addresses"),
             ("0x0a4d000a", "private"), ("012.0115.0.012", "private")]
            + [("fd00:77::10", "private"), ("fd00:ec2::254", "metadata"), ("2001:db8::1", "documentation"), (world.HOST6, "own addresses"),
               ("64:ff9b::a4d:a", "closed"), ("64:ff9b::a9fe:a9fe", "closed"), ("2002:a4d:a::1", "closed"), ("::ffff:10.77.0.10", "private"),
               ("::10.77.0.10", "closed")])
        rows = [(f"closed: {address}", ["tcp", address, 80], "refused", rule) for address, rule in closed]
        for own in (SERVER, SERVER6):
            rows += [("open", ["tcp", own, 80, http("www.example.com")], "here", ""),
                     ("QUIC without a list", ["udp", own, 443], "answer", ""),
                     ("another resolver without a list", ["udp", own, 53], "answer", "")]
        rows += [("metadata by datagram", ["udp", address, 80], "refused", "metadata") for address in ("169.254.169.254", "fd00:ec2::254")]
        self.table(rows)
        self.reached(SERVER, SERVER6)

    def test_names_that_mean_something_else_later(self):
        self.box("--allow-net", "*.example.net")
        for family, own in ((4, SERVER), (6, SERVER6)):
            self.table([("at first it is public", ["resolve", f"flip{family}.example.net", family], own, ""),
                        ("and reached", ["tcp", f"flip{family}.example.net", 80, http(f"flip{family}.example.net")], "here", "")])
        names = self.world.names
        for family, kind, turned in ((4, world.A, (PRIVATE, "127.0.0.1", "169.254.169.254")),
                                     (6, world.AAAA, ("fd00:77::10", "::1", "fd00:ec2::254", "::ffff:10.77.0.10", "64:ff9b::a4d:a"))):
            for address in turned:
                names.records.pop((f"flip{family}.example.net", kind), None)
                names.add(f"flip{family}.example.net", address)
                # What was told for a time to live may be told again until then, but nothing special is told or dialled.
                outcomes = self.take([["resolve", f"flip{family}.example.net", family],
                                      ["tcp", f"flip{family}.example.net", 80, http(f"flip{family}.example.net")]])
                self.assertIn(outcomes[0][0], ("no such name", SERVER, SERVER6), address)
                self.assertIn(outcomes[1][0], ("no such name", "refused", "ended", "here"), address)
        self.table([("a chain to a private address", ["resolve", "chain.example.net", 4], "no such name", "closed"),
                    ("a chain to a private address", ["resolve", "chain.example.net", 6], "no such name", "closed"),
                    ("dialled by name", ["tcp", "chain.example.net", 80], "no such name", "closed")])
        self.reached(SERVER, SERVER6)

    def test_just_a_name(self):
        self.box("--allow-net", "www.example.com", "--allow-net", "own4.example.com", "--allow-net", "own6.example.com")
        listed = "not in the allow-list"
        for family, own, other in ((4, SERVER, OTHER), (6, SERVER6, OTHER6)):
            name = f"own{family}.example.com"
            kind = world.AAAA if family == 6 else world.A
            self.table([
                ("what is listed", ["tcp", name, 80, http(name)], "here", ""),
                ("what is listed, TLS", ["tcp", name, 443, client_hello(name)], "here", ""),
                # 25: the name that a connection says, and where it goes.
                ("an address with a listed name in it", ["tcp", other, 80, http(name)], "refused", listed),
                ("an address with a listed SNI", ["tcp", other, 443, client_hello(name)], "refused", listed),
                ("another SNI", ["tcp", name, 443, client_hello("other.example.org")], "ended", "asks for 'other.example.org'"),
                ("another SNI, also listed: it is that host that is dialled", ["tcp", name, 443, client_hello("www.example.com")], "here", ""),
                ("no SNI", ["tcp", name, 443, client_hello(None)], "ended", "names no server"),
                ("ECH behind a listed name", ["tcp", name, 443, client_hello(name, 0xfe0d)], "ended", "ECH"),
                # 26: the listed name's server by a literal is not the listed name.
                ("a literal", ["tcp", "0xc634010a" if family == 4 else other, 80], ("refused",), listed),
                # 27: other protocols obey the same list.
                ("QUIC to a host off the list", ["udp", other, 443], "refused", listed),
                ("DoT", ["tcp", other, 853, client_hello("dns.example")], "refused", listed),
                ("DoH", ["tcp", other, 443, client_hello("dns.example")], "refused", listed),
                ("DoH at a listed address", ["tcp", name, 443, client_hello("dns.example")], "ended", "asks for 'dns.example'"),
                ("DoQ", ["udp", other, 853], "refused", listed),
                ("another resolver", ["udp", other, 53, question(b"www", b"example", b"com")], "refused", listed),
                ("another resolver over TCP", ["tcp", other, 53], "refused", listed),
                ("a tunnel of names", ["resolve", f"c2VjcmV0.{other.replace(':', '-')}.example.org", family], "no such name", listed),
                ("an echo", ["echo", other], ("refused", "silent"), listed),
                # 28: tunnels and names that are none.
                ("CONNECT", ["tcp", name, 80, http("other.example.org:443", "other.example.org:443", "CONNECT")], "ended", "other.example.org"),
                ("CONNECT for itself in name", ["tcp", name, 80, http(name, "other.example.org:443", "CONNECT")], "ended", "other.example.org"),
                ("NUL in a Host", ["tcp", name, 80, http(f"other.example.org\0.{name}")], "ended", "HTTP"),
                ("NUL in an SNI", ["tcp", name, 443, client_hello(name).replace(name.encode().hex(), b"evil\0".hex() + name[5:].encode().hex())],
                 "ended", "name is none"),
                ("NUL in a question", ["ask", question(b"other\0", b"www", b"example", b"com", kind=kind)], ("code 3", "code 5"), ""),
                # 29: plain HTTP is no way around.
                ("another Host", ["tcp", name, 80, http("other.example.org")], "ended", "asks for 'other.example.org'"),
                ("absolute form", ["tcp", name, 80, http(name, "http://other.example.org/")], "ended", "other.example.org"),
            ])
        self.assertEqual([asked for asked, _ in self.world.names.asked if "c2VjcmV0" in asked or "\0" in asked], [])
        self.reached(SERVER, SERVER6)
        # And of those that were refused, nothing was said to the listed server.
        for _, data in self.seen:
            self.assertNotIn(b"other.example.org", data)
            self.assertNotIn(b"dns.example", data)

    def test_an_empty_list(self):
        self.box("--allow-net", "")
        listed = "not in the allow-list"
        rows = [("resolve", ["resolve", "www.example.com", family], "no such name", listed) for family in (4, 6)]
        for own in (SERVER, SERVER6):
            rows += [("TCP", ["tcp", own, 80], "refused", listed), ("UDP", ["udp", own, 443], "refused", listed),
                     ("echo", ["echo", own], ("refused", "silent"), listed)]
        self.table(rows)
        # A change that is refused opens nothing.
        self.assertNotEqual(self.home.run("update", "--allow-net", "no rule", "box").code, 0)
        self.table(rows)
        self.reached()


if __name__ == "__main__":
    unittest.main()
