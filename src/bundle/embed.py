#!/usr/bin/env python3
"""Writes an assembler file that carries files, and the C++ table of them.

embed.py OUT.S OUT.cc FILE...

The names in the table are the files' base names; a file is executable there if it is on disk.
"""
import hashlib
import os
import sys

assembly, table, files = sys.argv[1], sys.argv[2], sys.argv[3:]

with open(assembly, "w") as out:
    out.write('.section .note.GNU-stack,"",@progbits\n.section .rodata\n')
    for index, path in enumerate(files):
        out.write(f".balign 16\n.globl boxlite_bundle_{index}\n.hidden boxlite_bundle_{index}\nboxlite_bundle_{index}:\n")
        out.write(f'.incbin "{path}"\n')

with open(table, "w") as out:
    out.write('#include "runtime/bundle.h"\n\n')
    for index in range(len(files)):
        out.write(f'extern "C" const char boxlite_bundle_{index}[];\n')
    out.write("\nnamespace boxlite::runtime {\n\nstd::span<const BundledFile> bundled_files() {\n")
    out.write("    static const BundledFile files[] = {\n")
    for index, path in enumerate(files):
        with open(path, "rb") as source:
            digest = hashlib.sha256(source.read()).hexdigest()
        executable = "true" if os.access(path, os.X_OK) else "false"
        out.write(f'        {{"{os.path.basename(path)}", {{boxlite_bundle_{index}, {os.path.getsize(path)}}},\n')
        out.write(f'         "{digest}", {executable}}},\n')
    out.write("    };\n    return files;\n}\n\n}  // namespace boxlite::runtime\n")
