"""Boxes on a host whose environment names an HTTP proxy: what goes through it and what does not, what it refuses, its
password, and names that it alone can resolve. The proxy is one of the test's own, on the host's loopback."""
import base64
import contextlib
import glob
import hashlib
import os
import socket
import threading
import time
import unittest

import boxtest
import network_test
import secrets_test
import world
from boxtest import wait_until
from world import OTHER, PRIVATE, SERVER, SERVER6, inside

PASSWORD = "s3cret-of-the-proxy"


class Proxy:
    """CONNECT and nothing else. `names` are those that it resolves itself; `status` is what it answers, else 200."""

    def __init__(self, place, namespace, names):
        self.place, self.names, self.seen, self.status = place, names, [], None
        self.namespace = namespace
        self.port = place.serve("127.0.0.1", 0, self.handle, namespace)
        self.url = f"http://127.0.0.1:{self.port}"

    def handle(self, client):
        head = world.read_head(client, step=1)
        if head is None:
            return
        lines = head.decode().split("\r\n")
        method, target, _ = lines[0].split()
        headers = dict(line.split(": ", 1) for line in lines[1:] if line)
        self.seen.append((method, target, headers.get("Proxy-Authorization")))
        if self.status or method != "CONNECT":
            return client.sendall(f"HTTP/1.1 {self.status or '405 Method Not Allowed'}\r\nContent-Length: 0\r\n\r\n".encode())
        host, _, port = target.rpartition(":")
        host = self.names.get(host, host).strip("[]")
        with inside(self.namespace):
            server = socket.create_connection((host, int(port)))
        with server:
            client.sendall(b"HTTP/1.1 200 Connection established\r\nVia: test\r\n\r\n")
            back = threading.Thread(target=self.pump, args=(server, client))
            back.start()
            self.pump(client, server)
            back.join()

    @staticmethod
    def pump(source, sink):
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)

    def targets(self):
        return [target for _, target, _ in self.seen]


