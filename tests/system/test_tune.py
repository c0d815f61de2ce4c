#!/usr/bin/env python3
"""`vrampool tune`: it gets out of bad settings, leaves good ones, and prints what `run` takes.

Usage: test_tune.py VRAMPOOL, the command in its build folder"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

BENCH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench")
sys.path.insert(0, BENCH)
from plan_traces import write_job, JOBS  # noqa: E402

VRAMPOOL = os.path.abspath(sys.argv.pop(1))
MIB = 1 << 20
SETTINGS = ("chunk_bytes", "ahead_ops", "reserve_bytes")


class Tune(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.trace = os.path.join(cls.folder.name, "adam.trace")
        write_job(cls.trace, **JOBS["adam"])
        cls.peak = cls.json()["peak_bytes"]
        cls.hbm = str(cls.peak * 6 // 10 >> 21 << 21)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def tune(cls, *words, status=0):
        done = subprocess.run([VRAMPOOL, "tune", *words], stdin=subprocess.DEVNULL, text=True,
                              capture_output=True, timeout=60, check=False)
        assert done.returncode == status, done.stderr
        return done

    @classmethod
    def json(cls, *words):
        return json.loads(cls.tune(cls.trace, "--json", *words).stdout)

    def refused(self, said, *words):
        done = self.tune(*words, status=2)
        self.assertIn(said, done.stderr)
        self.assertEqual(done.stdout, "")

    def settings(self, result):
        return [result[name] for name in SETTINGS]

    def test_out_of_bad_settings(self):
        got = self.json("--hbm", self.hbm, "--machine", "double-cube-8x24", "--chunk", "2M")
        before, after = got["before"], got["after"]
        self.assertTrue(got["changed"])
        self.assertEqual(before["chunk_bytes"], 2 * MIB)
        self.assertGreater(after["chunk_bytes"], 2 * MIB)
        self.assertLess(after["step_s"], 0.9 * before["step_s"])
        self.assertGreater(after["link_gbps"], before["link_gbps"])
        self.assertGreaterEqual(after["step_s"], after["in_hbm_s"])
        for result in (before, after):
            self.assertGreater(result["hbm_used_share"], 0.2)
            self.assertLessEqual(result["hbm_used_share"], 1)
            self.assertAlmostEqual(result["stall_s"], result["step_s"] - result["in_hbm_s"],
                                   places=6)

    def test_what_it_finds_is_as_it_says(self):
        """Given as what is used now, the settings that it found give the figures that it found,
        and it finds nothing better."""
        found = self.json("--hbm", self.hbm, "--chunk", "2M")["after"]
        again = self.json("--hbm", self.hbm, "--chunk", str(found["chunk_bytes"]), "--ahead",
                          str(found["ahead_ops"]), "--reserve", str(found["reserve_bytes"]))
        self.assertEqual(again["before"], found)
        self.assertFalse(again["changed"])
        self.assertEqual(again["after"], found)

    def test_the_defaults_are_those_of_the_pool(self):
        got = self.json("--hbm", "1G")
        self.assertEqual(self.settings(got["before"]), [64 * MIB, 64, 128 * MIB])
        got = self.json("--hbm", "300M", "--host", "16G")
        self.assertEqual(self.settings(got["before"]), [16 * MIB, 64, 32 * MIB])
        self.assertLessEqual(got["after"]["reserve_bytes"], 50 * MIB)

    def test_the_command_is_understood(self):
        """It says what is not the pool's own choice, and nothing else."""
        said = set()
        for options in [(), ("--hbm", self.hbm, "--chunk", "2M", "--host", "64G"),
                        ("--hbm", self.hbm, "--machine", "double-cube-8x24", "--reserve", "900M"),
                        ("--hbm", "1G", "--chunk", "4M", "--ahead", "8")]:
            with self.subTest(options):
                found = self.json(*options)
                after, command = found["after"], found["command"].split()
                names = {"HBM"} | ({"HOST"} if "--host" in options else set())
                chunk = after["chunk_bytes"]
                own = min(64 * MIB, 1 << (found["hbm_bytes"] // 12).bit_length() - 1)
                names |= {"CHUNK"} if chunk != own else set()
                names |= {"AHEAD"} if after["ahead_ops"] != 64 else set()
                names |= {"RESERVE"} if after["reserve_bytes"] != 2 * chunk else set()
                self.assertEqual(command[:2] + command[-2:], ["vrampool", "run", "--", "PROGRAM"])
                done = subprocess.run([VRAMPOOL, *command[1:-1], "env"], capture_output=True,
                                      text=True, timeout=60, check=True)
                for name in ("HBM", "HOST", "CHUNK", "AHEAD", "RESERVE"):
                    self.assertEqual(f"VRAMPOOL_{name}=" in done.stdout, name in names, name)
                said |= names
        self.assertGreater(len(said), 2, said)

    def test_what_fits_needs_no_tuning(self):
        done = self.tune(self.trace)
        self.assertIn("there is nothing to tune", done.stdout)
        got = self.json()
        self.assertFalse(got["changed"])
        self.assertEqual(got["before"]["in_bytes"] + got["before"]["out_bytes"], 0)

    def test_the_table(self):
        done = self.tune(self.trace, "--hbm", self.hbm, "--chunk", "2M")
        self.assertIn("nothing was run", done.stdout)
        self.assertIn("less time a step", done.stdout)
        self.assertTrue(done.stdout.rstrip().splitlines()[-1].startswith("vrampool run --hbm "))

    def test_mistakes(self):
        self.refused("which trace?")
        self.refused("one trace at a time", self.trace, self.trace)
        self.refused("a power of two from 2M to 128M", self.trace, "--chunk", "5M")
        self.refused("a number from 1 to 4096", self.trace, "--ahead", "none")
        self.refused("not a size", self.trace, "--reserve", "some")
        self.refused("tune: --hbm: a card of machine h200 has", self.trace, "--hbm", "1T")
        self.refused("raise --hbm or --host", self.trace, "--hbm", "64M", "--host", "64M")
        self.refused("4.0 GiB is more than 341.3 MiB, a sixth", self.trace, "--hbm", "2G",
                     "--reserve", "4G")
        self.refused("unknown option --svg; see", self.trace, "--svg", "x.svg")
        self.refused("did you mean --chunk", self.trace, "--chonk", "2M")


if __name__ == "__main__":
    unittest.main(verbosity=2)
