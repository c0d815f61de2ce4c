#!/usr/bin/env python3
"""Arguments that say nothing: where the driver returns an error, so does the shim, the same one.

Usage: test_shim_zeros.py ZEROS SHIM EMULATOR

ZEROS calls every symbol of a library with zeros, and with a single one among them (shim/zeros.c).
What the emulator answers on its own, it answers under the shim."""
import os
import subprocess
import sys
import unittest

ZEROS, SHIM, EMULATOR = sys.argv[1:4]
CALL_BACK = ("cuLaunchHostFunc", "cuStreamAddCallback")


def endings(library, state):
    """How each call went, by its symbol and arguments."""
    clean = {name: value for name, value in os.environ.items()
             if not name.startswith(("VRAMPOOL", "LD_"))}
    clean.update(VRAMPOOL_DRIVER=EMULATOR, VRAMPOOL_EMULATE="1x8M", VRAMPOOL_HOST="32M",
                 VRAMPOOL_LOG="quiet")
    done = subprocess.run([ZEROS, library, state], env=clean, capture_output=True, text=True,
                          timeout=100, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{ZEROS} {library} {state}: {done.stderr}")
    lines = [line.split() for line in done.stdout.splitlines()]
    return {(symbol, int(mask)): int(ending) for symbol, mask, ending in lines}


class Zeros(unittest.TestCase):
    def check(self, state):
        driver, shim = endings(EMULATOR, state), endings(SHIM, state)
        self.assertGreater(len(driver), 200)
        # What is a crash on the driver may be anything; the function at address 1 may be called
        # before the process ends.
        answered = {call: ending for call, ending in driver.items()
                    if ending >= 0 and not call[0].startswith(CALL_BACK)}
        self.assertGreater(len(answered), 200)
        wrong = {call: (shim.get(call), ending) for call, ending in answered.items()
                 if shim.get(call) != ending}
        self.assertEqual(wrong, {}, "(shim's answer, driver's answer)")

    def test_before_init(self):
        self.check("fresh")

    def test_without_a_context(self):
        self.check("initialised")

    def test_with_a_pool(self):
        self.check("current")

    def test_while_a_stream_captures(self):
        self.check("capturing")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
