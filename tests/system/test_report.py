#!/usr/bin/env python3
"""The report: what it says of a replayed step is what was replayed; the page stands alone; lines
about learning go to stderr, when they are wanted.

Usage: test_report.py BUILD TRACE"""
import json
import os
import pty
import subprocess
import sys
import tempfile
import unittest
from html.parser import HTMLParser

TRACE = os.path.abspath(sys.argv.pop(2))
BUILD = os.path.abspath(sys.argv.pop(1))
VOID = {"meta"}
LEARNS = "memory has to leave the card"
LEARNED = "the step is learned; it should take"


class Page(HTMLParser):
    """Checks that elements are closed as they were opened, and names nothing outside."""

    def __init__(self):
        super().__init__()
        self.open, self.outside, self.text = [], [], []

    def handle_starttag(self, tag, attrs):
        self.outside += [value for name, value in attrs if name in ("src", "href")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.outside += [value for name, value in attrs if name in ("src", "href")]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, tag

    def handle_data(self, data):
        self.text.append(data)


def replay(report, *options):
    done = subprocess.run([os.path.join(BUILD, "bench", "replay"), TRACE, "--hbm", "24M",
                           "--steps", "60", "--report", report, "--json", *options],
                          capture_output=True, text=True, timeout=100, check=True)
    return json.loads(done.stdout)


def train(*options, steps=20, **more):
    command = [os.path.join(BUILD, "vrampool"), "run", "--emulate", "8x24M", *options, "--",
               os.path.join(BUILD, "examples", "train"), "--steps", str(steps)]
    return subprocess.run(command, text=True, timeout=200, check=True, stdout=subprocess.PIPE,
                          **more)


class Report(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.json = os.path.join(folder.name, "r.json")
        self.page = os.path.join(folder.name, "r.html")

    def load(self):
        with open(self.json, encoding="utf-8") as file:
            return json.load(file)

    def test_what_is_tuned(self):
        """The three settings arrive, and each changes what is done."""
        plain = replay(self.json)
        report = self.load()
        self.assertEqual([report[name] for name in ("chunk_bytes", "reserve_bytes", "ahead_ops")],
                         [2 << 20, 4 << 20, 64])
        for option, value, field, wanted in [("--chunk", "4M", "chunk_bytes", 4 << 20),
                                             ("--reserve", "2M", "reserve_bytes", 2 << 20),
                                             ("--ahead", "2", "ahead_ops", 2)]:
            with self.subTest(option):
                tuned = replay(self.json, option, value)
                self.assertEqual(self.load()[field], wanted)
                self.assertNotEqual(tuned["step_s"], plain["step_s"])

    def test_a_replayed_step(self):
        for policy in ("plan", "lru", "inplace"):
            with self.subTest(policy):
                known = replay(self.json, "--policy", policy)
                report = self.load()
                step = report["step"]
                self.assertEqual(report["policy"], policy)
                self.assertAlmostEqual(step["step_s"] / known["step_s"], 1, delta=0.03)
                if policy == "inplace":  # all operations of this step use memory over the link
                    self.assertEqual(step["in_place"], step["operations"])
                    self.assertEqual(step["fetches"] + step["compute_s"], 0)
                    self.assertNotIn("predicted", step)
                    continue
                self.assertAlmostEqual(step["predicted"]["in_hbm_s"], step["compute_s"], places=5)
                stalls = sum(step["stalls_s"].values())
                self.assertAlmostEqual(stalls + step["compute_s"], step["step_s"], delta=1e-4)
                self.assertAlmostEqual(step["compute_s"] / known["in_hbm_s"], 1, delta=0.05)
                self.assertAlmostEqual(step["in_hbm_fraction"] * known["ratio"], 1, delta=0.06)
                moved = known["steps"][-1]["in_bytes"]
                self.assertAlmostEqual(step["in_bytes"] / moved, 1, delta=0.25)

    def test_advice_is_predicted_to_help(self):
        replay(self.json)
        step = self.load()["step"]
        curve = step["hbm_curve"]
        self.assertEqual(curve[0][1], step["predicted"]["step_s"])
        self.assertEqual(curve[-1][0], step["predicted"]["fits_hbm_bytes"])
        self.assertTrue(step["advice"])
        for advice in step["advice"]:
            self.assertLess(advice["step_s"], step["predicted"]["step_s"], advice)
            self.assertTrue(advice["text"].endswith("."), advice)

    def test_the_page_stands_alone(self):
        replay(self.page)
        with open(self.page, encoding="utf-8") as file:
            text = file.read()
        page = Page()
        page.feed(text)
        self.assertEqual(page.open, [])
        self.assertEqual(page.outside, [])
        self.assertNotIn("http", text)
        for words in ("Where a step's time goes", "What would help most", "computing", "card0"):
            self.assertTrue(any(words in part for part in page.text), words)

    def test_a_program_that_fits(self):
        done = train("--hbm", "24M", "--report", self.page, stderr=subprocess.PIPE)
        self.assertIn("loss", done.stdout)
        command = [os.path.join(BUILD, "vrampool"), "run", "--emulate", "1x512M", "--report",
                   self.json, "--log", "info", "--", os.path.join(BUILD, "examples", "train"),
                   "--steps", "2"]
        done = subprocess.run(command, text=True, timeout=100, check=True, capture_output=True)
        self.assertNotIn(LEARNS, done.stderr)
        self.assertNotIn("step", self.load())

    def test_progress_is_for_who_watches(self):
        info = train("--log", "info", stderr=subprocess.PIPE).stderr
        self.assertEqual(info.count(LEARNS), 1)
        self.assertEqual(info.count(LEARNED), 1)
        self.assertLess(info.index(LEARNS), info.index(LEARNED))
        self.assertNotIn(LEARNS, train(stderr=subprocess.PIPE).stderr)
        self.assertNotIn(LEARNS, self.on_a_terminal("--log", "error"))
        self.assertEqual(self.on_a_terminal().count(LEARNS), 1)

    @staticmethod
    def on_a_terminal(*options):
        ours, its = pty.openpty()
        try:
            train(*options, stderr=its)
            os.set_blocking(ours, False)
            return os.read(ours, 1 << 16).decode()
        finally:
            os.close(ours)
            os.close(its)


if __name__ == "__main__":
    unittest.main(verbosity=2)