class ProxyTest(network_test.NetworkTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        names = {"hidden.example.net": SERVER, "other.hidden.example": OTHER, "www.example.com": SERVER, "six.example.com": SERVER6,
                 "other.example.org": OTHER}
        cls.proxy = Proxy(cls.world, cls.world.host, names)

    def setUp(self):
        super().setUp()
        self.proxy.seen.clear()
        self.proxy.status = None
        self.environment(ALL_PROXY=self.proxy.url)

    def environment(self, **variables):
        options = type(self.home).options

        def with_variables():
            made = options(self.home)
            made["env"] = {**made["env"], **variables}
            return made

        self.home.options = with_variables


class Through(ProxyTest):
    def test_every_connection_by_its_name_or_address(self):
        self.world.serve(OTHER, 9200, lambda connection: connection.sendall(b"first to speak\n"))
        self.check("run", "-d", "--name", "box", "base", "sleep", "600")
        run = lambda script: self.check("exec", "box", "sh", "-c", script).out.decode()
        self.assertEqual(run("wget -qO- http://www.example.com/"), f"hello from {SERVER}\n")
        self.assertEqual(run(f"wget -qO- http://{OTHER}/"), f"hello from {OTHER}\n")
        self.assertEqual(run(f"wget -qO- 'http://[{SERVER6}]/'"), f"hello from {SERVER6}\n")
        self.assertEqual(run(f"nc {OTHER} 9200 < /dev/null"), "first to speak\n")
        self.assertEqual(self.proxy.targets(), ["www.example.com:80", f"{OTHER}:80", f"[{SERVER6}]:80", f"{OTHER}:9200"])
        wait_until(lambda: len([f for f in self.flows("box") if f["protocol"] == "tcp"]) == 4, "all are logged")
        first = [f for f in self.flows("box") if f["name"] == "www.example.com"][0]
        self.assertEqual((first["verdict"], first["name"], first["address"], first["port"]), ("allowed", "www.example.com", SERVER, 80))
        # What was said to the proxy, and by it, is none of the box's. An end counts as a byte.
        last = [f for f in self.flows("box") if f["port"] == 9200][0]
        self.assertLessEqual(last["sent_bytes"], 1)
        self.assertIn(last["received_bytes"] - len("first to speak\n"), (0, 1))

    def test_large_transfers_both_ways(self):
        results, data = [], os.urandom(1 << 20) * 16
        self.world.serve(SERVER, 9201, world.swallow(results))
        self.world.serve(SERVER, 9202, lambda connection: connection.sendall(data))
        sums = self.sh(f"nc {SERVER} 9202 < /dev/null | sha256sum; head -c 16777216 /dev/urandom > /tmp/x; sha256sum < /tmp/x; "
                       f"nc {SERVER} 9201 < /tmp/x").split()
        self.assertEqual(sums[0], hashlib.sha256(data).hexdigest())
        self.assertEqual(sums[2], sums[4])
        self.assertEqual(len(self.proxy.seen), 2)

    def test_what_no_proxy_names_goes_directly(self):
        self.environment(http_proxy=self.proxy.url, NO_PROXY=f"other.example.org, .example.com,{SERVER6}")
        self.sh(f"wget -qO- http://www.example.com/ http://other.example.org/ 'http://[{SERVER6}]/'")
        self.assertEqual(self.proxy.seen, [])
        self.sh(f"wget -qO- http://{SERVER}/")
        self.assertEqual(self.proxy.targets(), [f"{SERVER}:80"])

    def test_the_proxy_for_plain_http_is_for_nothing_else(self):
        self.environment(HTTP_PROXY=self.proxy.url)
        self.world.serve(SERVER, 9203, lambda connection: connection.sendall(b"direct\n"))
        self.assertEqual(self.sh(f"nc {SERVER} 9203 < /dev/null; wget -qO- http://www.example.com/"), f"direct\nhello from {SERVER}\n")
        self.assertEqual(self.proxy.targets(), ["www.example.com:80"])

    def test_the_rules_come_first(self):
        self.assertIn("private", self.refused_at_once(f"nc -w 20 {PRIVATE} 80 < /dev/null"))
        self.assertIn("not in the allow-list", self.refused_at_once(f"nc -w 20 {SERVER} 80 < /dev/null", "--allow-net", "www.example.com"))
        self.assertIn("not in the allow-list", self.refused_at_once("nslookup hidden.example.net", "--allow-net", "www.example.com"))
        self.assertEqual(self.proxy.seen, [])
        self.assertEqual(self.sh("wget -qO- http://www.example.com/", "--allow-net", "www.example.com"), f"hello from {SERVER}\n")
        # A name on the list does not carry a request for another.
        self.check("run", "-d", "--name", "fronting", "--allow-net", "www.example.com", "base", "sleep", "600")
        self.check("exec", "fronting", "wget", "-qO-", "--header", "Host: other.example.org", "http://www.example.com/", code=1)

    def test_the_proxy_itself_is_closed(self):
        self.assertIn("host's own services", self.refused_at_once(f"nc -w 9 host.boxlite.internal {self.proxy.port} < /dev/null"))
        # Also one at an address of the internet.
        public = Proxy(self.world, self.world.net, {})
        port = self.world.serve(OTHER, 0, public.handle)
        self.environment(ALL_PROXY=f"http://{OTHER}:{port}")
        fetch = f"printf 'CONNECT {PRIVATE}:80 HTTP/1.0\\r\\n\\r\\n' | nc -w 9 {OTHER} {port} | grep ."
        self.assertIn("proxy is closed", self.refused_at_once(fetch))
        self.assertIn("proxy is closed", self.refused_at_once(fetch, "--allow-net", "*"))
        self.assertEqual(public.seen, [])
        self.sh(f"nc -w 9 {OTHER} {port} < /dev/null", "--allow-net", f"{OTHER}:{port}")

    def test_what_the_proxy_refuses(self):
        for status in ("403 Forbidden", "405 Method Not Allowed", "407 Proxy Authentication Required", "502 Bad Gateway"):
            self.proxy.status = status
            self.check("run", "-d", "--name", "box", "base", "sleep", "600")
            start = time.monotonic()
            self.assertNotEqual(self.home.run("exec", "box", "wget", "-qO-", "http://www.example.com/").code, 0)
            self.assertLess(time.monotonic() - start, 5)
            wait_until(lambda: [f for f in self.flows("box") if f.get("error")], "it is logged")
            self.assertEqual(self.flows("box")[-1]["error"], f"the proxy answered: {status}")
            self.check("rm", "-f", "box")

    def test_a_proxy_that_is_not_there(self):
        self.environment(ALL_PROXY=f"http://127.0.0.1:{boxtest.free_port()}")
        self.check("run", "-d", "--name", "box", "base", "sleep", "600")
        self.assertNotEqual(self.home.run("exec", "box", "wget", "-qO-", "http://www.example.com/").code, 0)
        wait_until(lambda: [f for f in self.flows("box") if f.get("error")], "it is logged")
        self.assertEqual(self.flows("box")[-1]["error"], "the proxy: Connection refused")

    def test_one_with_several_addresses(self):
        """Whichever the resolver puts first: at one of them nobody listens."""
        public = Proxy(self.world, self.world.net, {"www.example.com": SERVER})
        port = self.world.serve(OTHER, 0, public.handle)
        for name, addresses in (("one.proxy.example", (SERVER, OTHER)), ("two.proxy.example", (OTHER, SERVER))):
            self.world.names.add(name, *addresses)
            self.environment(ALL_PROXY=f"http://{name}:{port}")
            self.assertEqual(self.sh("wget -qO- http://www.example.com/"), f"hello from {SERVER}\n")
        self.assertEqual(public.targets(), ["www.example.com:80"] * 2)

    def test_one_of_another_kind_is_told(self):
        self.environment(ALL_PROXY="socks5://127.0.0.1:1080")
        result = self.check("run", "--rm", "base", "wget", "-qO-", "http://www.example.com/")
        self.assertEqual(result.out.decode(), f"hello from {SERVER}\n")
        self.assertIn(b"socks5", result.err)


class Password(ProxyTest):
    def test_it_is_sent_and_nowhere_else(self):
        self.environment(ALL_PROXY=f"http://us%40er:{PASSWORD}@127.0.0.1:{self.proxy.port}")
        self.check("run", "-d", "--name", "box", "base", "sleep", "600")
        self.check("exec", "box", "wget", "-qO-", "http://www.example.com/")
        expected = base64.b64encode(f"us@er:{PASSWORD}".encode()).decode()
        self.assertEqual(self.proxy.seen, [("CONNECT", "www.example.com:80", f"Basic {expected}")])
        self.proxy.status = "407 Proxy Authentication Required"
        self.home.run("exec", "box", "wget", "-qO-", "http://www.example.com/")
        wait_until(lambda: [f for f in self.flows("box") if f.get("error")], "it is logged")
        self.check("inspect", "box")
        traces = [PASSWORD.encode(), expected.encode()]
        for path in glob.glob(os.path.join(self.home.path, "**"), recursive=True):
            if os.path.isfile(path) and not path.endswith((".ext4", ".qcow2")):
                with open(path, "rb") as file:
                    content = file.read()
                self.assertFalse([t for t in traces if t in content], path)
        shim = self.home.inspect("box")["State"]["Pid"]
        for process in [shim, *boxtest.children(shim)]:
            for name in ("cmdline", "environ"):
                with contextlib.suppress(OSError), open(f"/proc/{process}/{name}", "rb") as file:
                    content = file.read()
                    self.assertFalse([t for t in traces if t in content], (process, name))
            with contextlib.suppress(OSError):
                files = [os.readlink(f"/proc/{process}/fd/{fd}") for fd in os.listdir(f"/proc/{process}/fd")]
                self.assertFalse([f for f in files if "boxlite-proxies" in f], process)


class LookedInto(secrets_test.SecretsTest):
    """What is looked into on its way goes to the proxy too."""

    def test_a_secret_gets_to_its_host_through_the_proxy(self):
        proxy = Proxy(self.world, self.world.host, {"api.example.com": SERVER, "other.example.org": OTHER})
        self.kept.env = {**self.kept.env, "HTTPS_PROXY": proxy.url}
        self.addCleanup(self.kept.env.pop, "HTTPS_PROXY")
        self.start("--secret", secrets_test.TOKEN)
        self.sh(self.fetch(f"{secrets_test.API}/", f"X-Key: {secrets_test.PLACEHOLDER}"))
        self.assertIn(f"X-Key: {secrets_test.VALUE}", self.seen[0])
        # Another host's is passed on as it is.
        other = self.sh(self.fetch("https://other.example.org/", f"X-Key: {secrets_test.PLACEHOLDER}") + secrets_test.INSECURE)
        self.assertIn(secrets_test.PLACEHOLDER, other)
        self.assertEqual(proxy.targets(), ["api.example.com:443", "other.example.org:443"])


class Unresolved(ProxyTest):
    def test_names_that_the_proxy_alone_can_resolve(self):
        self.check("run", "-d", "--name", "box", "base", "sleep", "600")
        run = lambda script: self.check("exec", "box", "sh", "-c", script).out.decode()
        self.assertIn("198.18.0.1", run("nslookup hidden.example.net"))
        self.assertEqual(run("wget -qO- http://hidden.example.net/"), f"hello from {SERVER}\n")
        self.assertEqual(run("wget -qO- http://other.hidden.example/"), f"hello from {OTHER}\n")
        self.assertEqual(self.proxy.targets(), ["hidden.example.net:80", "other.hidden.example:80"])
        wait_until(lambda: [f for f in self.flows("box") if f["name"] == "hidden.example.net"], "it is logged")

    def test_with_an_allow_list(self):
        fetch = "wget -qO- http://hidden.example.net/"
        self.assertEqual(self.sh(fetch, "--allow-net", "hidden.example.net:80"), f"hello from {SERVER}\n")
        self.assertIn("not in the allow-list", self.refused_at_once(fetch, "--allow-net", "hidden.example.net:443"))
        self.assertIn("--deny-net hidden.example.net", self.refused_at_once(fetch, "--deny-net", "hidden.example.net:80"))
        self.assertEqual(self.proxy.targets(), ["hidden.example.net:80"])

    def test_without_a_proxy_for_it_the_name_is_unknown(self):
        self.environment(ALL_PROXY=self.proxy.url, NO_PROXY="hidden.example.net")
        result = self.home.run("run", "--rm", "base", "nslookup", "hidden.example.net")
        self.assertIn(b"NXDOMAIN", result.out + result.err)
        self.environment()
        result = self.home.run("run", "--rm", "base", "nslookup", "hidden.example.net")
        self.assertIn(b"NXDOMAIN", result.out + result.err)


if __name__ == "__main__":
    unittest.main()
