#!/usr/bin/env python3
"""`vrampool sim` as people use it: figures, mistakes, the picture; on traces made here.

Usage: test_sim.py VRAMPOOL, the command in its build folder"""
import json
import os
import subprocess
import sys
import tempfile
import unittest
import xml.dom.minidom

BENCH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench")
sys.path.insert(0, BENCH)
from plan_traces import write_job, write_inference, JOBS  # noqa: E402

VRAMPOOL = os.path.abspath(sys.argv.pop(1))
MIB = 1 << 20
LAYERS, STEPS = 12, 4
POLICIES = ("plan", "lru", "demand", "inplace")

# Seconds a step of jobs of bench/plan_traces.py, by percent of their peak: what a fluid linear
# programme says is the least (bench/RESULTS.md says what it leaves out).
BOUNDS = {
    "adam": {80: 0.0522, 60: 0.0953, 40: 0.1785},
    "adam_ckpt": {80: 0.1593, 60: 0.2387, 40: 0.3181},
    "sgd": {80: 0.1164, 60: 0.2171, 40: 0.3484},
    "foreach": {80: 0.0699, 60: 0.1271, 40: 0.2393},
    "lora": {80: 0.0799, 60: 0.1673, 40: 0.2567},
    "inference": {80: 0.0922, 60: 0.1843, 40: 0.2775},
    "accumulate": {80: 0.0769, 60: 0.1210, 40: 0.2863},
    "falling": {80: 0.1986, 60: 0.2292, 40: 0.3127},
    "big_blocks": {80: 0.5271, 60: 0.7063, 40: 0.8877},
}


def write_trace(path):
    """A training job: per layer 32 MiB of parameters, 64 of optimizer state, 48 of activations."""
    with open(path, "w", encoding="utf-8") as file:
        def event(*words):
            print(*words, file=file)

        event("vrampool-trace 1")
        for layer in range(LAYERS):
            event("alloc", layer, 32 * MIB)
            event("alloc", 100 + layer, 64 * MIB)
            event("op kernel 0 900000000 init", layer, 100 + layer)
        for step in range(STEPS):
            base = 1000 * (step + 1)
            event("op kernel 0 700000000 begin 0")  # the host was idle before
            for layer in range(LAYERS):
                event("alloc", base + layer, 48 * MIB)
                before = [base + layer - 1] if layer else []
                event("op kernel 0 400000 forward", layer, base + layer, *before)
            for layer in reversed(range(LAYERS)):
                event("alloc", base + 100 + layer, 32 * MIB)
                event("op kernel 0 800000 backward", layer, base + layer, base + 100 + layer)
                event("free", base + layer)
            for layer in range(LAYERS):
                event("op kernel 0 100000 update", layer, 100 + layer, base + 100 + layer)
                event("free", base + 100 + layer)


