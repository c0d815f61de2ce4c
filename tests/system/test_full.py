#!/usr/bin/env python3
"""A program that lives near the edge of the memory there is, on the emulated driver: what was freed
in pieces can be had whole, random lifetimes do not use memory up, spikes go to the host. At least
97 % of the limit is usable.

Usage: test_full.py BUILD"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

BUILD = os.path.abspath(sys.argv.pop(1))
MIB = 1 << 20


def run(hbm_mib, host_mib, way, mib, number):
    """The finished program, and the pool's report."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "report.json")
        command = [os.path.join(BUILD, "vrampool"), "run", "--emulate", "1x1G",
                   "--hbm", f"{hbm_mib}M", "--host", f"{host_mib}M", "--report", path, "--",
                   os.path.join(BUILD, "tests", "programs", "full"), way, f"{mib}M", str(number)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
        with open(path, encoding="utf-8") as file:
            return done, json.load(file)


class Full(unittest.TestCase):
    def test_pieces_come_back_whole(self):
        done, _ = run(192, 0, "pieces", 187, 4)  # 97.4 %
        self.assertEqual(done.returncode, 0, done.stderr)
        said = json.loads(done.stdout)
        self.assertEqual(said["most_bytes"], 187 * MIB)
        self.assertGreater(said["blocks"], 200)

    def test_more_than_there_is_fails(self):
        done, _ = run(192, 0, "pieces", 194, 1)
        self.assertEqual(done.returncode, 1)
        self.assertIn("full: no memory for", done.stderr)

    def test_random_lifetimes(self):
        done, _ = run(512, 0, "lifetimes", 481, 1500)  # 94 %, then filled up
        self.assertEqual(done.returncode, 0, done.stderr)
        said = json.loads(done.stdout)
        self.assertGreaterEqual(said["blocks"], 1500)
        self.assertGreaterEqual(said["most_bytes"], 0.97 * 512 * MIB)

    def test_spikes(self):
        done, report = run(192, 64, "spikes", 192, 8)  # 92 % kept and used, up to 108 %
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreaterEqual(json.loads(done.stdout)["most_bytes"], 1.07 * 192 * MIB)
        self.assertGreater(report["moved_bytes"], 0)
        card = report["places"][0]
        self.assertGreaterEqual(card["peak_bytes"], 0.97 * card["capacity_bytes"])

    def test_the_card_is_taken_by_others(self):
        """The driver gives all of the card to who asks past the pool; the blocks go to the host."""
        done, report = run(128, 256, "crowded", 192, 2)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["most_bytes"], 192 * MIB)
        taken = [int(line.split()[1]) for line in done.stderr.splitlines() if "were taken" in line]
        self.assertEqual(len(taken), 2)
        self.assertGreaterEqual(min(taken), (1024 - 128) * MIB)
        self.assertGreaterEqual(report["places"][1]["peak_bytes"], (192 - 128) * MIB)


if __name__ == "__main__":
    unittest.main(verbosity=2)
