#!/usr/bin/env python3
"""Jobs of several processes, as torchrun starts them: each computes on its card, lenders belong to
one rank each, and the host is divided. examples/train stands in for a rank, a script for the
launcher.

Usage: test_ranks.py BUILD"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD = os.path.abspath(sys.argv.pop(1))
VRAMPOOL = os.path.join(BUILD, "vrampool")
TRAIN = os.path.join(BUILD, "examples", "train")
OURS = ("VRAMPOOL", "PYTORCH_", "LD_PRELOAD", "PYTHONPATH", "LOCAL_")
MIB = 1 << 20

# As torchrun does it: looks how many cards there are, and starts a process for each.
LAUNCHER = """#!{python}
import ctypes, os, subprocess, sys
driver, count = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
assert driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0
ranks = [subprocess.Popen(sys.argv[1:], env={{**os.environ, "LOCAL_RANK": str(rank),
                                             "LOCAL_WORLD_SIZE": str(count.value)}})
         for rank in range(count.value)]
sys.exit(max(rank.wait() for rank in ranks))
"""

# What a rank sees of the cards, one a line: number, MiB by cuDeviceTotalMem, MiB by cuMemGetInfo.
# Each gets a block of 8 MiB.
LOOK = """
import ctypes
driver = ctypes.CDLL("libcuda.so.1")
def call(name, *words):
    assert getattr(driver, name)(*words) == 0, name
count, context = ctypes.c_int(), ctypes.c_void_p()
first, second = ctypes.c_size_t(), ctypes.c_size_t()
call("cuInit", 0)
call("cuDeviceGetCount", ctypes.byref(count))
for card in range(count.value):
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), card)
    call("cuCtxSetCurrent", context)
    call("cuDeviceTotalMem_v2", ctypes.byref(first), card)
    print(card, first.value >> 20, end=" ")
    call("cuMemGetInfo_v2", ctypes.byref(first), ctypes.byref(second))
    address = ctypes.c_uint64()
    call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(8 << 20))
    call("cuMemsetD8_v2", address, ctypes.c_ubyte(1), ctypes.c_size_t(8 << 20))
    print(second.value >> 20)
"""


def environment(**more):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    return {**kept, **more}


class Ranks(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="vrampool-test-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.report = os.path.join(self.folder, "r.json")

    def run_it(self, *words, **more):
        done = subprocess.run([VRAMPOOL, "run", "--log", "warn", *words], env=environment(**more),
                              capture_output=True, text=True, timeout=200, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def rank(self, number, count, *words, **more):
        return self.run_it("--report", self.report, *words, LOCAL_RANK=str(number),
                           LOCAL_WORLD_SIZE=str(count), **more)

    def read_report(self, number=None):
        path = self.report if number is None else f"{self.report}.{number}"
        with open(path, encoding="utf-8") as file:
            return json.load(file)

    def places(self, number=None):
        report = self.read_report(number)
        return {place["name"]: place["capacity_bytes"] for place in report["places"]}

    def test_a_rank_computes_on_its_card(self):
        train = ("--emulate", "2x64M", "--", TRAIN, "--steps", "1")
        alone = self.run_it(*train)
        second = self.rank(1, 2, *train)
        self.assertEqual(second.stdout, alone.stdout)
        self.assertEqual(list(self.places(1)), ["card1", "host0"])
        self.assertEqual(self.places(1)["host0"], 128 * MIB)

    def test_a_launcher_under_the_command_starts_a_rank_for_each_card(self):
        launcher = os.path.join(self.folder, "torchrun")
        with open(launcher, "w", encoding="utf-8") as file:
            file.write(LAUNCHER.format(python=sys.executable))
        os.chmod(launcher, 0o755)
        done = self.run_it("--emulate", "2x64M", "--report", self.report, "--", launcher, TRAIN,
                           "--steps", "1")
        lines = done.stdout.splitlines()
        self.assertEqual((len(lines), len(set(lines))), (2, 1), done.stdout)
        self.assertNotIn("warn", done.stderr)
        for number in range(2):
            self.assertEqual(list(self.places(number)), [f"card{number}", "host0"])
        self.assertFalse(os.path.exists(self.report))

    def test_lenders_belong_to_one_rank_each(self):
        look = ("--emulate", "5x24M", "--", sys.executable, "-c", LOOK)
        self.rank(0, 2, *look)
        self.rank(1, 2, *look)
        self.assertEqual(list(self.places(0)), ["card0", "card2", "card4", "host0"])
        self.assertEqual(list(self.places(1)), ["card1", "card3", "host0"])
        self.rank(1, 2, "--lend", "2-3", *look)
        self.assertEqual(list(self.places(1)), ["card1", "card3", "host0"])

    def test_ranks_see_each_others_cards_as_they_are(self):
        """They are there to be found by number; memory on one is the driver's."""
        done = self.rank(1, 2, "--emulate", "3x24M", "--host", "40M", "--", sys.executable, "-c",
                         LOOK)
        other, own = (line.split() for line in done.stdout.splitlines())
        self.assertEqual(other, ["0", "24", "24"])
        self.assertGreater(int(own[1]), 60)
        self.assertEqual(own[1], own[2])
        self.assertEqual(self.read_report(1)["live_bytes"], 8 * MIB)

    def test_told_cards_win(self):
        self.rank(1, 2, "--compute", "0-1", "--emulate", "3x24M", "--", sys.executable, "-c", LOOK)
        self.assertEqual(list(self.places(1)), ["card0", "card1", "card2", "host0"])

    def test_a_launcher_may_show_each_rank_one_card(self):
        self.rank(3, 4, "--emulate", "1x24M", "--", sys.executable, "-c", LOOK)
        self.assertEqual(list(self.places(3)), ["card0", "host0"])

    def test_a_rank_alone_has_all(self):
        self.rank(0, 1, "--emulate", "3x24M", "--", sys.executable, "-c", LOOK)
        self.assertEqual(list(self.places()), ["card0", "card1", "card2", "host0"])
        self.assertEqual(self.places()["host0"], 96 * MIB)

    def test_the_real_host_is_divided(self):
        """Without a limit told, as on a real machine; what is available changes all the time."""
        seen = dict(line.split("=", 1) for line in
                    self.run_it("--emulate", "2x64M", "--", "env").stdout.splitlines()
                    if line.startswith(("VRAMPOOL_", "LD_")))
        del seen["VRAMPOOL_HOST"]
        for number, count in (0, 1), (1, 8):
            rank = {"LOCAL_RANK": str(number), "LOCAL_WORLD_SIZE": str(count)}
            done = subprocess.run([sys.executable, "-c", LOOK], check=False, timeout=60,
                                  env=environment(**seen, **rank, VRAMPOOL_REPORT=self.report),
                                  capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
        ratio = self.places()["host0"] / self.places(1)["host0"]
        self.assertTrue(6 < ratio < 10, ratio)


if __name__ == "__main__":
    unittest.main(verbosity=2)
