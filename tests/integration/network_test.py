"""A box's network: reaching servers by address and by name, what the policy refuses and how that looks from inside,
published ports, the log. The internet is a network namespace with servers of the test's own."""
import hashlib
import json
import os
import socket
import subprocess
import threading
import time
import unittest

import boxtest
import world
from boxtest import alive, children, kill, wait_until
from world import OTHER, PRIVATE, SERVER, SERVER6, inside


class NetworkTest(unittest.TestCase):
    user = None

    @classmethod
    def setUpClass(cls):
        cls.world = world.World()
        cls.addClassCleanup(cls.world.close)
        for address in (SERVER, OTHER, PRIVATE, SERVER6):
            cls.world.serve(address, 80, world.http(f"hello from {address}\n".encode()))
        names = cls.world.names
        names.add("www.example.com", SERVER)
        names.add("six.example.com", SERVER6)
        names.add("other.example.org", OTHER)
        names.add("short.corp.example", SERVER)
        for number, address in enumerate(("127.0.0.1", PRIVATE, "169.254.169.254", "0.0.0.0", "::1", "fd00::1", "::ffff:127.0.0.1")):
            names.add(f"rebind{number}.example.net", address)
        names.records["alias.example.com", world.CNAME] = "www.example.com"
        names.put("example.com", world.MX, b"\0\x0a" + world.encode_name("mail.example.com"))
        names.put("_sip._tcp.example.com", world.SRV, b"\0\1\0\2\x13\xc4" + world.encode_name("sip.example.com"))
        names.put("example.com", world.TXT, b"\x05words")
        for i in range(60):
            names.put("big.example.com", world.TXT, b"\x0e" + b"word %09d" % i)

    def setUp(self):
        self.home = world.Home(self.world, self.user)
        self.addCleanup(self.home.close)

    def check(self, *args, code=0, **options):
        result = self.home.run(*args, **options)
        self.assertEqual(result.code, code, f"{args}: {result!r}")
        return result

    def sh(self, script, *flags, code=0):
        return self.check("run", "--rm", *flags, "base", "sh", "-c", script, code=code).out.decode()

    def flows(self, box):
        return self.home.flows(box)

    def refused_at_once(self, script, *flags):
        """The program fails inside, soon, and the log tells the rule, which is returned."""
        self.check("run", "-d", "--name", "refused", *flags, "base", "sleep", "600")
        start = time.monotonic()
        result = self.home.run("exec", "refused", "sh", "-c", script, timeout=60)
        self.assertNotEqual(result.code, 0, result)
        self.assertLess(time.monotonic() - start, 5, result)
        wait_until(lambda: [f for f in self.flows("refused") if f["verdict"] == "refused"], "it is logged", 10)
        refused = [f for f in self.flows("refused") if f["verdict"] == "refused"]
        self.assertEqual([f for f in self.flows("refused") if f["verdict"] == "allowed" and f["protocol"] != "udp"], [])
        self.check("rm", "-f", "refused")
        return refused[-1]["rule"]


