#!/usr/bin/env python3
"""The example network under the command: it runs on joined memory with the results of one large
card, and without the pool it does not run at all.

Usage: test_train.py BUILD"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

BUILD = os.path.abspath(sys.argv.pop(1))
VRAMPOOL = os.path.join(BUILD, "vrampool")
TRAIN = os.path.join(BUILD, "examples", "train")
STEPS = 4
MIB = 1 << 20


def run(*options, steps=STEPS, **environment):
    command = [VRAMPOOL, "run", *options, "--", TRAIN, "--steps", str(steps)]
    return subprocess.run(command, capture_output=True, text=True, timeout=200, check=False,
                          env={**os.environ, **environment})


class Train(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        done = run("--no-pool", "--emulate", "1x512M")
        assert done.returncode == 0, done.stderr
        cls.expected = done.stdout

    def run_pooled(self, *options):
        """Runs with a pool over eight small cards and returns the report."""
        with tempfile.TemporaryDirectory() as folder:
            report = os.path.join(folder, "r.json")
            done = run("--emulate", "8x24M", "--report", report, *options)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(done.stdout, self.expected)
            with open(report, encoding="utf-8") as file:
                return json.load(file)

    def test_losses_fall(self):
        lines = self.expected.splitlines()
        self.assertEqual([line.split()[:3] for line in lines],
                         [["step", str(n), "loss"] for n in range(1, STEPS + 1)])
        losses = [float.fromhex(line.split()[3]) for line in lines]
        self.assertLess(losses[-1], losses[0])

    def test_reruns_agree(self):
        self.assertEqual(run("--no-pool", "--emulate", "1x512M").stdout, self.expected)

    def test_one_small_card_is_not_enough(self):
        done = run("--no-pool", "--emulate", "1x24M")
        self.assertEqual(done.returncode, 1)
        self.assertIn("out of memory", done.stderr)
        self.assertEqual(done.stdout, "")

    def test_eight_small_cards_and_the_host(self):
        report = self.run_pooled()
        self.assertGreaterEqual(report["peak_bytes"], 150 * MIB)
        self.assertGreater(report["moved_bytes"], 0)

    def test_moves_while_the_device_is_idle(self):
        self.assertGreater(self.run_pooled("--strict")["moved_bytes"], 0)

    def test_eight_small_cards_alone(self):
        report = self.run_pooled("--host", "0")
        cards = [place for place in report["places"] if place["name"].startswith("card")]
        full = [place["name"] for place in cards
                if place["peak_bytes"] >= 0.6 * place["capacity_bytes"]]
        self.assertEqual(len(cards), 8)
        self.assertGreaterEqual(len(full), 6, cards)

    def test_shipped_machines(self):
        machines = os.listdir(os.path.join(BUILD, "machines"))
        self.assertIn("double-cube-8x24.json", machines)
        for name in sorted(name[:-len(".json")] for name in machines if name.endswith(".json")):
            with self.subTest(name):
                done = run("--emulate", name + "@24M", "--host", "256M")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(done.stdout, self.expected)

    def test_a_link_and_a_relay_are_cut(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "r.json")
            done = run("--emulate", "double-cube-8x24@24M", "--host", "256M", "--report", path,
                       VRAMPOOL_EMU_LOSE="link:0-1@40ms,lanes:0-2:2@50ms,relay:4@60ms")
            with open(path, encoding="utf-8") as file:
                report = json.load(file)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, self.expected)
        said = done.stderr.splitlines()
        cut = said.index("vrampool: warn: emulator: the link between 0 and 1 is lost")
        self.assertLess(said.index("train: 152.7 MiB in blocks, all touched by every step"), cut)
        self.assertIn("card 4 passes nothing on", done.stderr)
        self.assertEqual(report["link_faults"],
                         [{"from": "card0", "to": "card1", "lanes": 4, "lanes_up": 0},
                          {"from": "card0", "to": "card2", "lanes": 4, "lanes_up": 2}])
        self.assertEqual(report["card_faults"], [{"name": "card4", "recovery": "drain_p2p"}])
        last = done.stderr.splitlines()[-1]
        self.assertIn("; the link between card0 and card1 is lost, the link between card0 and "
                      "card2 has 2 of 4 lanes, card4 passes on nothing to other cards", last)

    def test_the_fastest_cards_come_first_and_are_known_next_time(self):
        """Links from card 0 to its neighbours 1 and 2 are dead from the start: 3 and 4 are nearer.
        What was measured is kept, and a damaged file is as good as none."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "r.json")

            def measured():
                done = run("--emulate", "double-cube-8x24@48M", "--report", path, "--log", "debug",
                           XDG_RUNTIME_DIR=folder,
                           VRAMPOOL_EMU_LOSE="link:0-1@0ns,link:0-2@0ns")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(done.stdout, self.expected)
                with open(path, encoding="utf-8") as file:
                    places = json.load(file)["places"]
                peaks = {place["name"]: place["peak_bytes"] for place in places}
                self.assertGreater(min(peaks["card3"], peaks["card4"]), 40 * MIB, peaks)
                self.assertLess(peaks["card2"], 40 * MIB, peaks)
                self.assertEqual(peaks["card7"] + peaks["host0"], 0, peaks)
                return "the links of card0 were measured" in done.stderr

            self.assertTrue(measured())
            self.assertFalse(measured())
            kept = [os.path.join(folder, "vrampool", name)
                    for name in os.listdir(os.path.join(folder, "vrampool"))]
            self.assertEqual(len(kept), 1)
            with open(kept[0], "r+", encoding="utf-8") as file:
                file.write("vrampool rates 2")
            self.assertTrue(measured())
            self.assertFalse(measured())

    def test_the_page_tells_of_lost_links(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "r.html")
            done = run("--emulate", "double-cube-8x24@24M", "--report", path,
                       VRAMPOOL_EMU_LOSE="link:0-1@20ms")
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(path, encoding="utf-8") as file:
                self.assertIn("<li>the link between card0 and card1 is lost</li>", file.read())
            done = run("--emulate", "double-cube-8x24@24M", "--report", path)
            with open(path, encoding="utf-8") as file:
                self.assertNotIn("not whole", file.read())

    def run_on_cards(self, *options):
        done = subprocess.run([VRAMPOOL, "run", *options, "--", TRAIN, "--steps", str(STEPS),
                               "--cards", "2"],
                              capture_output=True, text=True, timeout=200, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def test_two_cards_at_once(self):
        """Each job needs 1.4 times its card's memory: both finish, bit by bit as alone, and neither
        starves."""
        alone = self.run_on_cards("--no-pool", "--emulate", "2x512M")
        with tempfile.TemporaryDirectory() as folder:
            report = os.path.join(folder, "r.json")
            done = self.run_on_cards("--emulate", "2x108M", "--compute", "0,1", "--report", report)
            with open(report, encoding="utf-8") as file:
                report = json.load(file)
        self.assertEqual(done.stdout, alone.stdout)
        self.assertGreaterEqual(152.7 / 108, 1.4)
        self.assertGreaterEqual(report["peak_bytes"], 2 * 150 * MIB)
        self.assertGreater(report["evictions"], 0)
        seconds = [float(line.split()[4]) for line in done.stderr.splitlines() if " took " in line]
        self.assertEqual(len(seconds), 2)
        self.assertLess(max(seconds), 1.5 * min(seconds))

    def test_a_card_lends_what_it_does_not_need(self):
        """The second card also computes, but not yet: nothing has to go to the host."""
        report = self.run_pooled("--emulate", "2x128M", "--compute", "0,1")
        peaks = {place["name"]: place["peak_bytes"] for place in report["places"]}
        self.assertGreater(peaks["card1"], 0)
        self.assertEqual(peaks["host0"], 0)
        report = self.run_pooled("--emulate", "2x128M", "--compute", "0,1", "--lend", "none")
        peaks = {place["name"]: place["peak_bytes"] for place in report["places"]}
        self.assertEqual(peaks["card1"], 0)
        self.assertGreater(peaks["host0"], 0)

    def test_two_places_in_one_card(self):
        """A card's own share, and what it lends beside that: what leaves goes there first."""
        options = ("--emulate", "1x256M", "--hbm", "96M", "--lend", "0:40M")
        report = self.run_pooled(*options)
        places = {place["name"]: place for place in report["places"]}
        self.assertEqual(list(places), ["card0", "lent0", "host0"])
        self.assertEqual(places["lent0"]["capacity_bytes"], 40 * MIB)
        self.assertGreater(places["lent0"]["peak_bytes"], 30 * MIB)
        host_bytes = places["host0"]["peak_bytes"]
        self.assertGreater(host_bytes, 0)
        report = self.run_pooled(*options[:-1], "0:128M")
        places = {place["name"]: place for place in report["places"]}
        # What is on the move may find the near place full for a moment.
        self.assertLess(places["host0"]["peak_bytes"], host_bytes / 2)

    def test_losses_that_make_no_sense(self):
        done = run("--emulate", "double-cube-8x24@24M", VRAMPOOL_EMU_LOSE="lik:0-1@20ms")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("VRAMPOOL_EMU_LOSE=lik:0-1@20ms is not understood", done.stderr)

    def test_each_policy(self):
        for policy in ("plan", "lru", "demand", "inplace"):
            with self.subTest(policy):
                report = self.run_pooled("--policy", policy)
                moves = report["fetches"] + report["evictions"]
                if policy == "inplace":
                    self.assertEqual(moves, 0)
                    self.assertGreater(report["in_place"], 0)
                else:
                    self.assertGreater(moves, 0)

    def test_more_than_the_pool_has(self):
        done = run("--emulate", "2x24M", "--host", "0")
        self.assertEqual(done.returncode, 1)
        self.assertIn("out of memory", done.stderr)

    def test_verify_finds_nothing(self):
        done = run("--emulate", "8x24M", "--verify", steps=2)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.splitlines(), self.expected.splitlines()[:2])


if __name__ == "__main__":
    unittest.main(verbosity=2)
