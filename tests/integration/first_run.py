"""The first command of the README, after the build."""
import os
import subprocess

import boxtest

PROGRAM = "import os, math; print('kernel', os.uname().release); print('2**521-1 has', len(str(2**521 - 1)), 'digits')"


def main():
    registry = boxtest.Registry()
    home = boxtest.Home()
    try:
        print("building a Debian image with Python (once) and pushing it to a registry on loopback", flush=True)
        reference = registry.push(boxtest.debian_image(["python3"]), "python:12")
        for args in (["pull", reference], ["run", "--rm", reference, "python3", "-c", PROGRAM]):
            print("$ boxlite", *(f"'{a}'" if " " in a else a for a in args), flush=True)
            subprocess.run(home.command(*args), check=True, **home.options())
        print("the host's kernel is", os.uname().release)
    finally:
        home.close()
        registry.close()


if __name__ == "__main__":
    main()
