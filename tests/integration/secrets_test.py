"""Secrets and rules about HTTP requests, against servers with TLS that try to give the values away. Looked at from three sides:
what the servers get, what the programs in the box see, and what is left of a value anywhere on the host."""
import array
import itertools
import os
import shutil
import socket
import subprocess
import tempfile
import unittest

import boxtest
import tls_world
import world
from boxtest import children, kill, wait_until
from tls_world import over_tls, reflector
from world import OTHER, SERVER

VALUE, OTHER_VALUE = "s3cret-of-the-test", "another-one-of-the-test"
PLACEHOLDER = "<BOXLITE_SECRET:TOKEN>"
TOKEN = f"TOKEN@api.example.com,*.h2.example.com={VALUE}"
API = "https://api.example.com"
IMAGE = "tools:12"
PAGE = os.sysconf("SC_PAGESIZE")
PRESENT_OR_SWAPPED = 3 << 62  # of an entry of /proc/PID/pagemap
INSECURE = " -k"  # the box does not know the test's authority


class SecretsTest(boxtest.BoxTest):
    """With programs that verify, in an image that has a store of authorities. The boxes are those of one home."""

    @classmethod
    def setUpClass(cls):
        cls.world = world.World()
        cls.addClassCleanup(cls.world.close)
        folder = tempfile.TemporaryDirectory(prefix="boxlite-tls-")
        cls.addClassCleanup(folder.cleanup)
        os.chmod(folder.name, 0o755)
        cls.authority = tls_world.Authority(folder.name)
        cls.seen, cls.others, cls.plain = [], [], []
        cls.world.serve(SERVER, 443, over_tls(cls.authority.context("api.example.com"), reflector(cls.seen)))
        cls.world.serve(SERVER, 80, reflector(cls.plain))
        cls.world.serve(OTHER, 443, over_tls(cls.authority.context("other.example.org"), reflector(cls.others)))
        for name in ("api.example.com", "www.example.com", "one.h2.example.com"):
            cls.world.names.add(name, SERVER)
        cls.world.names.add("other.example.org", OTHER)
        cls.kept = tls_world.Home(cls.world, cls.authority.bundle, cls.user, {"OUTSIDE": OTHER_VALUE})
        cls.addClassCleanup(cls.kept.close)
        layout = boxtest.debian_image(["ca-certificates", "curl", "openssl", "python3"]).rpartition(":")[0]
        if cls.user:  # who may not look into the cache of whoever runs the tests
            layout = shutil.copytree(layout, os.path.join(folder.name, "layout"))
            subprocess.run(["chmod", "-R", "a+rX", layout], check=True)
        result = cls.kept.run("import", layout, IMAGE, timeout=300)
        assert result.code == 0, result

    def setUp(self):
        for seen in (self.seen, self.others, self.plain):
            del seen[:]
        self.home = self.kept
        self.addCleanup(self.home.run, "rm", "-f", "-a")

    def start(self, *flags, image=IMAGE):
        self.check("run", "-d", "--name", "box", *flags, image, "sleep", "600")

    def sh(self, script):
        return self.check("exec", "box", "sh", "-c", script).out.decode()

    def fails(self, script, word):
        """The program fails, and the log has a refusal with this word in its rule."""
        result = self.home.run("exec", "box", "sh", "-c", script)
        self.assertNotEqual(result.code, 0, result)
        wait_until(lambda: any(word in f["rule"] for f in self.home.flows("box") if f["verdict"] == "refused"), f"{word} is logged", 10)
        return result

    def fetch(self, url, *headers):
        flags = " ".join(f'-H "{header}"' for header in headers)
        return f"curl -sSf {flags} '{url}'"


