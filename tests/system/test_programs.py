#!/usr/bin/env python3
"""Small programs on the emulated driver: the C interface without the command, verify mode on a good
and on a faulty program, the launch benchmark.

Usage: test_programs.py BUILD"""
import json
import os
import subprocess
import sys
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
