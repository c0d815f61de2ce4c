#!/usr/bin/env python3
"""Checks that clang-format would change nothing. Other versions than 14 format differently, so
without that one the test is skipped (77).

Usage: format.py ROOT"""
import os
import re
import shutil
import subprocess
import sys

FOLDERS = ["include", "src", "shim", "cli", "examples", "tests", "bench"]
PROGRAMS = ["clang-format-14", "clang-format"]


def find_program():
    for name in PROGRAMS:
        if shutil.which(name):
            said = subprocess.run([name, "--version"], capture_output=True, text=True, check=True)
            if re.search(r"version 14\.", said.stdout):
                return name
    return None


def main(root):
    program = find_program()
    if not program:
        print("no clang-format 14 here, so the format was not checked")
        return 77
    sources = [os.path.join(where, name) for folder in FOLDERS
               for where, _, names in os.walk(os.path.join(root, folder))
               for name in names if name.endswith((".c", ".h"))]
    done = subprocess.run([program, "--dry-run", "-Werror", *sources], capture_output=True,
                          text=True, check=False)
    print(done.stderr[-4000:] or "format: fine", "" if done.returncode == 0 else "run make format")
    return 1 if done.returncode else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
