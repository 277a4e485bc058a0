"""`boxlite stats`: what it says is what the boxes did. Network counters are in network_test.py."""
import json
import subprocess
import unittest

import boxtest
from boxtest import BoxTest, wait_until

MIB = 1 << 20


class Stats(BoxTest):
    def stats(self, box="box"):
        return json.loads(self.output("stats", box, "--format", "json"))[0]

    def box(self, name="box"):
        self.check("run", "-d", "--name", name, "--network", "none", "base", "sleep", "600")

    def test_commands_and_those_that_could_not_be_run(self):
        self.box()
        first = self.stats()
        self.assertEqual((first["name"], first["commands_executed_total"], first["exec_errors_total"]), ("box", 0, 0))
        self.assertEqual(first["id"], self.home.inspect("box")["Id"])
        for _ in range(3):
            self.check("exec", "box", "true")
        self.check("exec", "box", "false", code=1)
        self.check("exec", "box", "/no/such/program", code=127)
        second = self.stats()
        self.assertEqual((second["commands_executed_total"], second["exec_errors_total"]), (4, 1))
        self.assertEqual(second["boot_timing"]["guest_boot"], self.home.inspect("box")["BootMs"])
        self.assertGreater(second["boot_timing"]["guest_boot"], 0)

    def test_processor_and_memory(self):
        self.box()
        first = self.stats()
        self.assertLess(first["cpu_percent"], 20)
        self.check("exec", "-d", "box", "sh", "-c", "head -c 67108864 /dev/zero > /dev/shm/full; touch /tmp/full; while :; do :; done")
        wait_until(lambda: self.home.run("exec", "box", "test", "-e", "/tmp/full").code == 0, "its memory is filled")
        second = self.stats()
        self.assertGreaterEqual(second["memory_bytes"] - first["memory_bytes"], 60 * MIB)
        self.assertLess(second["memory_bytes"], second["memory_limit_bytes"])
        # It has the one processor to itself, as far as the host gives it one.
        wait_until(lambda: self.stats()["cpu_percent"] > 30, "it is seen to be busy")
        self.assertGreater(self.stats()["cpu_ns"], second["cpu_ns"])
        self.assertGreaterEqual(second["processes"], 2)

    def test_disk(self):
        self.box()
        first = self.stats()
        self.check("exec", "box", "sh", "-c", "head -c 8388608 /dev/urandom > /data; sync")
        second = self.stats()
        self.assertGreaterEqual(second["disk_written_bytes"] - first["disk_written_bytes"], 8 * MIB)
        self.assertGreaterEqual(second["disk_used_bytes"] - first["disk_used_bytes"], 8 * MIB)
        self.assertLess(second["disk_written_bytes"] - first["disk_written_bytes"], 64 * MIB)
        self.assertGreater(second["disk_read_bytes"], 0)

    def test_without_a_network_there_are_no_network_numbers(self):
        self.box()
        stats = self.stats()
        for name in ("network_bytes_sent", "network_bytes_received", "network_tcp_connections", "network_tcp_errors"):
            self.assertIsNone(stats[name])
        self.assertIn("--", self.output("stats", "box").splitlines()[1])

    def test_formats_and_which_boxes(self):
        self.assertEqual(json.loads(self.output("stats", "--format", "json")), [])
        self.box("one")
        self.box("two")
        self.check("create", "--name", "three", "base")
        self.assertEqual({item["name"] for item in json.loads(self.output("stats", "--format=json"))}, {"one", "two"})
        lines = self.output("stats", "two").splitlines()
        self.assertRegex(lines[0], r"^NAME +CPU +MEMORY +COMMANDS +ERRORS +BOOT TIME +NET SENT +NET RECV +TCP CONNECTIONS +TCP ERRORS +")
        self.assertRegex(lines[1], r"^two +\d+\.\d% +[\d.]+[kM]?B +0 +0 +\d+ ms +--")
        self.assertEqual(self.output("stats", "one", "--format", "{{.name}} {{.exec_errors_total}}"), "one 0\n")
        result = self.check("stats", "one", "three", "--format", "{{.name}}", code=1)
        self.assertEqual(result.out, b"one\n")
        self.assertIn(b"'three' is not running", result.err)
        self.check("stats", "four", code=1)

    def test_a_paused_box_tells_what_it_used(self):
        self.box()
        self.check("exec", "box", "true")
        self.check("pause", "box")
        first, second = self.stats(), self.stats()
        self.assertEqual((first["commands_executed_total"], first["cpu_percent"]), (1, 0))
        self.assertGreater(first["memory_bytes"], 0)
        self.assertEqual(first, second)

    def test_a_stream_goes_on_until_the_box_ends(self):
        self.box()
        stream = self.home.popen("stats", "-s", "--format", "json", "box", stdout=subprocess.PIPE)
        self.addCleanup(stream.stdout.close)
        first = json.loads(stream.stdout.readline())
        self.check("exec", "box", "true")
        seen = first
        for _ in range(5):
            seen = json.loads(stream.stdout.readline())
            if seen["commands_executed_total"] == 1:
                break
        self.assertEqual((first["name"], seen["commands_executed_total"]), ("box", 1))
        self.check("stop", "-t", "0", "box")
        self.assertEqual(stream.wait(30 * boxtest.PATIENCE), 0)


if __name__ == "__main__":
    unittest.main()
