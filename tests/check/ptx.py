#!/usr/bin/env python3
"""Checks that examples/train_kernels.ptx is what nvcc makes of the CUDA source beside it.

Usage: ptx.py ROOT. Skipped where there is no nvcc, or one of another version."""
import os
import re
import shutil
import subprocess
import sys
import tempfile


SOURCES = ("examples/train_kernels.cu", "src/pool/digest_kernel.cu")


def code(text):
    """The PTX without what the recipes change and without comments."""
    return [line for line in text.splitlines()
            if line and not line.startswith(("//", ".version", ".target"))]


def skip(reason):
    print(f"ptx: skipped, {reason}")
    sys.exit(77)


def compile_to_ptx(nvcc, source):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "fresh.ptx")
        subprocess.run([nvcc, "-ptx", "-arch=compute_75", "-o", path, source], check=True)
        with open(path, encoding="ascii") as file:
            return file.read()


def is_current(nvcc, source):
    committed_path = os.path.splitext(source)[0] + ".ptx"
    with open(committed_path, encoding="ascii") as file:
        committed = file.read()
    fresh = compile_to_ptx(nvcc, source)
    made_by = r"// Compiler Build ID: (\S+)"
    if re.search(made_by, fresh).group(1) != re.search(made_by, committed).group(1):
        skip("this nvcc is of another version")
    if code(fresh) == code(committed):
        return True
    print(f"{committed_path} is not what nvcc makes of {source}; its first comment says how to make"
          " it again")
    return False


def main(root):
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    if not os.access(nvcc, os.X_OK):
        skip("no nvcc")
    current = [is_current(nvcc, os.path.join(root, source)) for source in SOURCES]
    if all(current):
        print("ptx: fine")
    return 0 if all(current) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
