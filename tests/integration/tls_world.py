"""Servers that speak TLS for the tests of secrets: a certificate authority of the test's own, and handlers that echo, redirect,
compress and reflect what they get."""
import base64
import contextlib
import ctypes
import gzip
import hashlib
import json
import os
import socket
import ssl
import struct
import subprocess
import tempfile

import world
from world import MS_BIND, check, libc


class Authority:
    """Signs certificates with openssl. `bundle` is what a host has to trust."""

    def __init__(self, folder):
        self.folder = folder
        self.bundle = os.path.join(folder, "ca.pem")
        self.key = os.path.join(folder, "ca.key")
        self.openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", self.key, "-out",
                     self.bundle, "-days", "30", "-subj", "/CN=Authority of a test", "-addext", "keyUsage=critical,keyCertSign")
        os.chmod(self.bundle, 0o644)

    @staticmethod
    def openssl(*args, **options):
        return subprocess.run(["openssl", *args], check=True, capture_output=True, **options)

    def sign(self, *names, days=30):
        """Paths of a certificate for the names and of its key."""
        cert, key, request = (os.path.join(self.folder, f"{names[0]}-{days}.{end}") for end in ("pem", "key", "csr"))
        self.openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-out", request,
                     "-subj", f"/CN={names[0]}")
        extensions = "subjectAltName=" + ",".join(f"DNS:{name}" for name in names)
        self.openssl("x509", "-req", "-in", request, "-CA", self.bundle, "-CAkey", self.key, "-out", cert, "-days", str(days),
                     "-extfile", "/dev/stdin", input=extensions.encode())
        return cert, key

    def context(self, *names, days=30):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.sign(*names, days=days))
        context.set_alpn_protocols(["http/1.1"])
        return context


def over_tls(context, handle):
    def wrapped(connection):
        with contextlib.suppress(ssl.SSLError), context.wrap_socket(connection, server_side=True) as stream:
            handle(stream)
    return wrapped


def read_head(connection, rest=b""):
    while b"\r\n\r\n" not in rest:
        piece = connection.recv(65536)
        if not piece:
            return None, b""
        rest += piece
    head, _, rest = rest.partition(b"\r\n\r\n")
    return head, rest


def reflector(seen):
    """An HTTP/1.1 server whose answers hold the head of the request, in ways that the path asks for."""
    def handle(connection):
        rest = b""
        while True:
            head, rest = read_head(connection, rest)
            if head is None:
                return
            seen.append(head.decode("latin-1"))
            path = head.split()[1].partition(b"?")[0]
            for line in head.lower().split(b"\r\n"):
                if line.startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
                    while len(rest) < length:
                        rest += connection.recv(65536)
                    seen.append(rest[:length].decode("latin-1"))
                    rest = rest[length:]
            if path == b"/ws":
                return websocket(connection, head, rest)
            if path == b"/redirect":
                connection.sendall(b"HTTP/1.1 302 Found\r\nLocation: https://other.example.org/landed\r\nContent-Length: 0\r\n\r\n")
            elif path == b"/gzip":
                body = gzip.compress(head)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            elif path == b"/header":
                value = head.split(b"\r\nX-Key: ")[1].split(b"\r\n")[0]
                connection.sendall(b"HTTP/1.1 200 OK\r\nX-Reflected: %s\r\nContent-Length: 2\r\n\r\nok" % value)
            elif path == b"/chunks":
                connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                for at in range(0, len(head), 7):
                    connection.sendall(b"%x\r\n%s\r\n" % (len(head[at:at + 7]), head[at:at + 7]))
                connection.sendall(b"0\r\n\r\n")
            else:
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(head) + head)
            if b"\r\nconnection: close" in head.lower():
                return
    return handle


def websocket(connection, head, rest):
    """RFC 6455: every text message comes back; "head" brings the head of the request."""
    key = head.split(b"Sec-WebSocket-Key: ")[1].split(b"\r\n")[0]
    accept = base64.b64encode(hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
    connection.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                       b"Sec-WebSocket-Accept: %s\r\n\r\n" % accept)
    while True:
        while len(rest) < 6 or len(rest) < 6 + (rest[1] & 127):
            piece = connection.recv(65536)
            if not piece:
                return
            rest += piece
        length = rest[1] & 127
        text = bytes(byte ^ rest[2 + i % 4] for i, byte in enumerate(rest[6:6 + length]))
        rest = rest[6 + length:]
        answer = head if text == b"head" else text
        size = bytes([len(answer)]) if len(answer) < 126 else b"\x7e" + struct.pack(">H", len(answer))
        connection.sendall(b"\x81" + size + answer)


class Home(world.Home):
    """A home on a host that trusts `bundle`, and to which authorities were added where `added` says so."""

    def __init__(self, the_world, bundle, user=None, env=None, added=None):
        super().__init__(the_world, user)
        self.bundle, self.env, self.added = bundle, env or {}, added

    def options(self):
        options = super().options()
        options["env"] = {**options["env"], "SSL_CERT_FILE": self.bundle, **self.env}
        enter = options["preexec_fn"]

        def prepare():
            enter()
            if self.added:
                check(libc.mount(self.added.encode(), b"/usr/local/share/ca-certificates", None, MS_BIND, None))

        options["preexec_fn"] = prepare
        return options


if __name__ == "__main__":
    raise SystemExit("a library; run the test files")
