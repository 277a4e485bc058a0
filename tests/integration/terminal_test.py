"""Terminals, signals and standard streams: what a user at a keyboard, a script and a pipe see."""
import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
import unittest

from boxtest import BoxTest, wait_until


class Keyboard:
    """A command on a pseudo-terminal of its own."""

    def __init__(self, home, *args, rows=30, cols=100):
        self.master, terminal = pty.openpty()
        self.resize(rows, cols)
        self.settings = termios.tcgetattr(terminal)

        def own_terminal():
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.terminal = terminal
        self.process = home.popen(*args, stdin=terminal, stdout=terminal, stderr=terminal, preexec_fn=own_terminal)
        self.seen = b""

    def resize(self, rows, cols):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def type(self, text):
        os.write(self.master, text)

    def read_until(self, wanted, seconds=60):
        """Everything up to and with `wanted`, which is then taken off what was seen."""
        deadline = time.monotonic() + seconds
        while wanted not in self.seen:
            left = deadline - time.monotonic()
            ready = select.select([self.master], [], [], max(left, 0))[0]
            if not ready:
                raise AssertionError(f"{wanted!r} did not come; seen: {self.seen[-500:]!r}")
            self.seen += os.read(self.master, 65536)
        end = self.seen.index(wanted) + len(wanted)
        result, self.seen = self.seen[:end], self.seen[end:]
        return result

    def code(self, seconds=60):
        return self.process.wait(seconds)

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.master)
        os.close(self.terminal)


class Terminal(BoxTest):
    def keyboard(self, *args, **size):
        keyboard = Keyboard(self.home, *args, **size)
        self.addCleanup(keyboard.close)
        return keyboard

    def test_a_shell_has_a_terminal_of_the_right_size(self):
        shell = self.keyboard("run", "--rm", "-it", "base", "sh", rows=33, cols=111)
        shell.read_until(b"# ")
        shell.type(b"stty size; tty; echo term=$TERM\n")
        shell.read_until(b"33 111")
        shell.read_until(b"/dev/pts/0")
        shell.read_until(b"term=xterm")
        shell.resize(50, 132)
        shell.type(b"while ! stty size | grep '^50 132'; do :; done\n")
        shell.read_until(b"\n50 132")
        shell.type(b"sh -c 'echo run''ning; exec cat'\n")
        shell.read_until(b"running")
        shell.type(b"\x03")  # goes to the program, not to boxlite
        shell.read_until(b"^C")
        shell.type(b"exit 5\n")
        self.assertEqual(shell.code(), 5)

    def test_the_users_terminal_is_as_it_was(self):
        self.check("create", "--name", "box", "base")
        for args in (["exec", "-it", "box", "true"], ["exec", "-it", "box", "no-such-program"], ["exec", "-it", "no-box", "sh"]):
            keyboard = self.keyboard(*args)
            keyboard.code()
            self.assertEqual(termios.tcgetattr(keyboard.terminal), keyboard.settings, args)
        keyboard = self.keyboard("exec", "-it", "box", "sh", "-c", "trap 'exit 9' TERM; echo ready; while :; do sleep 1; done")
        keyboard.read_until(b"ready")
        self.assertNotEqual(termios.tcgetattr(keyboard.terminal), keyboard.settings, "raw while it runs")
        keyboard.process.send_signal(signal.SIGTERM)
        self.assertEqual(keyboard.code(), 9)
        self.assertEqual(termios.tcgetattr(keyboard.terminal), keyboard.settings)

    def test_attach_and_detach(self):
        self.check("run", "-dit", "--name", "box", "base", "sh")
        for number in (1, 2):
            keyboard = self.keyboard("attach", "box")
            keyboard.type(b"echo here$((%d+1))\n" % number)
            keyboard.read_until(b"here%d" % (number + 1))
            keyboard.type(b"\x10\x11")  # ^P ^Q
            keyboard.read_until(b"detached")
            self.assertEqual(keyboard.code(), 0)
        keyboard = self.keyboard("attach", "box")
        keyboard.type(b"exit 4\n")
        self.assertEqual(keyboard.code(), 4)
        self.assertEqual(self.output("wait", "box"), "4\n")

    def test_a_terminal_is_asked_for_in_vain(self):
        for args in (["run", "-t", "base", "sh"], ["exec", "-it", "box", "sh"]):
            result = self.check(*args, code=125)
            self.assertIn(b"the input device is not a TTY.", result.err)