class Replacing(SecretsTest):
    def test_programs_see_the_placeholder_and_servers_the_value(self):
        self.start("--secret", TOKEN)
        self.assertEqual(self.sh("echo $BOXLITE_SECRET_TOKEN").strip(), PLACEHOLDER)
        out = self.sh(self.fetch(f"{API}/echo", "X-Key: $BOXLITE_SECRET_TOKEN"))
        self.assertIn(f"X-Key: {VALUE}", self.seen[0])
        self.assertIn(f"X-Key: {PLACEHOLDER}", out)
        self.assertNotIn(VALUE, out)

    def test_reflections_are_taken_out(self):
        self.start("--secret", TOKEN)
        for path in ("/echo", "/chunks", "/gzip", "/header"):
            out = self.sh(f"curl -sSi -H 'X-Key: {PLACEHOLDER}' {API}{path}")
            self.assertIn(f"X-Key: {VALUE}", self.seen[-1], path)
            self.assertIn(PLACEHOLDER, out, path)
            self.assertNotIn(VALUE, out, path)

    def test_basic_credentials(self):
        self.start("--secret", TOKEN)
        out = self.sh(f"curl -sSf -u me:$BOXLITE_SECRET_TOKEN {API}")
        encoded = subprocess.run(["base64"], input=f"me:{VALUE}".encode(), capture_output=True, check=True).stdout.decode().strip()
        self.assertIn(f"Basic {encoded}", self.seen[0])
        self.assertNotIn(encoded, out)

    def test_elsewhere_it_is_refused_and_logged(self):
        self.start("--secret", TOKEN, "--secret", f"OTHER@other.example.org={OTHER_VALUE}", "--secret", f"Q@api.example.com,query=qu&ery")
        for url, headers, word in ((f"{API}/{PLACEHOLDER}", [], "not into a path"),
                                   (f"{API}/?key={PLACEHOLDER}", [], "not for the query"),
                                   (f"{API}/", ["X: <BOXLITE_SECRET:OTHER>"], "secret OTHER is for other.example.org, not for api"),
                                   ("http://www.example.com/", [f"X: {PLACEHOLDER}"], "goes over TLS only"),
                                   (f"http://www.example.com/?{PLACEHOLDER}", [], "goes over TLS only")):
            self.fails(self.fetch(url, *headers), word)
        self.assertEqual((self.seen, self.others, self.plain), ([], [], []))
        self.sh(self.fetch(f"{API}/?key=<BOXLITE_SECRET:Q>"))
        self.assertTrue(self.seen[0].startswith("GET /?key=qu%26ery "), self.seen)
        self.fails(f"curl -sSf -d 'key={PLACEHOLDER}' {API}", "not into what is sent")

    def test_other_hosts_are_not_looked_into(self):
        self.start("--secret", TOKEN)
        self.sh(self.fetch("https://other.example.org/", f"X: {PLACEHOLDER}") + INSECURE)
        self.assertIn(f"X: {PLACEHOLDER}", self.others[0])

    def test_a_redirect_takes_no_value_along(self):
        self.start("--secret", TOKEN)
        self.sh(self.fetch(f"{API}/redirect", f"X: {PLACEHOLDER}") + " -L" + INSECURE)
        self.assertIn(f"X: {VALUE}", self.seen[0])
        self.assertIn("/landed", self.others[0])
        self.assertIn(f"X: {PLACEHOLDER}", self.others[0])

    def test_a_secret_opens_nothing(self):
        self.start("--secret", TOKEN, "--allow-net", "other.example.org")
        self.fails(self.fetch(API, f"X: {PLACEHOLDER}"), "not in the allow-list")
        self.assertEqual(self.seen, [])

    def test_servers_have_to_prove_who_they_are(self):
        stranger = tempfile.TemporaryDirectory()
        self.addCleanup(stranger.cleanup)
        seen = []
        other = tls_world.Authority(stranger.name)
        ports = [self.world.serve(SERVER, 0, over_tls(context, reflector(seen)))
                 for context in (other.context("api.example.com"), self.authority.context("www.example.com"))]
        self.start("--secret", TOKEN)
        for port, word in zip(ports, ("unable to get local issuer certificate", "hostname mismatch")):
            self.fails(self.fetch(f"{API}:{port}/", f"X: {PLACEHOLDER}"), word)
        self.assertEqual(seen, [])


