#!/usr/bin/env python3
"""The PyTorch side with the real library and a real pool, on the emulated driver: what a listening
pool knows of tensors, and the fallback. torch itself is a stand-in; see standin.py. Where there is
a real one, in this Python or in the one that TORCH_PYTHON names, the listener has to fit it.

Usage: test_pytorch.py BUILD"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

from standin import HAS_COMPILERS, make_torch

BUILD = os.path.abspath(sys.argv.pop(1))
MIB = 1 << 20
TORCH_PYTHON = os.environ.get("TORCH_PYTHON", sys.executable)

# A program as torch would be: it takes segments of 20 MiB from the driver and cuts tensors out.
PROGRAM = """
import ctypes, os, torch
MIB = 1 << 20
cuda = torch.cuda
driver = ctypes.CDLL("libcuda.so.1")
def call(name, *words):
    assert getattr(driver, name)(*words) == 0, name
context = ctypes.c_void_p()
call("cuInit", 0)
cuda.init()  # torch makes the context later, when it first allocates
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
call("cuCtxSetCurrent", context)
if os.environ.get("PYTORCH_NO_CUDA_MEMORY_CACHING"):
    print("uncached")
    raise SystemExit
for number in range(3):
    segment = ctypes.c_uint64()
    call("cuMemAlloc_v2", ctypes.byref(segment), ctypes.c_size_t(20 * MIB))
    base = segment.value
    cuda.happen(cuda.SEGMENT_ALLOC, base, 20 * MIB)
    for at in base, base + 8 * MIB:
        cuda.happen(cuda.ALLOC, at, 8 * MIB)
        call("cuMemsetD8_v2", ctypes.c_uint64(at), ctypes.c_ubyte(1), ctypes.c_size_t(8 * MIB))
        if not os.environ.get("KEEP_TENSORS"):
            cuda.happen(cuda.FREE_REQUESTED, at, 8 * MIB)
            cuda.happen(cuda.FREE_COMPLETED, at, 8 * MIB)
"""


@unittest.skipUnless(HAS_COMPILERS, "needs gcc and g++")
class PyTorch(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.base = tempfile.mkdtemp(prefix="vrampool-test-")
        cls.addClassCleanup(shutil.rmtree, cls.base)
        make_torch(cls.base, mempool=True)

    def run_program(self, *options, **environment):
        """Runs it on one card of 24 MiB; returns its stdout, stderr and the report."""
        report = os.path.join(self.base, "r.json")
        command = [os.path.join(BUILD, "vrampool"), "run", "--emulate", "1x24M", "--report", report,
                   *options, "--", sys.executable, "-c", PROGRAM]
        env = {"PYTHONPATH": self.base, "XDG_CACHE_HOME": os.path.join(self.base, "cache")}
        done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False,
                              env={**os.environ, **env, **environment})
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(report, encoding="utf-8") as file:
            return done.stdout, done.stderr, json.load(file)

    def peak_on_host(self, report):
        return next(p["peak_bytes"] for p in report["places"] if p["name"] == "host0")

    def test_dead_tensors_give_their_memory(self):
        """The segments do not fit on the card together, but of their tensors only one lives."""
        _, err, report = self.run_program("--log", "info")
        self.assertIn("PyTorch: listening", err)
        self.assertEqual((report["moved_bytes"], report["live_bytes"]), (0, 0))
        self.assertEqual(self.peak_on_host(report), 0)
        self.assertGreater(report["drops"], 0)

    def test_living_tensors_keep_it(self):
        _, _, report = self.run_program(KEEP_TENSORS="1")
        self.assertEqual(report["live_bytes"], 48 * MIB)
        self.assertGreaterEqual(self.peak_on_host(report), 24 * MIB)

    def test_fallback(self):
        out, err, _ = self.run_program(VRAMPOOL_LISTENER="0")
        self.assertEqual(out, "uncached\n")
        self.assertIn("vrampool: warn: PyTorch: each tensor is now an allocation of its own", err)


# Without a card torch's CUDA does not start, but its allocator takes a listener all the same.
ATTACH = """
import ctypes, os, sys
import torch
sys.path.insert(0, os.environ["VRAMPOOL_PYTHON_DIR"])
import vrampool_torch
path = os.path.join(vrampool_torch.cache_folder(), "listener.so")
vrampool_torch.compile_listener(torch, path)
print(ctypes.CDLL(path).vrampool_listener_attach())
"""


def has_torch():
    command = [TORCH_PYTHON, "-c", "import torch, sys; sys.exit(not torch.version.cuda)"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=100, check=False)
    except OSError:
        return False
    return done.returncode == 0


@unittest.skipUnless(HAS_COMPILERS and has_torch(), "no torch for CUDA in " + TORCH_PYTHON)
class RealTorch(unittest.TestCase):
    def run_torch(self, script):
        with tempfile.TemporaryDirectory() as cache:
            command = [os.path.join(BUILD, "vrampool"), "run", "--emulate", "1x24M", "--",
                       TORCH_PYTHON, "-c", script]
            done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False,
                                  env={**os.environ, "XDG_CACHE_HOME": cache})
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_its_import_says_nothing_and_its_cards_can_be_asked_for(self):
        out = self.run_torch("import torch; print(torch.cuda.is_available())")
        self.assertIn(out, ("True\n", "False\n"))

    def test_the_listener_fits_its_headers(self):
        self.assertEqual(self.run_torch(ATTACH), "0\n")


if __name__ == "__main__":
    result = unittest.main(exit=False, verbosity=2).result
    if result.wasSuccessful() and not HAS_COMPILERS:
        print("no g++, so the listener was not compiled")
        sys.exit(77)
    sys.exit(0 if result.wasSuccessful() else 1)
