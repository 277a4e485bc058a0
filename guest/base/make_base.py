#!/usr/bin/env python3
"""Writes the built-in base image: busybox and the few files that make a root directory of it.

usage: make_base.py BUSYBOX CA_BUNDLE OUTPUT

A plain tar (ustar and, where needed, PAX headers) without root or fakeroot: owners are header fields. The same
inputs give the same bytes. busybox is asked for its list of applets, so links and program always agree.
"""

import io
import os
import subprocess
import sys
import tarfile

PASSWD = """\
root:x:0:0:root:/root:/bin/sh
daemon:x:1:1:daemon:/usr/sbin:/sbin/nologin
bin:x:2:2:bin:/bin:/sbin/nologin
www-data:x:33:33:www-data:/var/www:/sbin/nologin
nobody:x:65534:65534:nobody:/nonexistent:/sbin/nologin
"""
GROUP = """\
root:x:0:
daemon:x:1:
bin:x:2:
adm:x:4:
tty:x:5:
disk:x:6:
wheel:x:10:root
www-data:x:33:
users:x:100:
nogroup:x:65534:
"""
SHADOW = "root:*::0:::::\nnobody:*::0:::::\n"
OS_RELEASE = """\
NAME="BoxLite base"
ID=boxlite-base
VERSION_ID=1
PRETTY_NAME="BoxLite base image"
"""
HOSTS = "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n"
PROFILE = """\
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
PS1='\\u@\\h:\\w\\$ '
umask 022
for script in /etc/profile.d/*.sh; do
    [ -r "$script" ] && . "$script"
done
unset script
"""
NSSWITCH = "passwd: files\ngroup: files\nhosts: files dns\n"

DIRECTORIES = {
    "bin": 0o755, "dev": 0o755, "etc": 0o755, "etc/profile.d": 0o755, "etc/ssl": 0o755, "etc/ssl/certs": 0o755,
    "home": 0o755, "lib": 0o755, "media": 0o755, "mnt": 0o755, "opt": 0o755, "proc": 0o755, "root": 0o700,
    "run": 0o755, "sbin": 0o755, "srv": 0o755, "sys": 0o755, "tmp": 0o1777, "usr": 0o755, "usr/bin": 0o755,
    "usr/lib": 0o755, "usr/local": 0o755, "usr/local/bin": 0o755, "usr/local/sbin": 0o755, "usr/sbin": 0o755,
    "usr/share": 0o755, "var": 0o755, "var/cache": 0o755, "var/lib": 0o755, "var/log": 0o755, "var/spool": 0o755,
    "var/tmp": 0o1777, "var/www": 0o755,
}
FILES = {
    "etc/passwd": (0o644, PASSWD), "etc/group": (0o644, GROUP), "etc/shadow": (0o640, SHADOW),
    "etc/os-release": (0o644, OS_RELEASE), "etc/hosts": (0o644, HOSTS), "etc/hostname": (0o644, "boxlite\n"),
    "etc/profile": (0o644, PROFILE), "etc/nsswitch.conf": (0o644, NSSWITCH),
    "etc/shells": (0o644, "/bin/sh\n/bin/ash\n"), "etc/resolv.conf": (0o644, ""),
}
LINKS = {
    "etc/mtab": "../proc/self/mounts", "usr/lib/os-release": "../../etc/os-release", "var/run": "../run",
    "var/lock": "../run",
    # Where Debian, Fedora and OpenSSL's defaults look.
    "etc/ssl/cert.pem": "certs/ca-certificates.crt",
}


def applets(busybox):
    listing = subprocess.run([busybox, "--list-full"], check=True, capture_output=True, text=True).stdout
    # linuxrc is for initial RAM disks of old.
    return sorted(set(listing.split()) - {"bin/busybox", "linuxrc"})


def header(name, kind, mode):
    info = tarfile.TarInfo(name)
    info.type = kind
    info.mode = mode
    info.mtime = 0
    info.uname = info.gname = "root"
    return info


def add_file(archive, name, mode, data):
    info = header(name, tarfile.REGTYPE, mode)
    info.size = len(data)
    archive.addfile(info, io.BytesIO(data))


def add_link(archive, name, target):
    info = header(name, tarfile.SYMTYPE, 0o777)
    info.linkname = target
    archive.addfile(info)


def write(archive, busybox, ca_bundle):
    for name, mode in sorted(DIRECTORIES.items()):
        archive.addfile(header(name, tarfile.DIRTYPE, mode))
    with open(busybox, "rb") as file:
        add_file(archive, "bin/busybox", 0o755, file.read())
    for path in applets(busybox):
        if path.rpartition("/")[0] not in DIRECTORIES:
            sys.exit(f"make_base.py: busybox wants its applet at /{path}, where there is no directory")
        add_link(archive, path, "/bin/busybox")
    with open(ca_bundle, "rb") as file:
        add_file(archive, "etc/ssl/certs/ca-certificates.crt", 0o644, file.read())
    for name, (mode, text) in sorted(FILES.items()):
        add_file(archive, name, mode, text.encode())
    for name, target in sorted(LINKS.items()):
        add_link(archive, name, target)


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    busybox, ca_bundle, output = sys.argv[1:]
    with tarfile.open(output + ".new", "w", format=tarfile.PAX_FORMAT) as archive:
        write(archive, busybox, ca_bundle)
    os.replace(output + ".new", output)


if __name__ == "__main__":
    main()
