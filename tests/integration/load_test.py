"""Much output for slow readers, and much memory."""
import hashlib
import os
import subprocess
import tempfile
import time
import unittest

from boxtest import BoxTest, wait_until

# 64 MiB of lines that tell where in the output they are.
FIRST, LINES = 10_000_000, (64 << 20) // 9
PROGRAM = f"seq {FIRST} {FIRST + LINES - 1}"

TOUCH = r"""
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
static uint64_t next(uint64_t* state) {
    *state ^= *state << 13, *state ^= *state >> 7, *state ^= *state << 17;
    return *state;
}
int main(int argc, char** argv) {
    const uint64_t pages = argc == 2 ? strtoull(argv[1], 0, 10) / 4096 : 0, touches = pages / 8, seed = 88172645463325252u;
    uint64_t* memory = mmap(0, pages * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return 1;
    uint64_t touched = 0, wrong = 0;
    for (int round = 0; round < 2; ++round) {
        uint64_t state = seed;
        for (uint64_t n = 0; n < touches; ++n) {
            const uint64_t page = next(&state) % pages;
            uint64_t* word = memory + page * 512 + page % 512;
            if (round == 0 && *word == 0) ++touched, *word = page + 1;
            wrong += *word != page + 1;
        }
    }
    printf("%llu pages touched, %llu wrong\n", (unsigned long long)touched, (unsigned long long)wrong);
    return wrong != 0;
}
"""


def peak(pid):
    """The most memory, in KiB, that a process has had."""
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))


class Output(BoxTest):
    def slowly(self, process, supervisor):
        """Reads all, with rests at first; checks the bytes and the memory of both ends."""
        before = peak(supervisor())
        wanted = subprocess.run(PROGRAM.split(), check=True, capture_output=True).stdout
        digest, total, grown = hashlib.sha256(), 0, None
        while chunk := process.stdout.read(1 << 20):
            digest.update(chunk)
            total += len(chunk)
            if total <= 5 << 20:
                time.sleep(0.2)  # the reader's slowness is the subject
            if grown is None and total > 32 << 20:
                grown = peak(supervisor()) - before + peak(process.pid)
        self.assertEqual((total, digest.hexdigest()), (len(wanted), hashlib.sha256(wanted).hexdigest()))
        self.assertEqual(process.wait(60), 0)
        self.assertLess(grown, 48 << 10, "KiB, of the supervisor's growth and all of the client")

    def begin(self, *args, **extra):
        process = self.home.popen(*args, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, **extra)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def supervisor(self):
        return self.home.inspect("box")["State"]["Pid"]

    def test_run_in_the_foreground(self):
        process = self.begin("run", "--name", "box", "base", "sh", "-c", PROGRAM)
        wait_until(lambda: self.home.run("exec", "box", "true").code == 0, "the box runs")
        self.slowly(process, self.supervisor)

    def test_a_follower_of_logs_that_rests_stops_nobody_and_is_told(self):
        program = "await() { while [ ! -e /$1 ]; do sleep 0.05; done; }; await go; " + PROGRAM + "; touch /done; await end"
        self.check("run", "-d", "--name", "box", "base", "sh", "-c", program)
        process = self.begin("logs", "-f", "box", stderr=subprocess.PIPE)
        self.addCleanup(process.stderr.close)
        self.check("exec", "box", "touch", "/go")
        first = process.stdout.read(1 << 20)
        wait_until(lambda: self.home.run("exec", "box", "test", "-e", "/done").code == 0, "the program goes on", 120)
        grown = peak(self.supervisor()) + peak(process.pid)
        self.check("exec", "box", "touch", "/end")
        rest, errors = process.communicate(timeout=60)
        self.assertTrue(first.startswith(b"%d\n" % FIRST))
        self.assertTrue(rest.endswith(b"%d\n" % (FIRST + LINES - 1)))
        self.assertLess(len(first) + len(rest), 48 << 20)
        self.assertRegex(errors.decode(), r"about \d+ bytes of output were missed")
        self.assertLess(grown, 64 << 10, "KiB, of the supervisor and the client")


class Memory(BoxTest):
    def test_two_gigabytes_in_random_order(self):
        size = 2 << 30
        with tempfile.TemporaryDirectory() as work:
            with open(os.path.join(work, "touch.c"), "w") as out:
                out.write(TOUCH)
            subprocess.run(["gcc", "-O2", "-static", "-o", os.path.join(work, "touch"), os.path.join(work, "touch.c")], check=True)
            self.check("create", "--name", "box", "--memory", "3g", "base")
            self.check("cp", os.path.join(work, "touch"), "box:/touch")
            wanted = subprocess.run([os.path.join(work, "touch"), str(size)], check=True, capture_output=True).stdout
        self.assertEqual(self.check("exec", "box", "/touch", str(size), timeout=300).out, wanted)


if __name__ == "__main__":
    unittest.main()
