"""What goes wrong outside of boxlite is told with the thing, the reason and the way out, soon, and leaves nothing half
done behind."""
import os
import subprocess
import time
import unittest

import boxtest
from boxtest import BoxTest


class Images(BoxTest):
    @classmethod
    def setUpClass(cls):
        cls.registry = boxtest.Registry()
        cls.addClassCleanup(cls.registry.close)
        cls.layout = boxtest.image_of_file(cls, os.urandom(1 << 20))
        cls.reference = cls.registry.push(cls.layout, "data:1")

    def fails(self, *args, code, words):
        began = time.monotonic()
        result = self.check(*args, code=code, timeout=60)
        message = result.err.decode().splitlines()[-1]
        for word in words:
            self.assertIn(word, message)
        self.assertEqual(result.out, b"")
        self.assertEqual(self.output("images", "-q"), "")
        return time.monotonic() - began

    def test_no_such_image(self):
        for missing in (f"{self.registry.address}/none:latest", f"{self.registry.address}/data:2"):
            self.fails("pull", missing, code=1, words=[missing, "has no manifest", "check the name"])
            self.fails("run", missing, "true", code=125, words=[missing, "has no manifest", "check the name"])
        self.fails("run", "--pull", "never", self.reference, "true", code=125, words=[self.reference, f"boxlite pull {self.reference}"])

    def test_a_registry_that_is_down(self):
        address = f"127.0.0.1:{boxtest.free_port()}"
        for args, code in [(("pull", f"{address}/x"), 1), (("run", f"{address}/x", "true"), 125)]:
            self.fails(*args, code=code, words=[address, "connect"])

    def test_a_blob_that_is_not_what_its_digest_says(self):
        digest = boxtest.layers_of(self.layout)[0]
        name = digest.partition(":")[2]
        stored = subprocess.run(["find", self.registry.folder, "-path", f"*/{name}/data"], capture_output=True, text=True,
                                check=True).stdout.strip()
        with open(stored, "r+b") as blob:
            blob.seek(1000)
            original = blob.read(1)
            blob.seek(1000)
            blob.write(bytes([original[0] ^ 1]))
        self.fails("pull", self.reference, code=1, words=[digest, "its content is not what was asked for"])
        with open(stored, "r+b") as blob:
            blob.seek(1000)
            blob.write(original)
        self.check("pull", self.reference)


class Programs(BoxTest):
    def test_what_cannot_be_run_is_named(self):
        self.check("create", "--name", "box", "base")
        for command in (["run", "--rm", "base"], ["exec", "box"]):
            for program, code, word in [("no-such-program", 127, "No such file"), ("/no/such", 127, "No such file"),
                                        ("/etc", 126, "Permission denied"), ("/etc/passwd", 126, "Permission denied")]:
                result = self.check(*command, program, code=code)
                self.assertIn(program, result.err.decode().splitlines()[-1])
                self.assertIn(word, result.err.decode().splitlines()[-1])

    def test_secrets_on_a_host_without_trusted_certificates(self):
        options = self.home.options()
        options["env"]["SSL_CERT_FILE"] = "/nonexistent"
        result = subprocess.run(self.home.command("run", "--rm", "--secret", "KEY@api.example.com=0123456789", "base", "true"),
                                capture_output=True, timeout=60, **options)
        self.assertEqual(result.returncode, 125)
        self.assertIn(b"trusted certificates in /nonexistent", result.stderr)


if __name__ == "__main__":
    unittest.main()