class Values(SecretsTest):
    def test_where_they_come_from(self):
        path = os.path.join(self.home.path, "value")
        with open(path, "w") as out:
            out.write("from-a-file\n")
        self.check("run", "-d", "--name", "box", "--secret", "A@api.example.com,env=OUTSIDE", "--secret", f"B@api.example.com,file={path}",
                   "--secret", "C@api.example.com,stdin", IMAGE, "sleep", "600", stdin=b"from-stdin\n")
        self.sh(self.fetch(API, "X: $BOXLITE_SECRET_A $BOXLITE_SECRET_B $BOXLITE_SECRET_C"))
        self.assertIn(f"X: {OTHER_VALUE} from-a-file from-stdin", self.seen[0])

    def test_another_value_for_a_running_box(self):
        self.start("--secret", TOKEN)
        self.check("update", "--secret", "TOKEN=the-next-one", "box")
        self.sh(self.fetch(API, f"X: {PLACEHOLDER}"))
        self.assertIn("X: the-next-one", self.seen[0])
        self.check("update", "--secret", "NONE=the-next-one", "box", code=1)
        self.check("update", "--secret", "TOKEN=x", "box", code=1)

    def test_each_start_needs_them(self):
        self.start("--secret", TOKEN, "--secret", "A@api.example.com,env=OUTSIDE")
        self.check("stop", "-t", "0", "box")
        result = self.home.run("start", "box")
        self.assertEqual(result.code, 1)
        self.assertIn(b"secret TOKEN has no value", result.err)
        self.assertNotIn("box", [line for line in self.check("list").out.decode().split()])
        self.check("start", "--secret", "TOKEN=the-next-one", "box")
        self.sh(self.fetch(API, f"X: {PLACEHOLDER} <BOXLITE_SECRET:A>"))
        self.assertIn(f"X: the-next-one {OTHER_VALUE}", self.seen[0])
        self.check("update", "--secret", "TOKEN=more", "box")
        self.check("stop", "-t", "0", "box")
        self.assertIn(b"not running", self.home.run("update", "--secret", "TOKEN=more", "box").err)

    def test_what_is_no_secret(self):
        for text, word in (("TOKEN=x", "hosts"), ("@h=x", "a name is needed"), ("T@1.2.3.4=xxxx", "no host"), ("T@a.b=x", "4 to"),
                           ("T-X@a.b=xxxx", "no name of a secret"), ("T@a.b,placeholder=short", "placeholder")):
            result = self.home.run("create", "--secret", text, "base")
            self.assertNotEqual(result.code, 0, text)
            self.assertIn(word, result.err.decode(), text)
        result = self.home.run("create", "--network", "none", "--secret", TOKEN, "base")
        self.assertNotEqual(result.code, 0)

    def test_no_trace_of_a_value(self):
        """Neither in memory, but of the one process, nor in a file."""
        self.start("--secret", TOKEN, "--secret", "A@api.example.com,env=OUTSIDE", "--memory", "128")
        self.sh(self.fetch(f"{API}/gzip", f"X: {PLACEHOLDER}") + f"; {self.fetch(f'{API}/echo', f'X: {PLACEHOLDER} <BOXLITE_SECRET:A>')} > /seen; sync")
        self.check("update", "--secret", "TOKEN=the-next-one", "box")
        self.sh(self.fetch(API, f"X: {PLACEHOLDER}") + f"; echo '{PLACEHOLDER}' > /placeholder; sync")
        self.assertIn(f"X: {VALUE} {OTHER_VALUE}", self.seen[1])
        self.check("snapshot", "create", "box", "point")
        self.check("snapshot", "restore", "box", "point", "--name", "other")
        self.assertIn(b"secret TOKEN has no value", self.home.run("start", "other").err)
        shim = self.home.inspect("box")["State"]["Pid"]
        looked_at = self.processes_without_a_trace(shim)
        self.assertTrue({"boxlite-shim", "boxlite-netd"} < looked_at, looked_at)
        self.check("stop", "-t", "0", "box")
        self.files_without_a_trace()

    def processes_without_a_trace(self, shim):
        names, found = set(), False
        todo = [shim]
        while todo:
            pid = todo.pop()
            todo += children(pid)
            with open(f"/proc/{pid}/comm") as file:
                name = file.read().strip()
            if name == "boxlite-tlsd":
                continue
            names.add(name)
            content = memory_of(pid)
            found |= PLACEHOLDER.encode() in content
            for value in (VALUE, OTHER_VALUE, "the-next-one"):
                self.assertNotIn(value.encode(), content, name)
        self.assertTrue(found)
        return names

    def files_without_a_trace(self):
        for value in (VALUE, OTHER_VALUE, "the-next-one"):
            found, count = boxtest.files_with(self.home.path, value.encode())
            self.assertEqual(found, [], value)
            self.assertGreater(count, 5)


