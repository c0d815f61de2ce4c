#!/usr/bin/env python3
"""Small programs on the emulated driver: the C interface without the command, verify mode on a good
and on a faulty program, the launch benchmark.

Usage: test_programs.py BUILD"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

BUILD = os.path.abspath(sys.argv.pop(1))
EMULATOR = os.path.join(BUILD, "src", "libvrampool-emu.so")


def run(*command, **environment):
    command = [os.path.join(BUILD, command[0]), *command[1:]]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False,
                          env={**os.environ, **environment})


def run_pooled(*words):
    """`vrampool run` with some options; the program is the word after `--`."""
    at = words.index("--") + 1
    program = os.path.join(BUILD, words[at])
    return run("vrampool", "run", *words[:at], program, *words[at + 1:])


# A program whose memory is on the move while it forks. Each child tries to use the card, and ends
# with all its exit handlers.
FORKS = """
import ctypes, os, sys, threading
cuda = ctypes.CDLL("libcuda.so.1")
def call(name, *arguments):
    result = getattr(cuda, name)(*arguments)
    if result: sys.exit(f"{name}: {result}")
number, size = ctypes.c_uint64, ctypes.c_size_t(1 << 21)
context, blocks, ending = number(), [number() for _ in range(7)], threading.Event()
call("cuInit", 0)
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
call("cuCtxSetCurrent", context)
for block in blocks: call("cuMemAlloc_v2", ctypes.byref(block), size)
def fill(times):
    call("cuCtxSetCurrent", context)
    while times and not ending.is_set():
        for i, block in enumerate(blocks):
            call("cuMemsetD8_v2", block, ctypes.c_ubyte(i), size)
        times -= 1
thread = threading.Thread(target=fill, args=(1 << 30,))
thread.start()
for _ in range(8):
    child = os.fork()
    if child == 0:
        more = number()
        refused = cuda.cuMemAlloc_v2(ctypes.byref(more), size) != 0
        refused = refused and cuda.cuMemFree_v2(blocks[0]) != 0
        sys.exit(7 if refused else 1)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 7: sys.exit("a child used the card")
ending.set()
thread.join()
ending.clear()
fill(8)
data = (ctypes.c_ubyte * size.value)()
for i, block in enumerate(blocks):
    call("cuMemcpyDtoH_v2", data, block, size)
    if bytes(data) != bytes([i]) * size.value: sys.exit(f"block {i} is not what it was")
print("right")
"""


class Forks(unittest.TestCase):
    def test_children_leave_the_pool_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            report, trace = os.path.join(folder, "r.json"), os.path.join(folder, "a.trace")
            done = run("vrampool", "run", "--emulate", "1x8M", "--host", "32M", "--report", report,
                       "--record", trace, "--", sys.executable, "-c", FORKS)
            self.assertEqual((done.returncode, done.stdout), (0, "right\n"), done.stderr)
            self.assertEqual(done.stderr.count("peak"), 1, done.stderr)
            with open(report, encoding="utf-8") as file:
                self.assertGreater(json.load(file)["moved_bytes"], 0)
            with open(trace, encoding="utf-8") as file:
                lines = file.read().splitlines()
            self.assertEqual(lines.count("vrampool-trace 1"), 1)
            ops = [line for line in lines if line.startswith("op ")]
            self.assertGreaterEqual(len(ops), 8 * 7)  # the last rounds; those before are chance


class Programs(unittest.TestCase):
    def test_pool_from_plain_c(self):
        """It compares what it reads back with what it wrote, and ends with 1 where that differs."""
        done = run("examples/pool", EMULATOR, "-", VRAMPOOL_EMULATE="2x32M")
        self.assertEqual(done.returncode, 0, done.stderr)
        places = [line.split(": ")[1].split(",")[0] for line in done.stdout.splitlines()
                  if line.startswith("block ")]
        self.assertEqual(len(places), 8)
        self.assertGreaterEqual(len(set(places)), 2, places)  # 64 MiB do not fit on one card
        self.assertGreater(json.loads(done.stderr)["moved_bytes"], 0)

    def test_verify_passes_a_good_program(self):
        done = run_pooled("--emulate", "2x24M", "--verify", "--", "tests/programs/overrun")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, "the last word is 1048575\n")

    def test_verify_catches_an_overrun(self):
        options = ("--emulate", "2x24M", "--verify")
        done = run_pooled(*options, "--", "tests/programs/overrun", "--plant")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("verify: overrun_fill", done.stderr)
        self.assertIn("block 1", done.stderr)

    def test_launch_benchmark_finds_both_libraries(self):
        done = run_pooled("--emulate", "1x512M", "--", "bench/launch")
        self.assertEqual(done.returncode, 0, done.stderr)
        figures = json.loads(done.stdout)
        self.assertTrue(figures["pooled"])
        self.assertGreater(figures["native_launch_ns"]["median"], 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