class Reaching(NetworkTest):
    def test_by_address_and_by_name(self):
        self.assertEqual(self.sh(f"wget -qO- http://{SERVER}/"), f"hello from {SERVER}\n")
        self.assertEqual(self.sh("wget -qO- http://www.example.com/"), f"hello from {SERVER}\n")
        self.assertEqual(self.sh(f"wget -qO- 'http://[{SERVER6}]/'"), f"hello from {SERVER6}\n")
        self.assertEqual(self.sh("wget -qO- http://six.example.com/"), f"hello from {SERVER6}\n")
        self.assertEqual(self.sh("wget -qO- http://alias.example.com/"), f"hello from {SERVER}\n")
        self.assertEqual(self.sh("wget -qO- http://short/"), f"hello from {SERVER}\n")

    def test_addresses_routes_and_files(self):
        out = self.sh("ip addr show eth0; ip route; ip -6 route; cat /etc/resolv.conf /etc/hosts", "--hostname", "me")
        for text in ("192.168.127.2/24", "fd00::2/64", "mtu 65520", "default via 192.168.127.1", "default via fd00::1",
                     "nameserver 192.168.127.1", "search corp.example", "192.168.127.2\tme",
                     "192.168.127.254\thost.boxlite.internal"):
            self.assertIn(text, out)

    def test_without_a_network_there_is_no_interface(self):
        self.assertEqual(self.sh("ls /sys/class/net", "--network", "none").split(), ["lo"])

    def test_large_transfers_both_ways(self):
        results = []
        self.world.serve(SERVER, 9000, world.swallow(results))
        data = os.urandom(1 << 20) * 48
        self.world.serve(SERVER, 9001, lambda connection: connection.sendall(data))
        sums = self.sh(f"nc {SERVER} 9001 < /dev/null | sha256sum; head -c 50331648 /dev/urandom > /tmp/x; sha256sum < /tmp/x; "
                       f"nc {SERVER} 9000 < /tmp/x").split()
        self.assertEqual(sums[0], hashlib.sha256(data).hexdigest())
        self.assertEqual(sums[2], sums[4])

    def test_udp(self):
        # Another name server than the box's own is an ordinary destination.
        self.assertIn(f"Address: {SERVER}", self.sh(f"nslookup www.example.com {world.DNS}"))
        # Without /udp a rule is about TCP. The program is told at once, but tries again.
        result = self.home.run("run", "--rm", "--allow-net", f"{world.DNS}:53", "base", "nslookup", "www.example.com", world.DNS)
        self.assertIn(b"No route to host", result.err)
        self.assertIn(f"Address: {SERVER}", self.sh(f"nslookup www.example.com {world.DNS}", "--allow-net", f"{world.DNS}:53/udp"))

    def test_echoes_also_in_fragments(self):
        self.check("run", "-d", "--name", "box", "--privileged", "base", "sleep", "600")
        for address in (SERVER, SERVER6):
            self.check("exec", "box", "ping", "-c", "2", "-W", "5", address)
            self.check("exec", "box", "ping", "-c", "1", "-W", "5", "-s", "65490", address)
        self.check("exec", "box", "ip", "link", "set", "eth0", "mtu", "1280")
        for address in (SERVER, SERVER6):
            self.check("exec", "box", "ping", "-c", "1", "-W", "5", "-s", "30000", address)

    def test_datagrams_in_fragments(self):
        name = ".".join(["a" * 60] * 4)
        self.world.names.add(name, SERVER)
        script = f"ip link set eth0 mtu 100; nslookup -type=a {name} {world.DNS}"
        self.assertIn(f"Address: {SERVER}", self.sh(script, "--privileged"))

    def test_dhcp_is_answered_too(self):
        self.assertIn("lease of 192.168.127.2 obtained", self.sh("udhcpc -n -q -f -i eth0 -s /bin/true 2>&1"))

    def test_every_kind_of_record(self):
        out = self.sh("for q in 'mx example.com' 'txt example.com' 'srv _sip._tcp.example.com' 'txt big.example.com' "
                      "'ptr 2.0.0.127.in-addr.arpa'; do nslookup -type=$q 2>&1; done; true")
        for text in ("mail.example.com", "words", "sip.example.com"):
            self.assertIn(text, out)

    def test_the_hosts_own_services_with_a_rule(self):
        port = self.world.serve("127.0.0.1", 0, world.http(b"from the host"), self.world.host)
        fetch = f"wget -qO- http://host.boxlite.internal:{port}/"
        self.assertEqual(self.sh(fetch, "--allow-net", f"host.boxlite.internal:{port}"), "from the host")
        self.assertIn("host's own services", self.refused_at_once(fetch))


