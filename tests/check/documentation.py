#!/usr/bin/env python3
"""Checks that the manual and the program agree: every option that --help shows, and every variable
of env.h, is in docs/running.md and in the manual page, and no page names one that is not there.
Links in the Markdown files lead somewhere; the pages have no mistakes that groff sees.

Usage: documentation.py ROOT VRAMPOOL"""
import os
import re
import shutil
import subprocess
import sys

OPTION = re.compile(r"^  --([a-z-]+)", re.MULTILINE)
VARIABLE = re.compile(r'X\(\w+, "(VRAMPOOL\w*)"')
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
NAMED = re.compile(r"\bVRAMPOOL_[A-Z_]+\b")


def read(*parts):
    with open(os.path.join(*parts), encoding="utf-8") as file:
        return file.read()


def help_problems(root, command, name):
    shown = subprocess.run([command, name, "--help"], capture_output=True, text=True, check=True)
    page = read(root, "docs", "man", f"vrampool-{name}.1").replace("Fl -", "Fl ")
    running = read(root, "docs", "running.md")
    for option in OPTION.findall(shown.stdout):
        if not re.search(rf"^\.It Fl {option}\b", page, re.MULTILINE):
            yield f"docs/man/vrampool-{name}.1 lacks --{option}"
        if option != "help" and f"--{option}" not in running:
            yield f"docs/running.md lacks --{option}"
    for option in re.findall(r"^\.It Fl ([a-z-]+)", page, re.MULTILINE):
        if option not in OPTION.findall(shown.stdout):
            yield f"docs/man/vrampool-{name}.1: there is no --{option}"


def variable_problems(root):
    known = set(VARIABLE.findall(read(root, "src", "base", "env.h")))
    for where in ("docs/running.md", "docs/man/vrampool-run.1"):
        text = read(root, where)
        for variable in known:
            if not re.search(rf"\b{variable}\b", text):
                yield f"{where} lacks {variable}"
        for variable in set(NAMED.findall(text)) - known:
            yield f"{where}: there is no {variable}"


def link_problems(root):
    for where, folders, names in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith((".", "build"))]
        for name in names:
            if not name.endswith(".md"):
                continue
            for target in LINK.findall(read(where, name)):
                if "://" not in target and not os.path.exists(os.path.join(where, target)):
                    yield f"{os.path.relpath(os.path.join(where, name), root)}: no {target}"


def page_problems(root):
    folder = os.path.join(root, "docs", "man")
    for name in sorted(os.listdir(folder)) if shutil.which("groff") else []:
        done = subprocess.run(["groff", "-mdoc", "-ww", "-Tascii", os.path.join(folder, name)],
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                              check=False)
        yield from done.stderr.splitlines()


def main(root, command):
    problems = [*help_problems(root, command, "run"), *help_problems(root, command, "info"),
                *variable_problems(root), *link_problems(root), *page_problems(root)]
    print("\n".join(problems) or "documentation: fine")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
