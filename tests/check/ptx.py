#!/usr/bin/env python3
"""Checks that examples/train_kernels.ptx is what nvcc makes of the CUDA source beside it.

Usage: ptx.py ROOT. Skipped where there is no nvcc, or one of another version."""
import os
import re
import shutil
import subprocess
import sys
import tempfile


def code(text):
    """The PTX without what the recipe changes and without comments."""
    return [line for line in text.splitlines()
            if line and not line.startswith(("//", ".version"))]


def skip(reason):
    print(f"ptx: skipped, {reason}")
    sys.exit(77)


def main(root):
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    if not os.access(nvcc, os.X_OK):
        skip("no nvcc")
    source = os.path.join(root, "examples", "train_kernels.cu")
    with open(source[:-3] + ".ptx", encoding="ascii") as file:
        committed = file.read()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "fresh.ptx")
        subprocess.run([nvcc, "-ptx", "-arch=compute_75", "-o", path, source], check=True)
        with open(path, encoding="ascii") as file:
            fresh = file.read()
    made_by = r"// Compiler Build ID: (\S+)"
    if re.search(made_by, fresh).group(1) != re.search(made_by, committed).group(1):
        skip("this nvcc is of another version")
    if code(fresh) != code(committed):
        print(f"{source}: train_kernels.ptx is not what nvcc makes of it; its first comment says"
              " how to make it again")
        return 1
    print("ptx: fine")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