class Refusing(NetworkTest):
    def test_special_addresses_are_closed(self):
        for address, word in ((PRIVATE, "private"), ("169.254.169.254", "metadata"), ("10.77.0.1", "private"),
                              (world.HOST, "own addresses")):
            self.assertIn(word, self.refused_at_once(f"nc -w 20 {address} 80 < /dev/null"))

    def test_echo(self):
        self.check("run", "-d", "--name", "box", "base", "sleep", "600")
        self.check("exec", "box", "ping", "-c", "1", "-W", "1", PRIVATE, code=1)
        wait_until(lambda: [f for f in self.flows("box") if f["protocol"] == "icmp" and "private" in f["rule"]], "it is logged")
        self.check("exec", "box", "ping", "-c", "1", "-W", "5", "192.168.127.1")

    def test_a_private_address_with_a_rule(self):
        self.assertEqual(self.sh(f"wget -qO- http://{PRIVATE}/", "--allow-net", "10.77.0.0/24:80"), f"hello from {PRIVATE}\n")

    def test_an_empty_list_is_nothing(self):
        self.assertIn("not in the allow-list", self.refused_at_once(f"nc -w 20 {SERVER} 80 < /dev/null", "--allow-net", ""))
        asked = len(self.world.names.asked)
        self.assertIn("not in the allow-list", self.refused_at_once("nslookup www.example.com", "--allow-net", ""))
        self.assertEqual(self.world.names.asked[asked:], [])

    def test_only_the_list(self):
        flags = ["--allow-net", "www.example.com:80"]
        self.assertEqual(self.sh("wget -qO- http://www.example.com/", *flags), f"hello from {SERVER}\n")
        for script in (f"nc -w 20 {SERVER} 80 < /dev/null", "wget -qO- http://other.example.org/",
                       "nslookup www.example.com && nc -w 20 www.example.com 81 < /dev/null"):
            self.assertIn("not in the allow-list", self.refused_at_once(script, *flags))

    def test_deny_goes_first(self):
        self.assertIn("--deny-net *.example.com", self.refused_at_once("wget -qO- http://www.example.com/", "--deny-net", "*.example.com"))
        self.assertEqual(self.sh("wget -qO- http://other.example.org/", "--deny-net", "*.example.com"), f"hello from {OTHER}\n")

    def test_rebinding_answers_are_refused(self):
        for number in range(7):
            rule = self.refused_at_once(f"nslookup rebind{number}.example.net", "--allow-net", "*.example.net")
            self.assertIn("closed", rule)

    def test_what_a_connection_says_has_to_agree(self):
        seen = []
        self.world.serve(SERVER, 8080, world.http(b"seen", seen))
        self.world.names.add("shared.example.com", SERVER)
        flags = ["--allow-net", "shared.example.com"]
        self.assertEqual(self.sh("wget -qO- http://shared.example.com:8080/", *flags), "seen")
        del seen[:]
        script = "nslookup shared.example.com; printf '%s' | nc -w 20 shared.example.com 8080 | grep ."
        for request, word in ((r"GET / HTTP/1.1\r\nHost: www.example.com\r\n\r\n", "asks for 'www.example.com'"),
                              (r"GET / HTTP/1.0\r\n\r\n", "names no host"),
                              (r"CONNECT other.example.org:443 HTTP/1.1\r\nHost: shared.example.com\r\n\r\n", "other.example.org")):
            self.check("run", "-d", "--name", "box", *flags, "base", "sleep", "600")
            self.check("exec", "box", "sh", "-c", script % request, code=1)
            wait_until(lambda: any(word in f["rule"] for f in self.flows("box")), word, 10)
            self.check("rm", "-f", "box")
        self.assertEqual(seen, [])

    def test_rules_that_are_none_are_refused(self):
        result = self.home.run("create", "--allow-net", "http://example.com", "base")
        self.assertEqual(result.code, 2, result)
        self.assertIn(b"http://example.com", result.err)
        self.check("create", "--network", "none", "--allow-net", "example.com", "base", code=2)


