"""kill -9 of the supervisor, of the guest kernel and of the client, each at ten moments from the first of its boot on
and ten in the middle of synced writes: the next use tells the truth and works, no synced byte is lost, and nothing
stays behind."""
import json
import os
import signal
import subprocess
import time
import unittest

from boxtest import PATIENCE, BoxTest, alive, check_disk, children, kill, wait_until

MOMENTS = [number * 0.033 for number in range(10)]  # seconds after the victim's own start

WRITER = "echo $$ > /run/writer; n=0; while :; do echo $n >> /srv/log{0}; sync; echo $n; n=$((n+1)); done"


def supervisor_of(client):
    return next(iter(children(client.pid)), None)


class Crash(BoxTest):
    def setUp(self):
        super().setUp()
        self.check("create", "--name", "box", "base")
        self.engine = json.loads(self.output("info", "--format", "json"))["engine"]

    def machine_of(self, supervisor):
        """The process that the guest kernel is, or None: the supervisor's first child, or on kvm itself."""
        return supervisor if self.engine == "kvm" else next(iter(children(supervisor)), None)

    def start(self, *args, **extra):
        process = self.home.popen(*args, stdin=subprocess.DEVNULL, **extra)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        for stream in filter(None, (process.stdout, process.stderr)):
            self.addCleanup(stream.close)
        return process

    def runs(self, box):
        """Whether inspect says so, which it must not of a dead box."""
        state = self.home.inspect(box)["State"]
        if state["Running"] and not alive(state["Pid"]):
            dead = state["Pid"]
            state = self.home.inspect(box)["State"]  # it has ended between the question and the look
            self.assertFalse(state["Running"] and state["Pid"] in (0, dead), f"a dead box is said to run: {state}")
        return state["Running"]

    def is_down(self, box):
        """Said and so: whoever looks first also puts away what a killed supervisor left."""
        self.assertEqual(self.output("list", "--quiet"), "")
        self.assertFalse(self.runs(box))
        self.assertEqual({trace for trace in self.home.traces() if not trace.startswith("folder")}, set())

    def nothing_stays(self):
        self.check("stop", "box")
        check_disk(self.home, "box")
        self.check("rm", "-f", "-a")
        wait_until(lambda: not self.home.traces(), f"a host as it was, not {self.home.traces()}")

    def die_while_it_boots(self, pick):
        for round_number, moment in enumerate(MOMENTS):
            client = self.start("exec", "box", "true", stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            wait_until(lambda: pick(client) or client.poll() is not None, "the victim is born")
            supervisor, victim = supervisor_of(client), pick(client)
            time.sleep(moment)
            kill(victim)
            code = client.wait(60 * PATIENCE)
            if code:
                self.assertIn(b"box", client.stderr.read())
                self.assertEqual(code, 125)
            wait_until(lambda: not alive(supervisor), "the supervisor is gone")
            if code == 0 and self.runs("box"):
                # One that died while it restored a template was followed by one that boots.
                self.assertEqual(self.home.inspect("box")["Engine"], "kvm")
            else:
                self.is_down("box")
            self.check("exec", "box", "sh", "-c", f"echo {round_number} >> /srv/rounds")
            self.check("stop", "box")
        self.assertEqual(self.output("exec", "box", "cat", "/srv/rounds").split(), [str(n) for n in range(len(MOMENTS))])
        self.nothing_stays()

    def test_the_supervisor_dies_while_it_boots(self):
        self.die_while_it_boots(supervisor_of)

    def test_the_guest_kernel_dies_while_it_boots(self):
        def machine(client):
            supervisor = supervisor_of(client)
            return supervisor and self.machine_of(supervisor)
        self.die_while_it_boots(machine)

    def test_the_client_dies_while_its_box_boots(self):
        for moment in MOMENTS:
            client = self.start("exec", "box", "true", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(moment)
            kill(client.pid)
            client.wait()
            self.runs("box")
            self.assertEqual(self.output("exec", "box", "echo", "here"), "here\n")
            self.check("stop", "box")
        self.nothing_stays()

    def test_the_client_dies_before_its_supervisor_answers(self):
        """The next one waits for that supervisor, instead of taking it for one that ends or starting another."""
        client = self.start("exec", "box", "true", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_until(lambda: supervisor_of(client), "the supervisor is born")
        supervisor = supervisor_of(client)
        os.kill(supervisor, signal.SIGSTOP)
        kill(client.pid)
        client.wait()
        state = self.home.inspect("box")["State"]
        self.assertEqual((state["Status"], state["Running"], state["Pid"]), ("unknown", False, 0))
        following = self.start("exec", "box", "echo", "here", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        with self.assertRaises(subprocess.TimeoutExpired):
            following.communicate(timeout=1)
        os.kill(supervisor, signal.SIGCONT)
        out, errors = following.communicate(timeout=60 * PATIENCE)
        self.assertEqual((following.returncode, out), (0, b"here\n"), errors)
        self.check("stop", "box")
        self.nothing_stays()

    def test_the_client_dies_while_its_run_begins(self):
        for moment in MOMENTS:
            client = self.start("run", "--name", "job", "base", "sleep", "600", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(moment)
            kill(client.pid)
            client.wait()
            made = self.home.run("inspect", "job").code == 0
            if made:
                wait_until(lambda: not self.runs("job"), "the box ends with its client")
                self.check("start", "job")
                self.assertEqual(self.output("exec", "job", "echo", "here"), "here\n")
                self.check("rm", "-f", "job")
            else:
                self.check("run", "--rm", "--name", "job", "base", "true")
        self.nothing_stays()

    def die_between_synced_writes(self, pick):
        for round_number in range(10):
            self.check("exec", "box", "true")
            supervisor = self.home.inspect("box")["State"]["Pid"]
            machine = self.machine_of(supervisor)
            writer = self.start("exec", "box", "sh", "-c", WRITER.format(round_number), stdout=subprocess.PIPE,
                                stderr=subprocess.DEVNULL)
            synced = b"".join(writer.stdout.readline() for _ in range(1 + 3 * round_number))
            victim = pick(writer, supervisor, machine)
            kill(victim)
            synced += writer.stdout.read()
            writer.wait(60 * PATIENCE)
            synced = synced[:synced.rindex(b"\n") + 1].split()
            if victim != writer.pid:
                wait_until(lambda: not alive(supervisor) and not alive(machine), "supervisor and machine are gone")
                self.is_down("box")
            found = self.output("exec", "box", "cat", f"/srv/log{round_number}").split()
            self.assertEqual(found, [str(n) for n in range(len(found))])
            self.assertGreaterEqual(len(found), len(synced))
            if victim == writer.pid:
                self.check("exec", "box", "sh", "-c", "kill $(cat /run/writer)")  # it goes on without its client
        self.nothing_stays()

    def test_what_the_jail_wrote_down_of_the_end_is_told(self):
        """The supervisor's own way to it is jail_test's ThreadRole."""
        def end_supervisor():
            box = self.home.inspect("box")
            supervisor = box["State"]["Pid"]
            kill(supervisor)
            wait_until(lambda: not alive(supervisor), "the supervisor is gone")
            return box
        self.check("start", "box")
        box = end_supervisor()
        with open(os.path.join(box["Folder"], "exit.new"), "r+") as record:
            record.write(json.dumps({"code": 0, "signal": 0, "failed": True, "finished_at": 0, "reason": "the rules of its jail"}))
        state = self.home.inspect("box")["State"]
        self.assertEqual((state["Status"], state["Reason"]), ("failed", "the rules of its jail"))
        self.assertTrue(state["FinishedAt"].startswith("20"), state)
        self.check("start", "box")
        end_supervisor()
        self.assertEqual(self.home.inspect("box")["State"]["Reason"], "its supervisor was killed")

    def test_the_supervisor_dies_between_synced_writes(self):
        self.die_between_synced_writes(lambda client, supervisor, machine: supervisor)

    def test_the_guest_kernel_dies_between_synced_writes(self):
        self.die_between_synced_writes(lambda client, supervisor, machine: machine)

    def test_the_client_dies_between_synced_writes(self):
        self.die_between_synced_writes(lambda client, supervisor, machine: client.pid)


if __name__ == "__main__":
    unittest.main()
