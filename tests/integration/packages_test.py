"""Package managers in a box that may reach nothing but the hosts of their packages: apt and npm, from where this host
gets its own. Needs the outside, as the build does."""
import ipaddress
import json
import re
import socket
import time
import unittest
from urllib.parse import urlsplit

import boxtest


def hosts_of(*urls):
    """The allow-list of these hosts. Where a host is reached through a mirror at an address that is not public, that
    address is on it too, as the user of such a mirror has to list it."""
    flags = []
    for url in urls:
        address = socket.getaddrinfo(urlsplit(url).hostname, None, proto=socket.IPPROTO_TCP)[0][4][0]
        names = [urlsplit(url).hostname] + ([] if ipaddress.ip_address(address).is_global else [address])
        flags += [flag for name in names for flag in ("--allow-net", name)]
    return flags


class Packages(boxtest.BoxTest):
    @classmethod
    def setUpClass(cls):
        cls.image = boxtest.debian_image(["npm"])

    def setUp(self):
        super().setUp()
        self.check("import", self.image.rpartition(":")[0], "npm:1")

    def start(self, *flags):
        self.check("run", "-d", "--name", "box", "--memory", "1g", "--trust-host-ca", *flags, "npm:1", "sleep", "900")

    def sh(self, script, code=0, timeout=300):
        return self.check("exec", "box", "sh", "-c", script, code=code, timeout=timeout)

    def sources(self):
        """Where the packages of the image come from: of Debian and of npm."""
        box = ["run", "--rm", "--network", "none", "npm:1"]
        debian = re.search(r"deb (\S+)", self.output(*box, "cat", "/etc/apt/sources.list"))[1]
        return debian, self.output(*box, "npm", "config", "get", "registry").strip()

    def flows(self):
        return [json.loads(line) for line in self.output("network", "log", "--format", "json", "box").splitlines()]

    def test_just_the_hosts_of_the_packages(self):
        sources = self.sources()
        self.start(*hosts_of(*sources))
        self.sh("apt-get update && apt-get install -y --no-install-recommends hello")
        self.assertEqual(self.sh("hello").out, b"Hello, world!\n")
        self.sh("mkdir /srv/app && cd /srv/app && npm install --no-audit --no-fund --no-update-notifier semver is-number")
        self.assertEqual(self.sh("cd /srv/app && node -p 'require(\"semver\").gt(\"1.10.0\", \"1.9.0\")'").out, b"true\n")
        tcp = [flow for flow in self.flows() if flow["protocol"] == "tcp"]
        self.assertEqual({flow["verdict"] for flow in tcp}, {"allowed"}, tcp)
        self.assertEqual({flow["name"] for flow in tcp}, {urlsplit(url).hostname for url in sources}, tcp)
        self.assertGreater(sum(flow["received_bytes"] for flow in tcp), 1 << 20, tcp)
        # Everything else stays shut.
        self.assertIn(b"Connection refused", self.sh("bash -c 'exec 3<>/dev/tcp/198.52.100.1/80'", code=1).err)
        boxtest.wait_until(lambda: [flow["address"] for flow in self.flows() if flow["verdict"] == "refused"] == ["198.52.100.1"],
                           "it is logged as refused")

    def test_an_empty_list_fails_at_once_and_is_logged(self):
        debian, npm = self.sources()
        self.start("--allow-net", "")
        for command, host in (("apt-get -o APT::Update::Error-Mode=any update", debian),
                              ("npm install --no-audit --no-fund --no-update-notifier --fetch-retries 0 is-number", npm)):
            begin = time.monotonic()
            result = self.home.run("exec", "-w", "/tmp", "box", "sh", "-c", command)
            self.assertNotEqual(result.code, 0, result)
            self.assertLess(time.monotonic() - begin, 15 * boxtest.PATIENCE, result)
            boxtest.wait_until(lambda: any(flow["name"] == urlsplit(host).hostname and flow["verdict"] == "refused"
                                           for flow in self.flows()), f"{host} is logged as refused")


if __name__ == "__main__":
    unittest.main()