class Changing(NetworkTest):
    def test_rules_of_a_running_box(self):
        connected, ended = [], []

        def hold(connection):
            connected.append(True)
            try:
                ended.append(connection.recv(100))
            except ConnectionError as error:
                ended.append(error)

        port = self.world.serve(SERVER, 0, hold)
        fetch = ("exec", "box", "wget", "-qO-", "http://www.example.com/")
        self.check("run", "-d", "--name", "box", "base", "sleep", "600")
        self.check(*fetch)
        open_one = self.home.popen("exec", "box", "sh", "-c", f"sleep 600 | nc {SERVER} {port}", stdout=subprocess.DEVNULL)
        wait_until(lambda: connected, "it is connected")
        self.check("update", "--allow-net", "other.example.org", "box")
        wait_until(lambda: ended, "a connection that the new rules refuse is ended")
        self.check(*fetch, code=1)
        self.assertEqual(self.check("exec", "box", "wget", "-qO-", "http://other.example.org/").out.decode(), f"hello from {OTHER}\n")
        self.assertEqual(self.home.inspect("box")["Network"]["AllowNet"], ["other.example.org"])
        self.check("update", "--allow-net", "not a rule", "box", code=1)
        self.check(*fetch, code=1)
        self.check("stop", "-t", "0", "box")
        open_one.wait(20)
        self.check("start", "box")
        self.check(*fetch, code=1)
        self.check("update", "--no-allow-net", "--deny-net", "other.example.org", "box")
        self.check(*fetch)
        self.check("exec", "box", "wget", "-qO-", "http://other.example.org/", code=1)

    def test_bandwidth(self):
        data = bytes(2_000_000)
        port = self.world.serve(SERVER, 0, lambda connection: connection.sendall(data))
        results = []
        sink = self.world.serve(SERVER, 0, world.swallow(results))
        self.check("run", "-d", "--name", "box", "--net-rx-kbps", "8000", "--net-tx-kbps", "4000", "base", "sleep", "600")
        start = time.monotonic()
        self.check("exec", "box", "sh", "-c", f"nc {SERVER} {port} < /dev/null | wc -c")
        self.assertGreater(time.monotonic() - start, 1.6)  # 16 Mbit, of which a tenth of a second's come at once
        start = time.monotonic()
        self.check("exec", "box", "sh", "-c", f"head -c 1000000 /dev/zero | nc {SERVER} {sink}")
        self.assertGreater(time.monotonic() - start, 1.6)
        self.assertEqual(results, [hashlib.sha256(bytes(1_000_000)).hexdigest()])


