#!/usr/bin/env python3
"""Checks that a part of src/ includes only itself and earlier parts, as `part/file.h`.

Usage: layering.py ROOT"""
import os
import re
import sys

PARTS = ["base", "driver", "machine", "emu", "space", "frame", "order", "block", "params", "trace",
         "plan", "move", "pool"]
INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^">]+)[">]')
LIBRARIES = ("jansson.h", "hwloc.h", "cmocka.h", "cuda.h")  # core is libc alone


def problems_in(path, part):
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            found = INCLUDE.match(line)
            if not found:
                continue
            name = found.group(2)
            at = f"{path}:{number}"
            if name in LIBRARIES:
                yield f"{at}: {name}: core links libc alone"
            if found.group(1) == "<" or name == "vrampool.h":
                continue
            folder = name.split("/")[0]
            if "/" not in name or folder not in PARTS:
                yield f"{at}: include \"{name}\" as part/file.h"
            elif PARTS.index(folder) > PARTS.index(part):
                yield f"{at}: {part} comes before {folder}"
            elif folder == "emu" != part:
                yield f"{at}: the emulator is not part of core"


def main(root):
    problems = []
    for part in PARTS:
        folder = os.path.join(root, "src", part)
        for name in sorted(os.listdir(folder)):
            if name.endswith((".c", ".h")):
                problems += problems_in(os.path.join(folder, name), part)
    unknown = [name for name in os.listdir(os.path.join(root, "src"))
               if os.path.isdir(os.path.join(root, "src", name)) and name not in PARTS]
    problems += [f"src/{name}: no such part; add it to {__file__}" for name in unknown]
    print("\n".join(problems) or "layering: fine")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
