#!/usr/bin/env python3
"""What --record writes is a whole trace: read strictly, as docs/traces.md says; what --timeline
writes shows what was done.

Usage: test_record.py BUILD"""
import json
import os
import signal
import subprocess
import sys
import tempfile
import unittest

BUILD = os.path.abspath(sys.argv.pop(1))
VRAMPOOL = os.path.join(BUILD, "vrampool")
TRAIN = os.path.join(BUILD, "examples", "train")
KINDS = {"kernel", "copy", "memset", "graph"}
MIB = 1 << 20


def record(*options, steps):
    """Trains with --record and returns the lines of the trace."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "step.trace")
        subprocess.run([VRAMPOOL, "run", "--log", "quiet", "--record", path, *options, "--", TRAIN,
                        "--steps", str(steps)], check=True, capture_output=True, timeout=120)
        with open(path, encoding="ascii") as file:
            text = file.read()
    assert text.endswith("\n")
    return text.splitlines()


class Record(unittest.TestCase):
    def test_waits_in_a_trace_are_told(self):
        with tempfile.TemporaryDirectory() as folder:
            for machine, told in (("1x512M", False), ("8x24M", True)):
                done = subprocess.run([VRAMPOOL, "run", "--emulate", machine, "--record",
                                       os.path.join(folder, "trace"), "--", TRAIN, "--steps", "1"],
                                      capture_output=True, text=True, timeout=120, check=True)
                self.assertEqual("its durations have waits in them" in done.stderr, told, machine)

    def read(self, lines):
        """Checks each line; returns the ops as (kind, duration_ns, name, bytes touched)."""
        self.assertEqual(lines[0], "vrampool-trace 1")
        live, used, ops = {}, set(), []
        for line in lines[1:]:
            what, *words = line.split()
            if what == "alloc":
                block, size = map(int, words)
                self.assertNotIn(block, used)
                self.assertGreater(size, MIB)
                used.add(block)
                live[block] = size
            elif what == "free":
                del live[int(words[0])]
            elif what == "op":
                kind, stream, duration, name, *ids = words
                self.assertIn(kind, KINDS)
                self.assertGreaterEqual(int(stream), 0)
                self.assertEqual(len(set(ids)), len(ids))
                ops.append((kind, int(duration), name, sum(live[int(block)] for block in ids)))
            else:
                self.assertTrue(what.startswith("#"), line)
        return ops

    def test_a_recorded_step_has_all_operations(self):
        short, long = (self.read(record("--emulate", "8x24M", steps=steps)) for steps in (1, 3))
        kernels = [op for op in long if op[0] == "kernel"]
        self.assertEqual((len(long) - len(short)) % 2, 0)  # two steps more, equal ones
        self.assertIn("adamw", {op[2] for op in kernels})
        unknown = [op for op in kernels if op[1] == 0]
        self.assertLess(len(unknown), len(kernels) // 10)
        touched = sum(op[3] for op in kernels if op[2] == "adamw")
        self.assertGreater(touched, 3 * 100 * MIB)  # weights, gradients and two states, each step

    def test_a_trace_does_not_depend_on_the_machine(self):
        def shape(*options):
            return [(op[0], op[2], op[3]) for op in self.read(record(*options, steps=2))]
        self.assertEqual(shape("--emulate", "8x24M"), shape("--emulate", "1x512M"))

    def test_a_killed_program_leaves_a_trace_that_can_be_read(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "step.trace")
            program = subprocess.Popen(
                [VRAMPOOL, "run", "--log", "quiet", "--record", path, "--emulate", "8x24M", "--",
                 TRAIN, "--steps", "100000"], stdout=subprocess.PIPE, text=True)
            steps = [program.stdout.readline() for _ in range(20)]
            program.kill()
            program.stdout.close()
            self.assertEqual(program.wait(60), -signal.SIGKILL)
            self.assertTrue(steps[-1].startswith("step 20 ") or steps[-1].startswith("step 19 "))
            with open(path, encoding="ascii") as file:
                text = file.read()
        self.assertTrue(text.endswith("\n"))
        ops = self.read(text.splitlines())
        self.assertGreater(len(ops), 256)


class Timeline(unittest.TestCase):
    def run_with(self, *options):
        """Trains with --timeline; returns the run and the events of the timeline."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "run.json")
            done = subprocess.run([VRAMPOOL, "run", "--timeline", path, *options, "--", TRAIN],
                                  capture_output=True, text=True, timeout=120, check=False)
            mode = os.stat(path).st_mode & 0o777 if os.path.exists(path) else None
            events = []
            if mode is not None:
                with open(path, encoding="utf-8") as file:
                    events = json.load(file)["traceEvents"]
        return done, events, mode

    def test_it_shows_all_that_was_moved(self):
        done, events, mode = self.run_with("--emulate", "8x24M", "--report", "-")
        self.assertEqual(done.returncode, 0)
        self.assertEqual(mode, 0o600)
        report = json.loads(done.stderr[done.stderr.index("{"):done.stderr.rindex("}") + 1])
        spans = [event for event in events if event["ph"] == "X"]
        copied = sum(span["args"]["bytes"] for span in spans if span["name"] == "copy in")
        # The report is written a moment later; what lands unseen is counted, and not drawn.
        self.assertGreater(copied, 0.9 * report["in_bytes"])
        self.assertLessEqual(copied, report["in_bytes"])
        unmapped = sum(span["name"] == "unmap" for span in spans)
        self.assertGreater(unmapped, 0.9 * (report["evictions"] + report["drops"]))
        for span in spans:
            self.assertGreaterEqual(span["dur"], 0)
            self.assertGreaterEqual(span["ts"], 0)
        rows = {event["args"]["name"]: event["tid"] for event in events if event["ph"] == "M"}
        held = [span for span in spans if span["tid"] == rows["operations held"]]
        self.assertLessEqual({span["args"]["why"] for span in held},
                             {"data", "room", "mapping", "to be alone"})
        self.assertIn("adamw", {span["name"] for span in held})

    def test_a_file_that_cannot_be_written_is_named(self):
        done = subprocess.run([VRAMPOOL, "run", "--emulate", "8x24M", "--timeline",
                               "/nonexistent/run.json", "--", TRAIN], capture_output=True,
                              text=True, timeout=120, check=False)
        self.assertIn("/nonexistent/run.json", done.stderr)
        self.assertNotEqual(done.returncode, 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