class Publishing(NetworkTest):
    def connect(self, address, port, data=b""):
        with inside(self.world.host):
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            connection = socket.socket(family, socket.SOCK_STREAM)
        connection.settimeout(20)
        with connection:
            connection.connect((address, port))
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            answer = b""
            while piece := connection.recv(65536):
                answer += piece
            return answer

    def test_a_free_port_of_loopback(self):
        self.check("run", "-d", "--name", "web", "-p", "8000", "base", "sh", "-c",
                   "while true; do echo from inside | nc -l -p 8000; done")
        text = self.check("port", "web", "8000").out.decode().strip()
        address, port = text.split(":")
        self.assertEqual(address, "127.0.0.1")
        wait_until(lambda: self.connect(address, int(port)) == b"from inside\n", "it answers")
        ports = self.home.inspect("web")["Network"]["Ports"]
        self.assertEqual(ports, [{"HostIp": "127.0.0.1", "HostPort": int(port), "BoxPort": 8000, "Protocol": "tcp"}])
        self.assertEqual(self.check("port", "web").out.decode(), f"8000/tcp -> 127.0.0.1:{port}\n")
        self.check("port", "web", "9", code=1)

    def test_a_port_that_is_taken_fails_the_start(self):
        with inside(self.world.host):
            taken = socket.create_server(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        result = self.home.run("run", "--rm", "-p", f"{port}:80", "base", "true")
        taken.close()
        self.assertNotEqual(result.code, 0)
        self.assertIn(str(port).encode(), result.err)


class Living(NetworkTest):
    def netd(self, box):
        shim = self.home.inspect(box)["State"]["Pid"]
        for child in children(shim):
            with open(f"/proc/{child}/comm") as name:
                if name.read().strip() == "boxlite-netd":
                    return child
        self.fail("no network process")

    def test_the_box_outlives_its_network(self):
        self.check("run", "-d", "--name", "box", "base", "sleep", "600")
        kill(self.netd("box"))
        self.check("exec", "box", "true")
        self.check("exec", "box", "sh", "-c", f"nc -w 1 {SERVER} 80 < /dev/null", code=1)
        self.check("stop", "box")

    def test_the_process_ends_with_the_box(self):
        self.check("run", "-d", "--name", "box", "base", "sleep", "600")
        first = self.netd("box")
        self.check("stop", "-t", "0", "box")
        self.assertFalse(alive(first))
        self.check("start", "box")
        second, shim = self.netd("box"), self.home.inspect("box")["State"]["Pid"]
        kill(shim)
        wait_until(lambda: not alive(second), "it ends with its supervisor")

    def test_readers_that_are_slow_hold_back_who_sends(self):
        """Windows that close for a second, at either end: nothing is lost, and the network process holds little of it."""
        data, received = os.urandom(1 << 20) * 32, world.swallow([])
        pause = threading.Event()

        def late(connection):
            pause.wait(1)
            received(connection)

        self.check("run", "-d", "--name", "box", "base", "sh", "-c", "head -c 33554432 /dev/urandom > /srv/x; sha256sum < /srv/x; sleep 600")
        netd = self.netd("box")

        def memory(kind):
            with open(f"/proc/{netd}/status") as file:
                return next(int(line.split()[1]) for line in file if line.startswith(kind)) // 1024

        before = memory("VmRSS")
        for address in (SERVER, SERVER6):
            gives = self.world.serve(address, 0, lambda connection: connection.sendall(data))
            takes = self.world.serve(address, 0, late)
            ones = [f"nc {address} {gives} < /dev/null | (sleep 1; sha256sum)", f"nc {address} {takes} < /srv/x"]
            processes = [self.home.popen("exec", "box", "sh", "-c", one, stdout=subprocess.PIPE) for one in ones]
            results = [process.communicate(timeout=60 * boxtest.PATIENCE)[0].decode().split()[0] for process in processes]
            self.assertEqual(results[0], hashlib.sha256(data).hexdigest())
            self.assertEqual(results[1], self.check("logs", "box").out.decode().split()[0])
        self.assertLess(memory("VmHWM"), before + 16)

    def test_what_it_may(self):
        self.check("run", "-d", "--name", "box", "base", "sleep", "600")
        with open(f"/proc/{self.netd('box')}/status") as file:
            status = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
        self.assertEqual(status["CapEff"].strip("0"), "")
        self.assertEqual(status["CapBnd"].strip("0"), "")
        self.assertEqual(status["NoNewPrivs"], "1")
        self.assertEqual(status["Seccomp"], "2")
        self.assertNotIn("0", status["Uid"].split())
        jail = self.home.inspect("box")["Jail"]
        for part in ("empty root", "seccomp", "no capabilities", "mnt namespace", "ipc namespace"):
            self.assertIn(f"network: {part}", jail)

    def test_flow_log_and_counters(self):
        self.check("run", "-d", "--name", "box", "base", "sleep", "600")
        follower = self.home.popen("network", "log", "-f", "box", stdout=subprocess.PIPE)
        self.addCleanup(follower.stdout.close)
        self.check("exec", "box", "wget", "-qO-", "http://www.example.com/")
        line = follower.stdout.readline().decode()
        for text in ("allowed out tcp www.example.com", f"{SERVER}:80", "default: the public internet"):
            self.assertIn(text, line)
        self.check("exec", "box", "sh", "-c", f"nc -w 9 {PRIVATE} 80 < /dev/null", code=1)
        self.assertIn(f"refused out tcp {PRIVATE}:80", follower.stdout.readline().decode())
        counters = self.home.inspect("box")["Network"]
        self.assertGreater(counters["ReceivedBytes"], 100)
        self.assertGreater(counters["SentBytes"], 100)
        self.assertEqual((counters["TotalFlows"], counters["OpenFlows"], counters["Refused"]), (1, 0, 1))
        self.check("stop", "-t", "0", "box")
        self.assertEqual(follower.wait(20), 0)
        flow = self.flows("box")[0]
        self.assertEqual((flow["name"], flow["port"], flow["direction"]), ("www.example.com", 80, "out"))
        self.assertGreater(flow["received_bytes"], 20)


class Stats(NetworkTest):
    def stats(self):
        return json.loads(self.check("stats", "box", "--format", "json").out)[0]

    def test_bytes_and_open_connections(self):
        held, over = threading.Event(), threading.Event()
        self.addCleanup(over.set)

        def hold(connection):
            connection.sendall(b"x" * 1_000_000)
            held.set()
            over.wait(120)

        self.world.serve(SERVER, 9100, hold)
        self.check("run", "-d", "--name", "box", "base", "sleep", "600")
        first = self.stats()
        self.assertEqual((first["network_tcp_connections"], first["network_tcp_errors"]), (0, 0))
        self.check("exec", "-d", "box", "sh", "-c", f"nc {SERVER} 9100 > /tmp/got")
        self.assertTrue(held.wait(30))
        wait_until(lambda: self.check("exec", "box", "stat", "-c", "%s", "/tmp/got").out == b"1000000\n", "it has all of it")
        second = self.stats()
        self.assertEqual((second["network_tcp_connections"], second["network_tcp_errors"]), (1, 0))
        self.assertGreaterEqual(second["network_bytes_received"] - first["network_bytes_received"], 1_000_000)
        self.assertLess(second["network_bytes_received"] - first["network_bytes_received"], 2_000_000)
        self.assertGreater(second["network_bytes_sent"], first["network_bytes_sent"])
        over.set()
        wait_until(lambda: self.stats()["network_tcp_connections"] == 0, "the connection is over")

    def test_connections_that_fail(self):
        self.check("run", "-d", "--name", "box", "base", "sleep", "600")
        connect = lambda host, port: self.home.run("exec", "box", "sh", "-c", f"nc -w 9 {host} {port} < /dev/null")
        connect(SERVER, 80)
        self.assertEqual(self.stats()["network_tcp_errors"], 0)
        connect(SERVER, 81)  # nobody listens
        wait_until(lambda: self.stats()["network_tcp_errors"] == 1, "the server's refusal counts")
        self.assertEqual(self.flows("box")[-1]["error"], "Connection refused")
        connect(PRIVATE, 80)
        wait_until(lambda: self.stats()["network_tcp_errors"] == 2, "the rules' refusal counts")
        # By name, which is looked into.
        self.check("update", "--allow-net", "www.example.com", "box")
        start = time.monotonic()
        connect("www.example.com", 81)
        self.assertLess(time.monotonic() - start, 5)
        wait_until(lambda: self.stats()["network_tcp_errors"] == 3, "also of what goes by its name")
        self.assertEqual(self.flows("box")[-1]["error"], "Connection refused")


class Python(NetworkTest):
    """With an image that has Python: what busybox cannot do."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        layout = boxtest.debian_image(["python3"]).rpartition(":")[0]
        cls.kept = world.Home(cls.world)
        cls.addClassCleanup(cls.kept.close)
        result = cls.kept.run("import", layout, "python:12", timeout=300)
        assert result.code == 0, result
        cls.image = "python:12"

    def setUp(self):
        self.home = self.kept
        self.addCleanup(self.home.run, "rm", "-f", "-a")

    def python(self, code, *flags):
        return self.check("run", "--rm", *flags, self.image, "python3", "-c", code, timeout=300).out.decode()

    def test_udp_through_a_published_port(self):
        echo = ("import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\ns.bind(('', 7000))\n"
                "while True:\n data, peer = s.recvfrom(65535)\n s.sendto(data[::-1], peer)")
        self.check("run", "-d", "--name", "web", "-p", "127.0.0.1:7777:7000/udp", self.image, "python3", "-c", echo)
        with inside(self.world.host):
            peer = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.addCleanup(peer.close)
        peer.settimeout(0.2)

        def answered():
            peer.sendto(b"ping", ("127.0.0.1", 7777))
            try:
                return peer.recv(100) == b"gnip"
            except (TimeoutError, ConnectionError):
                return False

        wait_until(answered, "it answers")
        peer.settimeout(10)
        peer.sendto(b"x" * 30000 + b"y", ("127.0.0.1", 7777))
        while (answer := peer.recv(65535)) == b"gnip":
            pass
        self.assertEqual(answer, b"y" + b"x" * 30000)

    def test_refused_datagrams_are_told(self):
        code = ("import socket\nfor family, to in ((socket.AF_INET, ('%s', 9)), (socket.AF_INET6, ('fd77::1', 9))):\n"
                " s = socket.socket(family, socket.SOCK_DGRAM); s.settimeout(20); s.connect(to)\n"
                " try:\n  s.send(b'x'); s.recv(10); print('answered')\n"
                " except TimeoutError: print('late')\n except OSError as e: print(e.errno)" % PRIVATE)
        self.assertEqual(self.python(code), "113\n13\n")

    def test_many_connections_at_once_and_one_after_the_other(self):
        port = self.world.serve(SERVER, 0, lambda connection: connection.sendall(connection.recv(100)))
        code = (f"import socket\nto = ('{SERVER}', {port})\nopen = [socket.create_connection(to, 60) for _ in range(500)]\n"
                "for i, s in enumerate(open): s.sendall(b'%d' % i)\n"
                "assert all(s.recv(100) == b'%d' % i for i, s in enumerate(open))\nfor s in open: s.close()\n"
                "for i in range(1000):\n s = socket.create_connection(to, 60); s.sendall(b'x'); assert s.recv(10) == b'x'; s.close()\n"
                "print('done')")
        self.check("run", "-d", "--name", "box", self.image, "sleep", "600")
        self.assertEqual(self.check("exec", "box", "python3", "-c", code, timeout=300).out, b"done\n")
        wait_until(lambda: self.home.inspect("box")["Network"]["OpenFlows"] == 0, "all of them end")
        self.assertEqual(self.home.inspect("box")["Network"]["TotalFlows"], 1500)

    def test_half_closed_and_reset_connections(self):
        results = []

        def reset(connection):
            connection.recv(10)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            connection.close()

        half, hard = self.world.serve(SERVER, 0, world.swallow(results)), self.world.serve(SERVER, 0, reset)
        closed = self.world.serve(SERVER, 0, lambda connection: connection.close())
        code = (f"import socket\ns = socket.create_connection(('{SERVER}', {half}), 20); s.sendall(b'abc'); s.shutdown(socket.SHUT_WR)\n"
                "print(s.recv(100).decode())\n"
                f"s = socket.create_connection(('{SERVER}', {hard}), 20); s.sendall(b'x')\n"
                "try: print(s.recv(10))\nexcept ConnectionResetError: print('reset')\n"
                f"s = socket.create_connection(('{SERVER}', {closed}), 20); print(s.recv(10))\n"
                f"try: socket.create_connection(('{SERVER}', 1), 20)\nexcept ConnectionRefusedError: print('refused')")
        self.assertEqual(self.python(code).splitlines(), [hashlib.sha256(b"abc").hexdigest(), "reset", "b''", "refused"])

    def test_tls_has_to_name_its_server(self):
        seen = []
        self.world.serve(SERVER, 443, lambda connection: seen.append(connection.recv(100)))
        self.world.names.add("tls.example.com", SERVER)
        code = ("import socket, ssl, sys\ncontext = ssl.create_default_context(); context.check_hostname = False\n"
                "context.verify_mode = ssl.CERT_NONE\n"
                "s = socket.create_connection(('tls.example.com', 443), 20)\n"
                "try: context.wrap_socket(s, server_hostname=%r)\n"
                "except ssl.SSLEOFError: print('ended')\nexcept ConnectionResetError: print('reset')\nexcept OSError as e: print(e)")
        flags = ("--allow-net", "tls.example.com:443")
        self.assertEqual(self.python(code % "www.example.com", *flags), "reset\n")
        self.assertEqual(self.python(code % None, *flags), "reset\n")
        self.assertEqual(b"".join(seen), b"")
        self.python(code % "tls.example.com", *flags)
        wait_until(lambda: b"".join(seen).startswith(b"\x16\x03"), "the server sees the opening")

    def test_a_later_request_for_another_host(self):
        seen = []

        def keep_alive(connection):
            while piece := connection.recv(65536):
                seen.append(piece)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

        port = self.world.serve(SERVER, 0, keep_alive)
        code = (f"import socket\ns = socket.create_connection(('www.example.com', {port}), 20)\n"
                "for host in ('www.example.com', 'WWW.example.com', 'other.example.org'):\n"
                " try: s.sendall(b'GET / HTTP/1.1\\r\\nHost: %s\\r\\n\\r\\n' % host.encode()); print(len(s.recv(1000)))\n"
                " except ConnectionResetError: print('reset')")
        self.assertEqual(self.python(code, "--allow-net", "www.example.com").splitlines()[-1], "reset")
        self.assertEqual(len(seen), 2)

    def test_garbage(self):
        """Frames of any content: the network process lives, and serves an honest program afterwards."""
        code = ("import os, random, socket, struct\ns = socket.socket(socket.AF_PACKET, socket.SOCK_RAW); s.bind(('eth0', 0))\n"
                "random.seed(7)\nmac = bytes.fromhex('5255c0a87f01') + bytes.fromhex('0200c0a87f02')\n"
                "seeds = [mac + bytes.fromhex('0800') + h for h in (\n"
                " struct.pack('>BBHHHBBH4s4s', 0x45, 0, 40, 1, 0, 64, p, 0, bytes([192,168,127,2]), d)"
                " + os.urandom(40) for p in (1, 6, 17, 47) for d in (bytes([192,168,127,1]), bytes([198,52,100,10]), bytes([255]*4)))]\n"
                "seeds += [mac + bytes.fromhex('86dd') + struct.pack('>IHBB', 6 << 28, 40, p, 64) + bytes(16) + bytes.fromhex('fd00') + bytes(13)"
                " + b'\\1' + os.urandom(60) for p in (0, 6, 17, 43, 44, 58, 60)]\n"
                "seeds += [mac + bytes.fromhex(t) + os.urandom(60) for t in ('0806', '88f8', '8100', '0801')]\n"
                "def checksum(b):\n t = sum(struct.unpack('>%dH' % (len(b) // 2), b)); t = (t >> 16) + (t & 0xffff); return ~(t + (t >> 16)) & 0xffff\n"
                "for i in range(20000):\n f = bytearray(random.choice(seeds))\n"
                " for _ in range(random.randrange(6)): f[random.randrange(12, len(f))] = random.randrange(256)\n"
                " if random.random() < .2: f = f[:random.randrange(14, len(f))]\n"
                " if f[12:14] == b'\\x08\\0' and len(f) >= 34 and random.random() < .8: f[24:26] = b'\\0\\0'; f[24:26] = struct.pack('>H', checksum(bytes(f[14:34])))\n"
                " s.send(bytes(f))\nprint('sent')")
        self.check("run", "-d", "--name", "box", self.image, "sleep", "600")
        self.assertEqual(self.check("exec", "box", "python3", "-c", code, timeout=300).out, b"sent\n")
        fetch = "import urllib.request; print(urllib.request.urlopen('http://www.example.com/', timeout=30).read().decode(), end='')"
        self.assertEqual(self.check("exec", "box", "python3", "-c", fetch).out.decode(), f"hello from {SERVER}\n")


class AsUser(boxtest.AsUser, NetworkTest):
    @classmethod
    def setUpClass(cls):
        boxtest.AsUser.setUpClass.__func__(cls)
        NetworkTest.setUpClass.__func__(cls)

    def test_an_ordinary_user_has_the_same(self):
        self.assertEqual(self.sh("wget -qO- http://www.example.com/"), f"hello from {SERVER}\n")
        self.assertIn("private", self.refused_at_once(f"nc -w 20 {PRIVATE} 80 < /dev/null"))


if __name__ == "__main__":
    unittest.main()