def memory_of(pid):
    """What a process has in memory: all of what it shares, and of what is its own the pages that are there."""
    content = []
    with (open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", buffering=0) as memory,
          open(f"/proc/{pid}/pagemap", "rb", buffering=0) as pagemap):
        for line in maps:
            bounds, rights = line.split()[:2]
            if "r" not in rights or "[v" in line:
                continue
            begin, end = (int(bound, 16) // PAGE for bound in bounds.split("-"))
            pagemap.seek(begin * 8)
            entries = array.array("Q", pagemap.read((end - begin) * 8))
            page = 0
            shared = "s" in rights  # its pages can be there without being mapped
            for there, run in itertools.groupby(entries, lambda entry: shared or entry & PRESENT_OR_SWAPPED != 0):
                pages = len(list(run))
                if there:
                    content.append(os.pread(memory.fileno(), pages * PAGE, (begin + page) * PAGE))
                page += pages
    return b"\0".join(content)


class Rules(SecretsTest):
    def test_requests_over_tls(self):
        self.start("--allow-net", "GET,HEAD https://api.example.com/v1/*", "--allow-net", "other.example.org")
        self.assertIn("GET /v1/things", self.sh(self.fetch(f"{API}/v1/things?x=/v2")))
        for script, word in ((self.fetch(f"{API}/v2"), "GET /v2"), (f"curl -sSf -d x {API}/v1/x", "POST /v1/x"),
                             (self.fetch(f"{API}/v1/%2e%2e/v2") + " --path-as-is", "taken for another")):
            self.fails(script, word)
        self.assertEqual(len(self.seen), 1)
        self.sh(self.fetch("https://other.example.org/") + INSECURE)
        self.fails("exec 3<>/dev/tcp/api.example.com/443; echo hello >&3; read -t 20 answer <&3".join(("bash -c '", "'")),
                   "only HTTP requests")

    def test_denied_requests(self):
        self.start("--deny-net", "DELETE,PUT https://api.example.com/*")
        self.sh(self.fetch(API))
        self.fails(self.fetch(API) + " -X PUT", "--deny-net DELETE,PUT https://api.example.com/*")
        self.check("update", "--deny-net", "GET https://api.example.com/private/*", "box")
        self.sh(self.fetch(API) + " -X PUT")
        self.fails(self.fetch(f"{API}/private/x"), "--deny-net GET https://api.example.com/private/*")

    def test_requests_in_clear(self):
        self.start("--allow-net", "GET http://www.example.com/v1/*")
        self.sh(self.fetch("http://www.example.com/v1/x"))
        self.fails(self.fetch("http://www.example.com/v2"), "GET /v2")
        self.assertEqual(len(self.plain), 1)
        result = self.home.run("update", "--allow-net", "GET https://api.example.com/*", "box")
        self.assertEqual(result.code, 1)
        self.assertIn(b"started again", result.err)
        self.sh(self.fetch("http://www.example.com/v1/x"))


class Living(SecretsTest):
    def tlsd(self):
        for child in children(self.home.inspect("box")["State"]["Pid"]):
            with open(f"/proc/{child}/comm") as name:
                if name.read().strip() == "boxlite-tlsd":
                    return child
        return None

    def test_a_box_without_need_has_no_such_process(self):
        self.start("--allow-net", "GET http://www.example.com/*", "--allow-net", "other.example.org")
        self.assertIsNone(self.tlsd())

    def test_what_it_may(self):
        self.start("--secret", TOKEN)
        pid = self.tlsd()
        with open(f"/proc/{pid}/status") as file:
            status = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
        self.assertEqual((status["CapEff"].strip("0"), status["CapBnd"].strip("0")), ("", ""))
        self.assertEqual((status["NoNewPrivs"], status["Seccomp"]), ("1", "2"))
        self.assertNotIn("0", status["Uid"].split())
        self.assertEqual(os.stat(f"/proc/{pid}/environ").st_uid, 0)  # not dumpable: its files in /proc are root's
        jail = self.home.inspect("box")["Jail"]
        for part in ("empty root", "seccomp", "no capabilities", "net namespace", "not dumpable"):
            self.assertIn(f"tls: {part}", jail)

    def test_without_it_its_hosts_are_closed(self):
        self.start("--secret", TOKEN)
        kill(self.tlsd())
        wait_until(lambda: self.home.run("exec", "box", "sh", "-c", self.fetch(API)).code != 0, "it is refused")
        self.fails(self.fetch(API), "is gone")
        self.sh(self.fetch("https://other.example.org/") + INSECURE)
        self.assertEqual([head for head in self.seen if PLACEHOLDER in head], [])

    def test_the_hosts_added_authorities(self):
        added = tempfile.TemporaryDirectory()
        self.addCleanup(added.cleanup)
        os.chmod(added.name, 0o755)
        extra = tls_world.Authority(added.name)
        os.rename(extra.bundle, os.path.join(added.name, "company.crt"))
        self.home.added = added.name
        self.addCleanup(setattr, self.home, "added", None)
        self.start("--trust-host-ca", image="base")
        with open(os.path.join(added.name, "company.crt")) as file:
            self.assertIn(file.read(), self.sh("cat $SSL_CERT_FILE"))
        self.assertIsNone(self.tlsd())


class Programs(SecretsTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.serve_http2()

    @classmethod
    def serve_http2(cls):
        """nghttpx before the reflecting server."""
        backend = cls.world.serve("127.0.0.1", 0, reflector(cls.seen))
        certificate, key = cls.authority.sign("one.h2.example.com")
        proxy = subprocess.Popen(["ip", "netns", "exec", cls.world.net, "nghttpx", f"--frontend={SERVER},444",
                                  f"--backend=127.0.0.1,{backend}", "--workers=1", "--no-ocsp", "--errorlog-file=/dev/null",
                                  key, certificate], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        cls.addClassCleanup(proxy.wait)
        cls.addClassCleanup(proxy.terminate)

        def answers():
            with world.inside(cls.world.net):
                probe = socket.socket()
            with probe:
                return probe.connect_ex((SERVER, 444)) == 0

        wait_until(answers, "nghttpx listens")

    def test_curl_python_and_openssl(self):
        self.start("--secret", TOKEN)
        python = ("import os, urllib.request as r; print(r.urlopen(r.Request('https://api.example.com/chunks', "
                  "headers={'X-Key': os.environ['BOXLITE_SECRET_TOKEN']})).read().decode())")
        request = f"GET /echo HTTP/1.1\\r\\nHost: api.example.com\\r\\nX-Key: {PLACEHOLDER}\\r\\nConnection: close\\r\\n\\r\\n"
        for clean in ("", "env -u SSL_CERT_FILE -u CURL_CA_BUNDLE "):
            for program in (f"curl -sS -H 'X-Key: {PLACEHOLDER}' {API}/echo", f'python3 -c "{python}"',
                            f"sh -c \"printf '{request}' | openssl s_client -verify_return_error -quiet "
                            "-connect api.example.com:443 -servername api.example.com\""):
                del self.seen[:]
                out = self.sh(clean + program)
                self.assertIn(f"X-Key: {VALUE}", self.seen[0], program)
                self.assertIn(f"X-Key: {PLACEHOLDER}", out, program)
                self.assertNotIn(VALUE, out, program)

    def test_http2(self):
        self.start("--secret", TOKEN, "--secret", "OTHER@other.example.org=xxxxxxxx")
        url = "https://one.h2.example.com:444"
        out = self.sh(f"curl -sS --http2 -w '%{{http_version}}' -H 'X-Key: {PLACEHOLDER}' -H 'Cookie: a=b' {url}/chunks {url}/gzip")
        self.assertEqual(out.count(f"X-Key: {PLACEHOLDER}"), 2, out)
        self.assertTrue(out.endswith("2"), out)
        self.assertEqual([VALUE in head for head in self.seen], [True, True])
        self.assertNotIn(VALUE, out)
        self.assertIn(b"403", self.fails(f"curl -sSf --http2 -w '%{{http_code}}' -H 'X: <BOXLITE_SECRET:OTHER>' {url}/",
                                         "secret OTHER is for other.example.org").out)
        out = self.sh(f"head -c 3000000 /dev/zero | tr '\\0' x | curl -sS --http2 --data-binary @- -w '%{{http_code}}' {url}/up")
        self.assertTrue(out.endswith("200"), out)
        self.assertEqual(len(self.seen[-1]), 3000000)

    def test_a_websocket(self):
        self.start("--secret", TOKEN)
        code = ("import os, socket, ssl, sys\n"
                "s = ssl.create_default_context().wrap_socket(socket.create_connection(('api.example.com', 443), 20), server_hostname='api.example.com')\n"
                "s.sendall(b'GET /ws HTTP/1.1\\r\\nHost: api.example.com\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\n'\n"
                " b'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\\r\\nSec-WebSocket-Version: 13\\r\\nX-Key: '\n"
                " + os.environ['BOXLITE_SECRET_TOKEN'].encode() + b'\\r\\n\\r\\n')\n"
                "head = b''\nwhile not head.endswith(b'\\r\\n\\r\\n'): head += s.recv(1)\n"
                "assert b'101' in head and b's3pPLMBiTxaQ9kYGzzhZRbK+xOo=' in head, head\n"
                "def say(t): s.sendall(b'\\x81' + bytes([128 + len(t)]) + bytes(4) + t)\n"
                "say(b'hello'); print(s.recv(100)); say(b'head')\n"
                "try: print(s.recv(1000))\nexcept OSError: print(b'')\n")
        out = self.check("exec", "box", "python3", "-c", code).out.decode()
        self.assertEqual(out.splitlines(), ["b'\\x81\\x05hello'", "b''"])
        self.assertIn(f"X-Key: {VALUE}", self.seen[0])
        self.fails("false", "in another protocol than HTTP")

    def test_who_signs(self):
        self.start("--secret", TOKEN)
        issuer = "echo | openssl s_client -connect %s:443 -servername %s 2>&1 | grep -m1 '^issuer'"
        self.assertIn("BoxLite box", self.sh(issuer % ("api.example.com", "api.example.com")))
        self.assertIn("Authority of a test", self.sh(issuer % ("other.example.org", "other.example.org")))

    def test_another_run_has_another_authority(self):
        self.start("--secret", TOKEN)
        first = self.sh("cat /etc/boxlite/ca.crt; grep -c BoxLite /etc/ssl/certs/ca-certificates.crt")
        self.check("stop", "-t", "0", "box")
        self.check("start", "--secret", f"TOKEN={VALUE}", "box")
        second = self.sh("cat /etc/boxlite/ca.crt; grep -c BoxLite /etc/ssl/certs/ca-certificates.crt")
        self.assertNotEqual(first, second)
        self.assertEqual((first[-2:], second[-2:]), ("2\n", "2\n"))
        self.assertIn(PLACEHOLDER, self.sh(f"curl -sS -H 'X: {PLACEHOLDER}' {API}/echo"))


class AsUser(boxtest.AsUser, SecretsTest):
    @classmethod
    def setUpClass(cls):
        boxtest.AsUser.setUpClass.__func__(cls)
        SecretsTest.setUpClass.__func__(cls)

    def test_an_ordinary_user_has_the_same(self):
        self.start("--secret", TOKEN)
        self.assertNotIn(VALUE, self.sh(self.fetch(f"{API}/echo", f"X: {PLACEHOLDER}")))
        self.assertIn(f"X: {VALUE}", self.seen[0])


if __name__ == "__main__":
    unittest.main()
