#!/usr/bin/env python3
"""Checks what the two libraries show and need: exactly the listed symbols, and libc alone.

Usage: exports.py ROOT SHIM EMULATOR"""
import re
import subprocess
import sys

EMULATOR_SYMBOL = re.compile(r"^(cu[A-Z]|nvml[A-Z]|emu_)\w+$")
LIBC = re.compile(r"^(libc|libm|libdl|libpthread|ld-linux)[-.]")


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def exported(library):
    return {line.split()[-1].split("@")[0]
            for line in output("nm", "-D", "--defined-only", library).splitlines()}


def listed(root):
    """What the shim is to export: the driver's symbols, the functions of vrampool.h, and dlopen."""
    with open(f"{root}/shim/symbols.txt", encoding="utf-8") as file:
        names = {line.split("#")[0].strip() for line in file} - {""}
    with open(f"{root}/include/vrampool.h", encoding="utf-8") as file:
        header = file.read()
    return names | set(re.findall(r"^VP_API [^;]*?\b(vp_\w+)\(", header, re.MULTILINE)) | {"dlopen"}


def shim_problems(root, shim):
    wanted, found = listed(root), exported(shim)
    yield from (f"{shim} does not export {name}" for name in sorted(wanted - found))
    yield from (f"{shim} exports {name}, which is not listed" for name in sorted(found - wanted))


def needs_problems(library):
    for line in output("readelf", "-d", library).splitlines():
        name = re.search(r"\(NEEDED\).*\[(.*)\]", line)
        if name and not LIBC.match(name.group(1)):
            yield f"{library} needs {name.group(1)}: libc alone is allowed"


def main(root, shim, emulator):
    problems = [*shim_problems(root, shim), *needs_problems(shim), *needs_problems(emulator)]
    problems += [f"{emulator} exports {name}" for name in sorted(exported(emulator))
                 if not EMULATOR_SYMBOL.match(name)]
    if "[libcuda.so.1]" not in output("readelf", "-d", shim):
        problems.append(f"{shim}: its SONAME is not libcuda.so.1")
    print("\n".join(problems) or "exports: fine")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
