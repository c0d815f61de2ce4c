#!/usr/bin/env python3
"""The Python package in its build folder: the command by `python -m`, what a program that runs
under the pool sees and may ask for, and what happens in its children.

Usage: test_python.py BUILD"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD = os.path.abspath(sys.argv.pop(1))
PACKAGES = os.path.join(BUILD, "python")
OURS = ("VRAMPOOL", "PYTORCH_", "LD_PRELOAD", "PYTHONPATH", "LOCAL_")
sys.path.insert(0, PACKAGES)

# What programs below begin with: the driver, memory of the card, and something like a tensor.
DRIVER = """
import ctypes, os, sys
import vrampool
MIB = 1 << 20
driver = ctypes.CDLL("libcuda.so.1")
def call(name, *words):
    assert getattr(driver, name)(*words) == 0, name
def begin():
    context = ctypes.c_void_p()
    call("cuInit", 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
    call("cuCtxSetCurrent", context)
class Tensor:
    def __init__(self, mib):
        self.address, self.nbytes = ctypes.c_uint64(), mib * MIB
        call("cuMemAlloc_v2", ctypes.byref(self.address), ctypes.c_size_t(self.nbytes))
        call("cuMemsetD8_v2", self.address, ctypes.c_ubyte(1), ctypes.c_size_t(self.nbytes))
    def data_ptr(self):
        return self.address.value
    def free(self):
        call("cuMemFree_v2", self.address)
class Array:
    def __init__(self, address, mib):
        self.__cuda_array_interface__ = {"shape": (mib, MIB), "typestr": "|u1", "version": 3,
                                         "data": (address, False), "strides": None}
def refused(error, said, function, *words):
    try:
        function(*words)
    except error as raised:
        assert said in str(raised), raised
    else:
        raise AssertionError(f"{function.__name__} took {words}")
"""


def environment(**more):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    return {**kept, **more}


def run(command, **more):
    return subprocess.run(command, env=environment(**more), capture_output=True, text=True,
                          timeout=100, check=False)


def module(*words):
    return run([sys.executable, "-m", "vrampool", *words], PYTHONPATH=PACKAGES)


class Command(unittest.TestCase):
    def test_it_becomes_the_program(self):
        done = module("run", "--", "sh", "-c", "echo out; echo err >&2; exit 37")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (37, "out\n", "err\n"))

    def test_its_parts_are_found(self):
        done = module("info", "--json", "--emulate", "2x24M")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(json.loads(done.stdout)["emulated"], "2x24M")

    def test_a_missing_command_is_told(self):
        with tempfile.TemporaryDirectory() as folder:
            copy = os.path.join(folder, "site", "vrampool")
            shutil.copytree(os.path.join(PACKAGES, "vrampool"), copy)
            done = run([sys.executable, "-m", "vrampool", "info"], PYTHONPATH=os.path.dirname(copy))
        self.assertEqual(done.returncode, 126)
        self.assertIn("the vrampool command is missing", done.stderr)
        self.assertIn(os.path.join(copy, "native", "vrampool"), done.stderr)


class Pool(unittest.TestCase):
    def pooled(self, program, *options, **more):
        """Runs it on one card of 24 MiB; its path to the package is what `vrampool run` sets."""
        command = [os.path.join(BUILD, "vrampool"), "run", "--emulate", "1x24M", "--log", "error",
                   *options, "--", sys.executable, "-c", DRIVER + program]
        done = run(command, **more)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def test_stats_are_the_report(self):
        done = self.pooled("""
assert not vrampool.is_active()
begin()
kept = Tensor(8)
assert vrampool.is_active()
import json
print(json.dumps(vrampool.stats()))""")
        stats = json.loads(done.stdout)
        self.assertEqual((stats["live_bytes"], stats["peak_bytes"]), (8 << 20, 8 << 20))
        self.assertEqual([place["name"] for place in stats["places"]], ["card0", "host0"])

    def test_prefetch_brings_back(self):
        self.pooled("""
import time
begin()
first, others = Tensor(8), [Tensor(8), Tensor(8)]
assert vrampool.stats()["evictions"] > 0
for other in others:
    other.free()
before = vrampool.stats()["fetches"]
vrampool.prefetch(first)
end = time.monotonic() + 60
while vrampool.stats()["fetches"] == before:
    assert time.monotonic() < end, "nothing came"
vrampool.prefetch(Array(first.data_ptr(), 8), "card0")
vrampool.prefetch(first, 1)""", "--policy", "lru")

    def test_advice_is_taken(self):
        self.pooled("""
begin()
tensor = Tensor(8)
for advice in "preferred_place", "accessed_by", "read_mostly", "none":
    vrampool.advise(tensor, advice)
vrampool.advise(tensor, "accessed_by", "host0")""")

    def test_mistakes_are_told(self):
        self.pooled("""
begin()
tensor = Tensor(2)
class Host:
    nbytes = 16
    def data_ptr(self):
        return 4096
refused(ValueError, "not in the pool", vrampool.prefetch, Host())
refused(ValueError, "not in the pool", vrampool.advise, Host(), "none")
refused(TypeError, "int is no tensor", vrampool.prefetch, 5)
refused(ValueError, "no place 'card7'; this pool has card0, host0", vrampool.prefetch, tensor,
        "card7")
refused(ValueError, "no place 2", vrampool.prefetch, tensor, 2)
refused(ValueError, "no advice 'often'; there are preferred_place", vrampool.advise, tensor,
        "often")""")

    def test_without_a_pool_it_says_so(self):
        self.pooled('refused(vrampool.Error, "has no pool", vrampool.stats)')
        self.pooled('begin()\nTensor(2)\nrefused(vrampool.Error, "--no-pool", vrampool.stats)',
                    "--no-pool", PYTHONPATH=PACKAGES)
        program = ("import vrampool\nassert not vrampool.is_active()\n"
                   "try:\n    vrampool.stats()\nexcept vrampool.Error as e:\n    print(e)")
        done = run([sys.executable, "-c", program], PYTHONPATH=PACKAGES)
        self.assertIn("start it with `vrampool run -- PROGRAM`", done.stdout, done.stderr)

    def test_a_forked_child_has_no_pool_and_leaves_the_parents_alone(self):
        """As a worker of a DataLoader: it uses no CUDA, and ends while the parent goes on."""
        self.pooled("""
import multiprocessing
begin()
tensor = Tensor(8)
def work(queue):
    refused(vrampool.Error, "in a forked child", vrampool.stats)
    queue.put(vrampool.is_active())
context = multiprocessing.get_context("fork")
queue = context.Queue()
child = context.Process(target=work, args=(queue,))
child.start()
assert queue.get(timeout=60) is False
child.join()
assert child.exitcode == 0
more = [Tensor(8), Tensor(8)]
assert vrampool.stats()["evictions"] > 0""")

    def test_a_spawned_child_that_uses_no_cuda_does_nothing(self):
        """It inherits the preload; its report would take the parent's place."""
        with tempfile.TemporaryDirectory() as folder:
            report = os.path.join(folder, "r.json")
            done = self.pooled("""
import subprocess
begin()
tensor = Tensor(8)
child = "import vrampool; print(vrampool.is_active())"
subprocess.run([sys.executable, "-c", child], check=True)""", "--report", report)
            with open(report, encoding="utf-8") as file:
                self.assertEqual(json.load(file)["live_bytes"], 8 << 20)
        self.assertEqual(done.stdout, "False\n")
        self.assertEqual(done.stderr.count("vrampool: peak"), 1, done.stderr)


class Spans(unittest.TestCase):
    """What of memory a tensor covers; torch's has strides in elements, an array's are in bytes."""

    def array(self, shape, typestr, strides):
        interface = {"data": (1000, False), "shape": shape, "typestr": typestr, "strides": strides}
        return type("Array", (), {"__cuda_array_interface__": interface})()

    def torch(self, shape, item, stride):
        methods = {"data_ptr": lambda self: 1000, "element_size": lambda self: item,
                   "stride": lambda self: stride, "shape": shape}
        return type("Tensor", (), methods)()

    def test_spans(self):
        from vrampool._pool import _span
        self.assertEqual(_span(self.array((3, 5), "<f4", None)), (1000, 60))
        self.assertEqual(_span(self.array((3, 5), "<f4", (40, 4))), (1000, 100))
        self.assertEqual(_span(self.array((3,), "<f8", (-16,))), (968, 40))
        self.assertEqual(_span(self.array((), "<f8", None)), (1000, 8))
        self.assertEqual(_span(self.array((0, 5), "<f8", None))[1], 0)
        self.assertEqual(_span(self.torch((3, 5), 4, (10, 1))), (1000, 100))
        self.assertEqual(_span(self.torch((7, 5), 4, (0, 1))), (1000, 20))
        self.assertEqual(_span(self.torch((7, 0), 4, (0, 1)))[1], 0)
        storage = type("Storage", (), {"data_ptr": lambda s: 1000, "nbytes": lambda s: 12})()
        self.assertEqual(_span(storage), (1000, 12))


if __name__ == "__main__":
    unittest.main(verbosity=2)