class Signals(BoxTest):
    def program(self, *flags):
        script = ("trap 'echo got INT' INT; trap 'echo got HUP' HUP; trap 'echo got USR1' USR1; trap 'echo got TERM; exit 7' TERM;"
                  "echo ready; while :; do sleep 0.05; done")
        process = self.home.popen("run", *flags, "base", "sh", "-c", script, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        return process

    def test_signals_reach_the_program(self):
        process = self.program("--rm")
        for name in ("INT", "HUP", "USR1", "TERM"):
            process.send_signal(getattr(signal, "SIG" + name))
            self.assertEqual(process.stdout.readline(), f"got {name}\n".encode())
        self.assertEqual(process.wait(60), 7)

    def test_the_third_interrupt_kills_what_does_not_listen(self):
        process = self.home.popen("run", "--rm", "base", "sh", "-c", "trap '' INT TERM; echo ready; while :; do sleep 1; done",
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        self.addCleanup(process.stdout.close)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        for _ in range(3):
            process.send_signal(signal.SIGINT)
            time.sleep(0.1)  # three that are pending at once are one
        self.assertEqual(process.wait(60), 128 + signal.SIGKILL)

    def test_stop_sends_the_signal_and_then_kills(self):
        process = self.program("--name", "box")
        self.check("stop", "box", timeout=60)
        self.assertEqual(process.stdout.read(), b"got TERM\n")
        self.assertEqual(process.wait(60), 7)
        self.check("run", "-d", "--name", "deaf", "base", "sh", "-c", "trap '' TERM; while :; do sleep 1; done")
        self.check("stop", "-t", "1", "deaf", timeout=60)
        self.assertEqual(self.home.inspect("deaf")["State"]["ExitCode"], 137)


class Pipes(BoxTest):
    def test_a_closed_standard_output_ends_the_command_quietly(self):
        self.check("create", "--name", "box", "base")
        for args in (["run", "--rm", "base", "yes"], ["exec", "box", "yes"]):
            process = self.home.popen(*args, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            process.stdout.read(10)
            process.stdout.close()
            self.assertEqual(process.wait(60), 128 + signal.SIGPIPE)
            self.assertNotIn(b"rror", process.stderr.read())
            process.stderr.close()
        wait_until(lambda: b"yes" not in self.check("exec", "box", "ps").out, "the program got SIGPIPE")

    def test_standard_input_ends_where_the_file_ends(self):
        self.assertEqual(self.check("run", "--rm", "-i", "base", "cat", stdin=b"a\0b\xff").out, b"a\0b\xff")
        self.assertEqual(self.check("run", "--rm", "base", "cat", stdin=b"not passed on").out, b"")
        self.check("create", "--name", "box", "base")
        self.assertEqual(self.check("exec", "-i", "box", "sh", "-c", "read line; echo $line", stdin=b"one\n" * 100000).out, b"one\n")

    def test_two_hundred_lines_in_order_from_a_short_program(self):
        wanted = "".join(f"{n}\n" for n in range(200)).encode()
        for _ in range(5):
            self.assertEqual(self.check("run", "--rm", "base", "seq", "0", "199").out, wanted)

    def test_a_slow_reader_loses_nothing_of_run(self):
        process = self.home.popen("run", "--rm", "base", "sh", "-c", "head -c 60000000 /dev/zero", stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE)
        total = 0
        with contextlib.closing(process.stdout):
            while chunk := process.stdout.read(1 << 20):
                total += len(chunk)
                if total < 8 << 20:
                    time.sleep(0.1)  # the program runs ahead as far as it may
        self.assertEqual((process.wait(60), total), (0, 60000000))

    def test_logs(self):
        self.check("run", "-d", "--name", "box", "base", "sh", "-c",
                   "for n in 1 2 3 4 5; do echo line $n; sleep 0.1; done; printf unfinished; echo oops >&2")
        followed = self.check("logs", "-f", "box")
        self.assertEqual(followed.out, b"line 1\nline 2\nline 3\nline 4\nline 5\nunfinished")
        self.assertEqual(followed.err, b"oops\n")
        self.check("wait", "box")
        self.assertEqual(self.check("logs", "--tail", "2", "box").out + self.check("logs", "-n2", "box").err, b"unfinishedoops\n")
        stamped = self.output("logs", "--timestamps", "-n", "0", "box").splitlines()
        self.assertRegex(stamped[0], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z line 1$")


if __name__ == "__main__":
    unittest.main()
