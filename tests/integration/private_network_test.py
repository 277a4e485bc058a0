"""Private networks: boxes that reach each other by address and by name, over both families, apart from all others; the
rules and the log of it; addresses that stay."""
import json
import time
import unittest

import boxtest
from boxtest import wait_until


class PrivateNetwork(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.home = boxtest.Home()
        cls.addClassCleanup(cls.home.close)
        serve = "echo hello from $0 > /srv/index.html; exec httpd -f -h /srv"
        for name, network in (("web", "backend"), ("db", "backend"), ("apart", "other")):
            result = cls.home.run("run", "-d", "--name", name, "--network", network, "base", "sh", "-c", serve, name)
            assert result.code == 0, result

    def check(self, *args, code=0, **options):
        result = self.home.run(*args, **options)
        self.assertEqual(result.code, code, f"{args}: {result!r}")
        return result.out.decode()

    def sh(self, box, script):
        return self.check("exec", box, "sh", "-c", script)

    def fails_at_once(self, box, script):
        start = time.monotonic()
        result = self.home.run("exec", box, "sh", "-c", script)
        self.assertNotEqual(result.code, 0, result)
        self.assertLess(time.monotonic() - start, 5, result)

    def flows(self, box):
        return [json.loads(line) for line in self.check("network", "log", "--format", "json", box).splitlines()]

    def network(self, box):
        return self.home.inspect(box)["Network"]

    def listens(self, box):
        wait_until(lambda: self.home.run("exec", box, "sh", "-c", "wget -qO- http://127.0.0.1/").code == 0, f"{box} listens")

    def setUp(self):
        for box in ("web", "db", "apart"):
            self.listens(box)

    def test_1_addresses(self):
        web, db, apart = (self.network(box) for box in ("web", "db", "apart"))
        self.assertEqual((web["Mode"], apart["Mode"]), ("backend", "other"))
        blocks = [network["Address"].rpartition(".")[0] for network in (web, db, apart)]
        self.assertEqual(blocks[0], blocks[1])
        self.assertNotEqual(blocks[0], blocks[2])
        self.assertEqual(len({network["MacAddress"] for network in (web, db, apart)}), 3)
        out = self.sh("web", "ip addr show eth0; ip route; ip -6 route; cat /etc/resolv.conf")
        for text in (f"{web['Address']}/24", f"{web['Address6']}/64", web["MacAddress"], "192.168.127.2/24",
                     "default via 192.168.127.1", "search boxlite.internal"):
            self.assertIn(text, out)

    def test_2_reach(self):
        web = self.network("web")
        for host in ("web", "web.boxlite.internal", web["Address"], f"[{web['Address6']}]"):
            self.assertEqual(self.sh("db", f"wget -qO- http://{host}/"), "hello from web\n", host)
        self.assertEqual(self.sh("web", "wget -qO- http://db/"), "hello from db\n")
        for host in (web["Address"], web["Address6"]):
            self.sh("db", f"ping -c 2 -W 5 {host}")
            # A datagram arrives, and so does the answer that nobody takes it.
            self.assertIn(b"refused", self.home.run("exec", "db", "nslookup", "name", host).err)
        self.assertIn("web.boxlite.internal", self.sh("db", f"nslookup {web['Address']}"))
        # A large file, as it is.
        self.sh("web", "head -c 30000000 /dev/urandom > /srv/large")
        self.assertEqual(self.sh("db", "wget -qO- http://web/large | sha256sum"), self.sh("web", "sha256sum < /srv/large"))

    def test_3_a_port_without_a_listener_says_so(self):
        self.fails_at_once("db", "nc -w 20 web 81 < /dev/null")
        wait_until(lambda: [f for f in self.flows("db") if f["port"] == 81 and f.get("error") == "Connection refused"],
                   "it is logged")

    def test_4_apart(self):
        web = self.network("web")
        for host in ("web", "web.boxlite.internal", web["Address"], f"[{web['Address6']}]"):
            self.fails_at_once("apart", f"wget -qO- http://{host}/")
        # Nor the other box's own network.
        for address in ("192.168.127.1", "192.168.127.254"):
            self.fails_at_once("db", f"nc -w 20 {address} 80 < /dev/null")

    def test_5_rules_that_deny(self):
        self.check("update", "--deny-net", "web:80", "db")
        for host in ("web", self.network("web")["Address"], f"[{self.network('web')['Address6']}]"):
            self.fails_at_once("db", f"wget -qO- http://{host}/")
        self.sh("db", "ping -c 1 -W 5 web")
        self.assertEqual(self.sh("web", "wget -qO- http://db/"), "hello from db\n")
        wait_until(lambda: [f for f in self.flows("db") if f["rule"] == "--deny-net web:80"], "it is logged")
        self.check("update", "--no-deny-net", "db")
        self.assertEqual(self.sh("db", "wget -qO- http://web/"), "hello from web\n")

    def test_6_the_log(self):
        self.sh("db", "wget -qO- http://web/")

        def of(box, direction, name):
            return [f for f in self.flows(box) if f["direction"] == direction and f["name"] == name and f["port"] and
                    f["verdict"] == "allowed" and f["protocol"] == "tcp" and f["received_bytes"]]
        wait_until(lambda: of("db", "out", "web.boxlite.internal"), "it is in the log of one")
        wait_until(lambda: of("web", "in", "db.boxlite.internal"), "it is in the log of the other")
        self.assertEqual(of("db", "out", "web.boxlite.internal")[-1]["rule"], "--network backend")

    def test_7_addresses_stay_and_become_free(self):
        before = self.network("db")
        self.check("restart", "-t", "0", "db")
        self.listens("db")
        self.assertEqual(self.network("db")["Address"], before["Address"])
        self.assertEqual(self.sh("web", "wget -qO- http://db/"), "hello from db\n")
        self.check("stop", "-t", "0", "db")
        self.fails_at_once("web", f"nc -w 20 {before['Address']} 80 < /dev/null")
        self.check("rm", "db")
        self.check("run", "-d", "--name", "next", "--network", "backend", "base", "sleep", "600")
        self.assertEqual(self.network("next")["Address"], before["Address"])
        self.sh("web", "ping -c 1 -W 5 next")
        self.check("rm", "-f", "next")

    def test_0_names_of_networks(self):
        for name in ("host", "Upper", "a/b", "x" * 64):
            result = self.home.run("create", "--network", name, "base")
            self.assertEqual(result.code, 2, result)
            self.assertIn(b"network", result.err)


ECHO = """
import select, socket
ones = [socket.socket(family, socket.SOCK_DGRAM) for family in (socket.AF_INET, socket.AF_INET6)]
ones[1].setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
for s in ones: s.bind(("", 7000))
print("listens", flush=True)
while True:
    for s in select.select(ones, [], [])[0]:
        data, peer = s.recvfrom(65535)
        s.sendto(data[::-1], peer)
"""
ASK = """
import os, socket, sys
for host in sys.argv[1:]:
    family, _, _, _, to = socket.getaddrinfo(host, 7000, type=socket.SOCK_DGRAM)[0]
    s = socket.socket(family, socket.SOCK_DGRAM); s.settimeout(10); s.connect(to)
    for size in (1, 1400, 9000, 60000):
        data = os.urandom(size); s.send(data)
        assert s.recv(65535) == data[::-1], (host, size)
print("all")
"""


class Datagrams(boxtest.BoxTest):
    def test_there_and_back_of_any_size(self):
        layout = boxtest.debian_image(["python3"]).rpartition(":")[0]
        self.check("import", layout, "python:12", timeout=300)
        for name in ("one", "two"):
            self.check("run", "-d", "--name", name, "--network", "backend", "python:12", "python3", "-c", ECHO)
            wait_until(lambda: "listens" in self.output("logs", name), f"{name} listens")
        for name, other in (("one", "two"), ("two", "one")):
            network = self.home.inspect(other)["Network"]
            self.assertEqual(self.output("exec", name, "python3", "-c", ASK, other, network["Address"], network["Address6"]), "all\n")


if __name__ == "__main__":
    unittest.main()
