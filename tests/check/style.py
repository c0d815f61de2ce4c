#!/usr/bin/env python3
"""Checks what can be counted: files of at most 800 lines, lines of at most 100 columns without tabs
or blanks at their end, functions of at most 70 lines, a first comment that says what a file is.

Usage: style.py ROOT"""
import os
import re
import sys

FOLDERS = ["include", "src", "shim", "cli", "examples", "tests", "bench", "python"]
FILE_LINES, COLUMNS, FUNCTION_LINES = 800, 100, 70
# Driver entry points are one a line and long by nature; they are kept out of clang-format too.
LONG_LINES_ALLOWED = re.compile(r"clang-format off|clang-format on")
LIST = re.compile(r"^\s*X\(")


def text_problems(path, lines):
    if len(lines) > FILE_LINES:
        yield f"{path}: {len(lines)} lines, at most {FILE_LINES}"
    formatted = True
    for number, line in enumerate(lines, 1):
        if LONG_LINES_ALLOWED.search(line):
            formatted = "on" in line.split("clang-format")[1]
        if len(line) > COLUMNS and not (not formatted and LIST.match(line)):
            yield f"{path}:{number}: {len(line)} columns, at most {COLUMNS}"
        if line != line.rstrip():
            yield f"{path}:{number}: blanks at the end"
        if "\t" in line:
            yield f"{path}:{number}: a tab"


def function_problems(path, lines):
    """A function's body opens with `{` alone in column 0 and closes with `}` there."""
    opened = None
    for number, line in enumerate(lines, 1):
        if line == "{":
            opened = number
        elif line == "}" and opened:
            if number - opened - 1 > FUNCTION_LINES:
                yield f"{path}:{opened}: a function of {number - opened - 1} lines"
            opened = None


def sources(root):
    for folder in FOLDERS:
        for where, folders, names in os.walk(os.path.join(root, folder)):
            folders[:] = [name for name in folders if name != "__pycache__"]
            for name in sorted(names):
                if name.endswith((".c", ".h", ".cpp", ".py", ".sh")):
                    yield os.path.join(where, name)


def main(root):
    problems = []
    for path in sources(root):
        with open(path, encoding="utf-8") as file:
            lines = file.read().split("\n")[:-1]
        problems += text_problems(path, lines)
        if path.endswith((".c", ".h")):
            problems += function_problems(path, lines)
    print("\n".join(problems) or "style: fine")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