class Sim(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.trace = os.path.join(cls.folder.name, "job & <co>.trace")
        write_trace(cls.trace)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def sim(self, *words, status=0):
        done = subprocess.run([VRAMPOOL, "sim", *words], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def predicted(self, *words):
        return json.loads(self.sim(self.trace, "--json", *words).stdout)

    def refused(self, said, *words):
        done = self.sim(*words, status=2)
        self.assertIn(said, done.stderr)
        self.assertEqual(done.stdout, "")

    def test_all_fits(self):
        got = self.predicted()
        in_hbm = 1e-9 * (100000 + LAYERS * (400000 + 800000 + 100000))
        self.assertAlmostEqual(got["in_hbm_s"], in_hbm, places=6)
        self.assertAlmostEqual(got["step_s"], in_hbm, places=4)
        self.assertEqual(got["in_bytes"] + got["out_bytes"], 0)
        self.assertEqual(got["peak_bytes"], (LAYERS * (32 + 64 + 48) + 32) * MIB)
        self.assertTrue(got["repeats"])

    def test_plan_is_never_slower(self):
        peak = self.predicted()["peak_bytes"]
        for percent in (90, 60, 30):
            hbm = str(peak * percent // 100)
            got = {policy: self.predicted("--hbm", hbm, "--policy", policy) for policy in POLICIES}
            for policy in POLICIES:
                self.assertLessEqual(got["plan"]["step_s"], got[policy]["step_s"], (policy,
                                     percent))
                stalls = sum(got[policy]["stalls_s"].values())
                self.assertAlmostEqual(stalls, got[policy]["stall_s"], delta=1e-4)
            plan = got["plan"]
            self.assertLessEqual(plan["hbm_used_peak_bytes"], int(hbm))
            self.assertLessEqual(max(used for _, used in plan["hbm_use"]), int(hbm))
            self.assertEqual(got["inplace"]["in_bytes"], 0)

    def test_is_near_the_bound(self):
        for job, bounds in BOUNDS.items():
            path = os.path.join(self.folder.name, job + ".trace")
            if job == "inference":
                write_inference(path)
            else:
                write_job(path, **JOBS[job])
            peak = json.loads(self.sim(path, "--json").stdout)["peak_bytes"]
            for percent, bound in bounds.items():
                got = {policy: json.loads(self.sim(path, "--json", "--policy", policy, "--hbm",
                                                   str(peak * percent // 100)).stdout)["step_s"]
                       for policy in POLICIES}
                self.assertLessEqual(got["plan"], 1.12 * bound, (job, percent))
                self.assertEqual(got["plan"], min(got.values()), (job, percent))

    def test_translation_by_the_model(self):
        """All in the card's cache; or in that and its table, where chunks come home before use; or
        at the controller, where they are used elsewhere."""
        everything = self.predicted()["translation"]
        self.assertIs(everything["model"], True)
        self.assertEqual(everything["average_ns"], 60)
        self.assertEqual((everything["hit_share"], everything["moves"]), (1, 0))
        got = {policy: self.predicted("--hbm", "1G", "--machine", "8x2G", "--policy", policy)
               for policy in ("plan", "inplace")}
        for result in got.values():
            model = result["translation"]
            shares = [model[name] for name in ("hit_share", "table_share", "controller_share")]
            self.assertAlmostEqual(sum(shares), 1, places=4)
            self.assertGreaterEqual(model["average_ns"], 60)
            self.assertLessEqual(model["average_ns"], model["worst_ns"])
        moved = got["plan"]["moves"]["fetch"]
        self.assertGreaterEqual(got["plan"]["translation"]["moves"], moved)
        self.assertGreater(got["inplace"]["translation"]["controller_share"], 0.05)
        self.assertLess(got["plan"]["translation"]["controller_share"], 0.02)

    def test_less_memory_takes_longer(self):
        peak = self.predicted()["peak_bytes"]
        times = [self.predicted("--hbm", str(peak * percent // 100))["step_s"]
                 for percent in (100, 70, 50, 30)]
        self.assertEqual(times, sorted(times))

    def test_an_op_that_touches_more_than_fits(self):
        got = self.predicted("--hbm", "100M")
        self.assertGreater(got["in_place_bytes"], 0)

    def test_other_machines(self):
        slow = self.predicted("--hbm", "1G", "--machine", "1x24G")
        self.assertGreater(slow["step_s"], self.predicted("--hbm", "1G")["step_s"])

    def test_steps(self):
        got = self.predicted("--hbm", "1G")
        self.assertGreaterEqual(len(got["steps_s"]), 3)
        self.assertAlmostEqual(got["steps_s"][-1], got["step_s"], delta=1e-6)

    def test_table(self):
        shown = self.sim("--hbm", "1G", self.trace).stdout
        for word in ("step", "stalls", "for data to come in", "in place"):
            self.assertIn(word, shown)

    def test_picture(self):
        path = os.path.join(self.folder.name, "step.svg")
        self.sim(self.trace, "--hbm", "1G", "--svg", path)
        picture = xml.dom.minidom.parse(path)
        kinds = [box.getAttribute("class") for box in picture.getElementsByTagName("rect")]
        self.assertIn("run", kinds)
        self.assertIn("in", kinds)
        self.assertIn("out", kinds)
        words = [text.firstChild.data for text in picture.getElementsByTagName("text")]
        self.assertNotIn("host0", words)  # there is one refuge, and the lanes are whole
        self.sim(self.trace, "--hbm", "1G", "--machine", "double-cube-8x24", "--svg", path)
        picture = xml.dom.minidom.parse(path)
        words = [text.firstChild.data for text in picture.getElementsByTagName("text")]
        for card in ("card1", "card2", "card3", "card4"):  # a strip in each of two lanes
            self.assertEqual(words.count(card), 2)
        self.assertNotIn("host0", words)
        moves = [box for box in picture.getElementsByTagName("rect")
                 if box.getAttribute("class") == "out" and float(box.getAttribute("y")) > 100]
        self.assertEqual(len({box.getAttribute("y") for box in moves}), 4)
        done = self.sim(self.trace, "--svg", "/nonesuch/step.svg", status=2)
        self.assertIn("/nonesuch/step.svg", done.stderr)

    def test_mistakes(self):
        self.refused("which trace?")
        self.refused("/nonesuch.trace", "/nonesuch.trace")
        self.refused("24Q", self.trace, "--hbm", "24Q")
        self.refused("at least 2.0 MiB", self.trace, "--hbm", "0")
        self.refused("a card of machine h200 has 139.8 GiB", self.trace, "--hbm", "200G")
        self.refused("`nothing`", self.trace, "--machine", "nothing")
        self.refused("--policy fast", self.trace, "--policy", "fast")
        self.refused("--hbn", self.trace, "--hbn", "1G")
        self.refused("one trace at a time", self.trace, self.trace)
        self.refused("the step cannot run", self.trace, "--hbm", "500M", "--host", "500M")

    def test_bad_traces(self):
        bad = os.path.join(self.folder.name, "bad.trace")
        cases = (("bad.trace:1:", "GIF89a"), ("bad.trace:1: only version 1", "vrampool-trace 2\n"),
                 ("bad.trace: no op", "vrampool-trace 1\nalloc 1 5\n"),
                 ("bad.trace:3:", "vrampool-trace 1\nalloc 1 5\nop kernel 0 1 a 2\n"),
                 ("bad.trace:2:", f"vrampool-trace 1\nalloc 1 {2**64 - 1}\nop kernel 0 1 a 1\n"),
                 ("bad.trace:3:", f"vrampool-trace 1\nalloc 1 5\nop kernel 0 {2**60} a 1\n"),
                 ("too many", f"vrampool-trace 1\nalloc 1 {10**15}\nop kernel 0 1 a 1\n"),
                 ("the step cannot run",
                  f"vrampool-trace 1\nalloc 1 {10**13}\nop kernel 0 1 a 1\n"))
        for said, text in cases:
            with open(bad, "w", encoding="utf-8") as file:
                file.write(text)
            self.refused(said, bad)
        self.refused("not a regular file", "/dev/null")
        self.refused("not a regular file", self.folder.name)


if __name__ == "__main__":
    unittest.main(verbosity=2)
