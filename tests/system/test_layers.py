#!/usr/bin/env python3
"""bench/layers.py on a job whose split can be worked out by hand.

Usage: test_layers.py VRAMPOOL, the command in its build folder"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

LAYERS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench", "layers.py")
VRAMPOOL = os.path.abspath(sys.argv.pop(1))
MIB = 1 << 20
COPY_S = 16 * MIB / 50e9  # of an activation; cards of NxSIZE are joined at 50 GB/s


def write_trace(path):
    """Four layers with 32 MiB each of parameters, gradients and twice that of optimizer state, and
    16 MiB of activations; 1 ms forward, 2 ms backward, 1 ms update a layer. A workspace of 2 MiB
    that every layer uses."""
    with open(path, "w", encoding="utf-8") as file:
        def event(*words):
            print(*words, file=file)

        event("vrampool-trace 1")
        event("alloc 99", 2 * MIB)
        for layer in range(4):
            for kind in range(3):
                event("alloc", 10 * layer + kind, 32 * MIB)
        event("op kernel 0 1000 init 99")
        for step in range(3):
            event("op kernel 0 100000 begin")
            act, ahead = 100 * (step + 1), 100 * (step + 1) + 50
            for layer in range(4):
                event("alloc", act + layer, 16 * MIB)
                before = [act + layer - 1] if layer else []
                event(f"op kernel 0 1000000 forward{layer}", 10 * layer, act + layer, 99, *before)
            for layer in reversed(range(4)):
                event("alloc", ahead + layer, 16 * MIB)
                event("alloc", ahead + 10 + layer, 32 * MIB)
                above = [ahead + layer + 1] if layer < 3 else []
                event(f"op kernel 0 2000000 backward{layer}", 10 * layer, act + layer, 99,
                      ahead + layer, ahead + 10 + layer, *above)
                event("free", act + layer)
                if above:
                    event("free", above[0])
            event("free", ahead)
            for layer in range(4):
                event(f"op kernel 0 1000000 update{layer}", 10 * layer, ahead + 10 + layer,
                      10 * layer + 1, 10 * layer + 2)
                event("free", ahead + 10 + layer)


class Layers(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.trace = os.path.join(folder.name, "job.trace")
        write_trace(self.trace)

    def compare(self, *options, machine="2x1G"):
        done = subprocess.run([sys.executable, LAYERS, VRAMPOOL, self.trace, "--machine", machine,
                               "--slower", "1", "--json", *options],
                              capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def peak(self):
        done = subprocess.run([VRAMPOOL, "sim", self.trace, "--json"], capture_output=True,
                              text=True, timeout=60, check=True)
        return json.loads(done.stdout)["peak_bytes"]

    def test_by_hand(self):
        found = self.compare("--bytes", f"{self.peak() // MIB}M")
        self.assertAlmostEqual(found["scale"], 1)
        self.assertAlmostEqual(found["one_card_s"], 0.0161, places=4)
        split = found["split"]
        self.assertEqual((split["cuts"], split["parameters"]), ([2], 4))
        # One card after the other; the second updates while the first goes backward. An activation
        # there, its gradient back.
        self.assertAlmostEqual(split["step_s"], 0.0001 + 0.004 + 0.008 + 0.002 + 2 * COPY_S,
                               places=6)
        self.assertEqual(split["copied_bytes"], 2 * 16 * MIB)
        # Two layers' state, both gradients, the workspace; activations and their gradients come and
        # go: at most two of each at once, and one from the other card.
        least = (2 * 96 + 2 * 32 + 2) * MIB
        for size in split["card_bytes"]:
            self.assertGreaterEqual(size, least)
            self.assertLessEqual(size, least + 5 * 16 * MIB)
        self.assertTrue(split["fits"])
        self.assertEqual(found["pooled"]["lines"], 0)
        self.assertGreater(split["lines"], 5)

    def test_scaled(self):
        """Twice the bytes take twice as long, on links too."""
        once = self.compare("--bytes", f"{self.peak() // MIB}M")
        twice = self.compare("--bytes", f"{2 * self.peak() // MIB}M")
        self.assertAlmostEqual(twice["scale"], 2, places=6)
        self.assertAlmostEqual(twice["split"]["step_s"], 2 * once["split"]["step_s"], delta=1.1e-4)
        self.assertAlmostEqual(twice["one_card_s"], 2 * once["one_card_s"], delta=2e-4)

    def test_another_cut(self):
        split = self.compare("--bytes", f"{self.peak() // MIB}M", "--cuts", "1")["split"]
        self.assertAlmostEqual(split["step_s"], 0.0001 + 0.004 + 0.008 + 0.001 + 2 * COPY_S,
                               places=6)

    def test_what_does_not_fit_is_told(self):
        found = self.compare("--bytes", f"{2 * self.peak() // MIB}M", machine="2x512M")
        self.assertFalse(found["split"]["fits"])
        self.assertGreater(found["pooled"]["step_s"], found["one_card_s"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
