#!/usr/bin/env python3
"""Writes the initramfs of a box: the agent as /init, and the few nodes and folders that it starts with.

usage: make_cpio.py AGENT OUTPUT

The format is "newc" (linux/Documentation/driver-api/early-userspace/buffer-format), uncompressed: the kernel
unpacks it with a copy. No root is needed, since device nodes are only headers, and the same agent gives the
same bytes.
"""

import os
import stat
import sys

DIRECTORIES = ["dev", "proc", "sys", "cgroup"]
# path, mode, major, minor
DEVICES = [
    ("dev/console", 0o600, 5, 1),
    ("dev/null", 0o666, 1, 3),
    ("dev/urandom", 0o666, 1, 9),
]


def align(data):
    return data + b"\0" * (-len(data) % 4)


def entry(inode, name, mode, data=b"", rdev=(0, 0)):
    encoded = name.encode() + b"\0"
    links = 2 if stat.S_ISDIR(mode) else 1
    #         inode  mode uid gid links mtime      size  dev     rdev    name length    check
    fields = [inode, mode, 0, 0, links, 0, len(data), 0, 0, rdev[0], rdev[1], len(encoded), 0]
    header = b"070701" + b"".join(b"%08X" % field for field in fields)
    return align(header + encoded) + align(data)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    agent, output = sys.argv[1:]
    with open(agent, "rb") as file:
        program = file.read()
    archive = b""
    inode = 1
    for name in DIRECTORIES:
        archive += entry(inode, name, stat.S_IFDIR | 0o755)
        inode += 1
    for name, mode, major, minor in DEVICES:
        archive += entry(inode, name, stat.S_IFCHR | mode, rdev=(major, minor))
        inode += 1
    archive += entry(inode, "init", stat.S_IFREG | 0o755, program)
    archive += entry(0, "TRAILER!!!", 0)
    archive += b"\0" * (-len(archive) % 512)
    with open(output + ".new", "wb") as file:
        file.write(archive)
    os.replace(output + ".new", output)


if __name__ == "__main__":
    main()
