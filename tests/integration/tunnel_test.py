"""`boxlite network tunnel`: connections to ports inside a box, as a stream and through a listener. No port is published,
and most of the boxes have no network at all."""
import hashlib
import os
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import unittest

import boxtest
from boxtest import BoxTest, free_port, wait_until


class Tunnel(BoxTest):
    def box(self, *flags):
        self.check("run", "-d", "--name", "box", *flags, "base", "sleep", "600")

    def serve(self, command):
        """Each connection to port 8000 of the box gets a process of that shell command."""
        self.check("exec", "-d", "box", "sh", "-c", f"echo '{command}' > /tmp/serve; exec nc -ll -p 8000 -e sh /tmp/serve")
        wait_until(lambda: "1F40" in self.output("exec", "box", "cat", "/proc/net/tcp", "/proc/net/tcp6"), "the box's server listens")

    def listen(self, *address):
        forwarder = self.home.popen("network", "tunnel", "box", "8000", "--listen", *address, stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE)
        self.addCleanup(forwarder.stderr.close)
        self.addCleanup(forwarder.stdout.close)
        self.addCleanup(forwarder.wait)
        self.addCleanup(forwarder.kill)
        shown = forwarder.stdout.readline().decode().strip()
        self.assertTrue(shown, "it did not listen")
        return forwarder, shown

    def connect(self, shown):
        if shown.startswith("unix:"):
            connection = socket.socket(socket.AF_UNIX)
            connection.connect(shown[5:])
        else:
            host, _, port = shown.rpartition(":")
            connection = socket.create_connection((host.strip("[]"), int(port)))
        connection.settimeout(30 * boxtest.PATIENCE)
        self.addCleanup(connection.close)
        return connection

    @staticmethod
    def rest_of(connection):
        pieces = []
        while piece := connection.recv(1 << 16):
            pieces.append(piece)
        return b"".join(pieces)

    def test_a_stream_without_a_network(self):
        self.box("--network", "none")
        self.serve("wc -c; echo end")
        data = os.urandom(3_000_000)
        self.assertEqual(self.check("network", "tunnel", "box", "8000", stdin=data).out, b"3000000\nend\n")

    def test_bytes_are_exact_both_ways(self):
        self.box()
        self.serve("cat")
        data = os.urandom(8 << 20)
        received = self.check("network", "tunnel", "box", "8000", stdin=data).out
        self.assertEqual(hashlib.sha256(received).digest(), hashlib.sha256(data).digest())

    def test_it_ends_when_the_box_side_ends(self):
        self.box("--network", "none")
        self.serve("read line; echo got $line")
        tunnel = self.home.popen("network", "tunnel", "box", "8000", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(tunnel.stdout.close)
        tunnel.stdin.write(b"this\n")
        tunnel.stdin.flush()
        # Its input stays open.
        self.assertEqual(tunnel.wait(30 * boxtest.PATIENCE), 0)
        self.assertEqual(tunnel.stdout.read(), b"got this\n")
        tunnel.stdin.close()

    def test_a_killed_client_leaves_no_connection(self):
        self.box("--network", "none")
        self.serve("cat; touch /tmp/over")
        tunnel = self.home.popen("network", "tunnel", "box", "8000", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(tunnel.stdout.close)
        self.addCleanup(tunnel.stdin.close)
        tunnel.stdin.write(b"x")
        tunnel.stdin.flush()
        self.assertEqual(tunnel.stdout.read(1), b"x")
        tunnel.kill()
        tunnel.wait()
        wait_until(lambda: self.home.run("exec", "box", "test", "-e", "/tmp/over").code == 0, "the box's side ends too")

    def test_a_listener_on_loopback(self):
        self.box("--network", "none")
        self.serve("cat")
        forwarder, shown = self.listen("0")
        self.assertRegex(shown, r"^127\.0\.0\.1:[1-9]\d*$")
        connections = [self.connect(shown) for _ in range(8)]
        for number, connection in enumerate(connections):
            connection.sendall(f"number {number}".encode())
        for number, connection in enumerate(connections):
            connection.shutdown(socket.SHUT_WR)
            self.assertEqual(self.rest_of(connection), f"number {number}".encode())
        forwarder.send_signal(signal.SIGINT)
        self.assertEqual(forwarder.wait(30), -signal.SIGINT)

    def test_a_listener_on_an_address_and_port(self):
        self.box("--network", "none")
        self.serve("echo hello")
        port = free_port()
        _, shown = self.listen(f"127.0.0.2:{port}")
        self.assertEqual(shown, f"127.0.0.2:{port}")
        self.assertEqual(self.rest_of(self.connect(shown)), b"hello\n")
        again = self.check("network", "tunnel", "box", "8000", "--listen", shown, code=1)
        self.assertIn(b"in use", again.err)
        self.assertIn(shown.encode(), again.err)

    def test_a_unix_socket(self):
        self.box("--network", "none")
        self.serve("cat")
        folder = tempfile.mkdtemp(prefix="boxlite-tunnel-")
        self.addCleanup(shutil.rmtree, folder)
        if self.user:
            os.chown(folder, self.user.pw_uid, self.user.pw_gid)
        path = os.path.join(folder, "socket")
        forwarder, shown = self.listen(f"unix:{path}")
        self.assertEqual(shown, f"unix:{path}")
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
        connection = self.connect(shown)
        connection.sendall(b"over a file")
        connection.shutdown(socket.SHUT_WR)
        self.assertEqual(self.rest_of(connection), b"over a file")
        self.assertIn(b"exists already", self.check("network", "tunnel", "box", "8000", "--listen", f"unix:{path}", code=1).err)
        forwarder.send_signal(signal.SIGTERM)
        self.assertEqual(forwarder.wait(30), -signal.SIGTERM)
        self.assertFalse(os.path.exists(path))

    def test_nothing_listens(self):
        self.box("--network", "none")
        result = self.check("network", "tunnel", "box", "8000", code=1)
        for word in (b"box 'box'", b"nothing in the box listens on TCP port 8000", b"refused"):
            self.assertIn(word, result.err)
        forwarder, shown = self.listen("0")
        self.assertEqual(self.rest_of(self.connect(shown)), b"")
        self.assertIn(b"nothing in the box listens", forwarder.stderr.readline())
        # It goes on, for a server that comes later.
        self.serve("echo late")
        self.assertEqual(self.rest_of(self.connect(shown)), b"late\n")

    def test_mistakes_are_told(self):
        self.check("create", "--name", "box", "base")
        for args, code, word in ((("box", "8000"), 1, b"is not running; start it"), (("box", "8000", "--listen", "0"), 1, b"is not running"),
                                 (("box", "0"), 2, b"'0' is no port"), (("box", "65536"), 2, b"'65536' is no port"),
                                 (("box", "http"), 2, b"'http' is no port"), (("box",), 2, b"a port inside it"), (("none", "80"), 1, b"none")):
            self.assertIn(word, self.check("network", "tunnel", *args, code=code).err, args)
        self.check("start", "box")
        self.assertIn(b"--listen", self.check("network", "tunnel", "box", "80", "--listen", "unix:here", code=2).err)
        self.check("pause", "box")
        self.assertIn(b"paused", self.check("network", "tunnel", "box", "80", code=1).err)

    def test_the_box_ends_meanwhile(self):
        self.box("--network", "none")
        self.serve("cat")
        tunnel = self.home.popen("network", "tunnel", "box", "8000", stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for stream in (tunnel.stdin, tunnel.stdout, tunnel.stderr):
            self.addCleanup(stream.close)
        tunnel.stdin.write(b"x")
        tunnel.stdin.flush()
        self.assertEqual(tunnel.stdout.read(1), b"x")
        self.check("stop", "-t", "0", "box")
        tunnel.wait(30 * boxtest.PATIENCE)


class AsUser(boxtest.AsUser, Tunnel):
    pass


if __name__ == "__main__":
    unittest.main()
