#!/usr/bin/env python3
"""Checks that the manual and the program agree: every command has a page, every option that its
--help shows is there, and no page names one that is not. docs/running.md has the options of `run`
and every variable of env.h, docs/calls.md every driver call that is wrapped. Files and functions
that ARCHITECTURE.md names are there. Links in the Markdown files lead somewhere, and no table is
torn; the pages have no mistakes that groff sees.

Usage: documentation.py ROOT VRAMPOOL"""
import os
import re
import shutil
import subprocess
import sys

COMMAND = re.compile(r"^  ([a-z]+)  ", re.MULTILINE)
OPTION = re.compile(r"^  --([a-z-]+)", re.MULTILINE)
VARIABLE = re.compile(r'X\(\w+, "(VRAMPOOL\w*)"')
WRAPPED = re.compile(r"SHIM_ROW_(?:ONE|PAIR)\((cu\w+)|\bX\((?:SYNC|ASYNC|ONCE), (cu\w+)|"
                     r"\bX\((cu\w+), \d|\b(?:ROW|WORDS?)\(X, (cu\w+)")
FORM = re.compile(r"(_v\d)?(_pts[zd])?$")
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
NAMED = re.compile(r"\bVRAMPOOL_[A-Z_]+\b")
QUOTED = re.compile(r"`([^`\n]+)`")
SOURCES = ("bench", "cli", "examples", "include", "machines", "python", "shim", "src", "tests")
BUILT = ("shim/libcuda.so.1", "bench/replay")


def read(*parts):
    with open(os.path.join(*parts), encoding="utf-8") as file:
        return file.read()


def shown(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def help_problems(root, command, name):
    options = OPTION.findall(shown(command, name, "--help"))
    where = f"docs/man/vrampool-{name}.1"
    if not os.path.exists(os.path.join(root, where)):
        yield f"{where} is missing"
        return
    described = re.findall(r"^\.It Fl -([a-z-]+)", read(root, where), re.MULTILINE)
    running = read(root, "docs", "running.md")
    if f".Nm vrampool Cm {name}\n" not in read(root, where):
        yield f"{where}: the synopsis does not begin with vrampool {name}"
    synopsis = re.findall(r"^\.Op Fl -([a-z-]+)", read(root, where), re.MULTILINE)
    yield from (f"{where} lacks --{option}" for option in options if option not in described)
    yield from (f"{where}: the synopsis lacks --{option}" for option in options
                if option not in synopsis and option != "help")
    yield from (f"{where}: there is no --{option}" for option in described if option not in options)
    if name == "run":
        yield from (f"docs/running.md lacks --{option}" for option in options
                    if option != "help" and f"--{option}" not in running)


def wrapped_calls(root):
    """Calls that the shim puts itself before, without the endings of their forms."""
    calls = set()
    folder = os.path.join(root, "shim")
    for name in os.listdir(folder):
        if name.endswith(".c"):
            for row in WRAPPED.finditer(read(folder, name)):
                calls.add(FORM.sub("", next(filter(None, row.groups()))))
    return calls


def call_problems(root):
    """docs/calls.md names each wrapped call, by itself or by its beginning and a star; and it names
    none that the driver lacks."""
    named = re.findall(r"`(cu[A-Z][\w*]*)`", read(root, "docs", "calls.md"))
    patterns = [re.compile(name.replace("*", r"\w*")) for name in named]
    wrapped = wrapped_calls(root)
    yield from (f"docs/calls.md does not name {call}" for call in sorted(wrapped)
                if not any(pattern.fullmatch(call) for pattern in patterns))
    driver = {FORM.sub("", line.split("#")[0].strip())
              for line in read(root, "shim", "symbols.txt").splitlines()}
    yield from (f"docs/calls.md: the driver has no {name}" for name, pattern in zip(named, patterns)
                if not any(pattern.fullmatch(call) for call in driver))


def variable_problems(root):
    known = set(VARIABLE.findall(read(root, "src", "base", "env.h")))
    for where in ("docs/running.md", "docs/man/vrampool-run.1"):
        text = read(root, where)
        for variable in known:
            if not re.search(rf"\b{variable}\b", text):
                yield f"{where} lacks {variable}"
        for variable in set(NAMED.findall(text)) - known:
            yield f"{where}: there is no {variable}"


def architecture_problems(root):
    """What ARCHITECTURE.md quotes: words are in the sources, what has a slash is a file, and what
    ends as a source does is one, in whatever folder."""
    files = [os.path.join(where, name) for top in SOURCES
             for where, _, names in os.walk(os.path.join(root, top)) for name in names]
    text = "\n".join(read(file) for file in files
                     if file.endswith((".c", ".h", ".py", ".cpp", ".build", ".txt")))
    words = set(re.findall(r"\w+", text))
    names = {os.path.basename(file) for file in files}
    for quoted in QUOTED.findall(read(root, "ARCHITECTURE.md")):
        if re.fullmatch(r"\w+", quoted):
            there = quoted in words
        elif re.fullmatch(r"[\w.-]+(/[\w.-]+)+", quoted):
            there = quoted in BUILT or os.path.exists(os.path.join(root, quoted))
        else:
            there = not re.fullmatch(r"[\w-]+\.(c|h|py|cpp|txt)", quoted) or quoted in names
        if not there:
            yield f"ARCHITECTURE.md: there is no {quoted}"


def markdown_files(root):
    for where, folders, names in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith((".", "build"))]
        yield from (os.path.join(where, name) for name in names if name.endswith(".md"))


def link_problems(root):
    for file in markdown_files(root):
        for target in LINK.findall(read(file)):
            if "://" not in target and not os.path.exists(
                    os.path.join(os.path.dirname(file), target)):
                yield f"{os.path.relpath(file, root)}: no {target}"


def table_problems(root):
    """Rows that no head stands above are shown as they are written."""
    for file in markdown_files(root):
        lines = read(file).splitlines()
        for number, (before, line, after) in enumerate(zip(["", *lines], lines, [*lines[1:], ""])):
            if line.startswith("| ") and not before.startswith("|") and not after.startswith("|-"):
                yield f"{os.path.relpath(file, root)}:{number + 1}: a table without a head"


def page_problems(root):
    folder = os.path.join(root, "docs", "man")
    for name in sorted(os.listdir(folder)) if shutil.which("groff") else []:
        done = subprocess.run(["groff", "-mdoc", "-ww", "-Tascii", os.path.join(folder, name)],
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                              check=False)
        yield from done.stderr.splitlines()


def main(root, command):
    commands = COMMAND.findall(shown(command, "--help"))
    problems = [problem for name in commands for problem in help_problems(root, command, name)]
    problems += [*variable_problems(root), *call_problems(root),
                 *architecture_problems(root), *link_problems(root), *table_problems(root),
                 *page_problems(root)]
    print("\n".join(problems) or "documentation: fine")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
