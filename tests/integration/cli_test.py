"""The command line without a box: help, mistakes, formats, completion, configuration."""
import json
import os
import subprocess
import unittest

from boxtest import BOXLITE, BoxTest

COMMANDS = ("run exec create start stop restart rm list inspect logs stats wait attach cp pull images rmi import info version"
            " completion").split()


class CommandLine(BoxTest):
    def test_every_command_has_help(self):
        general = self.output("--help")
        for command in COMMANDS:
            self.assertIn(f"\n  {command} ", general)
            text = self.output(command, "--help")
            self.assertTrue(text.startswith(f"Usage: boxlite {command}"), text)
            self.assertEqual(text, self.output("help", command))
        for alias in ("ls", "ps"):
            self.assertEqual(self.output(alias, "--help"), self.output("list", "--help"))

    def test_mistakes_are_told_with_the_way_out(self):
        for args, words in [(["rnu"], b"did you mean run?"), (["run", "--nmae", "x", "base"], b"did you mean --name?"),
                            (["run"], b"IMAGE"), (["list", "--frmat=json"], b"did you mean --format?"), (["stop", "-x", "b"], b"-x"),
                            (["run", "--cpus", "many", "base"], b"--cpus"), (["run", "--memory", "1q", "base"], b"--memory"),
                            (["run", "--isolation", "magic", "base"], b"software, hardware, auto"),
                            (["run", "--name", "-bad-", "base"], b"-bad-"), (["run", "--env-file", "/no/such", "base"], b"/no/such"),
                            (["run", "-e", "=x", "base"], b"--env"), (["cp", "a", "b"], b"BOX:PATH"), (["inspect"], b"--latest"),
                            (["list", "extra"], b"extra"), (["rm"], b"--all"), (["logs", "-n", "x", "b"], b"--tail"), ([], b"Usage")]:
            result = self.home.run(*args)
            self.assertIn(result.code, (2, 125), f"{args}: {result!r}")
            self.assertIn(words, result.err, args)
            self.assertEqual(result.out, b"")

    def test_missing_things_are_named(self):
        for args in (["start", "none"], ["stop", "none"], ["rm", "none"], ["inspect", "none"], ["logs", "none"], ["wait", "none"],
                     ["cp", "none:/x", "y"], ["rmi", "none"]):
            result = self.check(*args, code=1)
            self.assertIn(b"none", result.err, args)

    def test_formats_of_an_empty_home(self):
        self.assertEqual(json.loads(self.output("list", "--format", "json")), [])
        self.assertEqual(self.output("list", "-aq"), "")
        self.assertTrue(self.output("images").startswith("REPOSITORY"))
        info = json.loads(self.output("info", "--format=json"))
        self.assertEqual((info["boxesTotal"], info["homeDir"]), (0, self.home.path))
        self.assertEqual(self.output("info", "--format", "{{.homeDir}} {{.boxesTotal}}"), f"{self.home.path} 0\n")
        self.assertRegex(self.output("version"), r"^boxlite \d+\.\d+\.\d+\n$")
        self.assertEqual(self.output("--version"), self.output("version"))
        self.check("list", "--format", "{{", code=2)

    def test_created_boxes_in_every_format(self):
        identity = self.output("create", "--name", "one", "--memory", "512m", "-e", "A=1", "-w", "/srv", "base").strip()
        self.assertEqual(self.output("list"), self.output("ps"))
        self.assertEqual(self.output("list", "-aq").strip(), identity)
        self.assertRegex(self.output("list", "-a").splitlines()[1], rf"^{identity}\s+one\s+base\s+.*Created$")
        box = json.loads(self.output("inspect", "one"))[0]
        self.assertEqual((box["Id"], box["Memory"], box["WorkingDir"], box["State"]["Status"]),
                         (identity, 512 << 20, "/srv", "configured"))
        self.assertIn("A=1", box["Env"])
        self.assertEqual(self.output("inspect", "-f", "{{.Name}} {{.State.Running}} {{.Cpus}}", identity[:5]), "one false 1\n")
        self.assertEqual(self.output("inspect", "--latest", "-f", "{{json .Name}}"), '"one"\n')
        yaml = subprocess.run(["python3", "-c", "import sys, yaml, json; print(json.dumps(yaml.safe_load(sys.stdin)))"],
                              input=self.check("inspect", "-f", "yaml", "one").out, capture_output=True, check=True)
        self.assertEqual(json.loads(yaml.stdout), [box])
        self.assertIn(b"exists", self.check("create", "--name", "one", "base", code=1).err)
        self.assertEqual(self.output("rm", "one"), "one\n")

    def test_a_full_pipe_is_no_error(self):
        process = subprocess.run(f"{BOXLITE} --help | true", shell=True, stderr=subprocess.PIPE)
        self.assertEqual(process.stderr, b"")

    def test_completion_scripts_are_sound(self):
        for shell, check in [("bash", ["bash", "-n"]), ("zsh", ["zsh", "-n"]), ("fish", ["fish", "-n"])]:
            path = os.path.join(self.home.path, "script")
            script = self.output("completion", shell)
            with open(path, "w") as out:
                out.write(script)
            subprocess.run([*check, path], check=True)
            for command in COMMANDS:
                self.assertIn(command, script)
        self.check("completion", "tcsh", code=2)

    def test_bash_completes(self):
        self.check("create", "--name", "mybox", "base")
        script = os.path.join(self.home.path, "bash")
        with open(script, "w") as out:
            out.write(self.output("completion", "bash"))

        def complete(*words):
            code = (f"source {script}; COMP_WORDS=(boxlite {' '.join(words)}); COMP_CWORD={len(words)}; _boxlite;"
                    ' printf "%s\\n" "${COMPREPLY[@]}"')
            env = {"PATH": os.path.dirname(BOXLITE) + ":" + os.environ["PATH"], "BOXLITE_HOME": self.home.path}
            return subprocess.run(["bash", "-c", code], capture_output=True, text=True, env=env, check=True).stdout.split()

        self.assertEqual(complete("ins"), ["inspect"])
        self.assertEqual(complete("start", "my"), ["mybox"])
        self.assertEqual(complete("run", "--env-"), ["--env-file"])
        self.assertEqual(complete("run", "ba"), ["base:latest"])

    def test_environment_variables_from_file_and_process(self):
        env_file = os.path.join(self.home.path, "env")
        with open(env_file, "w") as out:
            out.write("# comment\n\nA=from file\nB='kept quotes'\nHOME\n NOT_SET_ANYWHERE\n")
        self.check("create", "--name", "one", "--env-file", env_file, "-e", "A=from flag", "-e", "LANG", "base")
        env = json.loads(self.output("inspect", "-f", "{{json .Env}}", "one"))
        for entry in ("A=from flag", "B='kept quotes'", f"HOME={self.home.path}", "LANG=C.UTF-8"):
            self.assertIn(entry, env)
        self.assertNotIn("NOT_SET_ANYWHERE", " ".join(env))
        with open(env_file, "w") as out:
            out.write("bad name=1\n")
        self.check("create", "--env-file", env_file, "base", code=2)

    def test_configuration_file(self):
        path = os.path.join(self.home.path, "config.json")
        other = os.path.join(self.home.path, "other")
        with open(path, "w") as out:
            json.dump({"home_dir": other, "image_registries": [{"host": "127.0.0.1:1", "transport": "http", "search": True}]}, out)
        result = subprocess.run([BOXLITE, "--config", path, "info", "--format", "{{.homeDir}}"], capture_output=True, text=True)
        self.assertEqual(result.stdout.strip(), other, result.stderr)
        result = self.check("--config", path, "run", "nowhere", code=125)
        self.assertIn(b"127.0.0.1:1", result.err)
        with open(path, "w") as out:
            json.dump({"home_dirr": other}, out)
        self.assertIn(b"home_dirr", self.check("--config", path, "info", code=1).err)


if __name__ == "__main__":
    unittest.main()
