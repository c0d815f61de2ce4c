#!/usr/bin/env python3
"""Small reproductions of what others reported of preloads and offload, where no other test covers
it; docs/reports.md has the list.

Usage: test_reports.py BUILD"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

BUILD = os.path.abspath(sys.argv.pop(1))
PROGRAMS = os.path.join(BUILD, "tests", "programs")
OPEN = "import ctypes; print(ctypes.CDLL({!r}).{}())"


def run(options, *program):
    """The finished program under the pool, and its report (None: it had no pool)."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "report.json")
        command = [os.path.join(BUILD, "vrampool"), "run", "--emulate", "1x256M", *options,
                   "--report", path, "--", *program]
        # Meson names the build folder there, in which everything would be found.
        environment = {name: value for name, value in os.environ.items()
                       if name != "LD_LIBRARY_PATH"}
        done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False,
                              env=environment)
        if not os.path.exists(path):
            return done, None
        with open(path, encoding="utf-8") as file:
            return done, json.load(file)


class Reports(unittest.TestCase):
    def test_libraries_still_find_their_own_by_runpath(self):
        """A preload that wraps dlopen is the caller in the loader's eyes: cuDNN's parts, found by
        its $ORIGIN, are then missing."""
        outer = os.path.join(PROGRAMS, "librunpath_outer.so")
        done, _ = run([], sys.executable, "-c", OPEN.format(outer, "runpath_open"))
        self.assertEqual(done.stdout, "42\n", done.stderr)

    def test_and_only_by_runpath(self):
        """So the test above could fail: the inner library is found in no other way."""
        done, _ = run([], sys.executable, "-c", OPEN.format("librunpath_inner.so",
                                                            "runpath_answer"))
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("librunpath_inner.so", done.stderr)

    def test_the_host_is_not_charged_by_powers_of_two(self):
        """With pinned memory rounded up to powers of two, 72 MiB beyond the card take 128."""
        full = os.path.join(PROGRAMS, "full")
        done, report = run(["--hbm", "192M", "--host", "104M"], full, "pieces", "264M", "1")
        self.assertEqual(done.returncode, 0, done.stderr)
        host = report["places"][1]
        self.assertGreaterEqual(host["peak_bytes"], 72 << 20)
        self.assertLessEqual(host["peak_bytes"], 104 << 20)

    def spike(self, library):
        """The report of a program that takes 138 MiB through a library, with 64 MiB of HBM."""
        full = os.path.join(PROGRAMS, "full")
        done, report = run(["--hbm", "64M", "--host", "256M"], full, "spikes", "128M", "4",
                           os.path.join(PROGRAMS, library))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["wrong"], 0)
        return report

    def test_what_xla_maps_itself_is_the_pools(self):
        report = self.spike("libxla_cuda_plugin_alike.so")
        self.assertGreater(report["peak_bytes"], 128 << 20)
        self.assertGreater(report["moved_bytes"], 64 << 20)
        self.assertLess(report["live_bytes"], 1 << 20)  # all was freed

    def test_what_others_map_themselves_is_their_own(self):
        report = self.spike("libanother_plugin.so")
        self.assertLess(report["peak_bytes"], 4 << 20)
        self.assertEqual(report["moved_bytes"], 0)

    def test_each_call_of_xlas_is_answered_as_the_driver_would(self):
        """And with mistakes; the number is that of the first wrong answer in vmm_plugin.c."""
        plugin = os.path.join(PROGRAMS, "libxla_cuda_plugin_alike.so")
        done, report = run(["--hbm", "64M"], sys.executable, "-c",
                           OPEN.format(plugin, "vmm_trial"))
        self.assertEqual(done.stdout, "0\n", done.stderr)
        self.assertIn("cuMemMap: to map it elsewhere", done.stderr)
        self.assertEqual(report["live_bytes"], 0)

    def test_what_xla_has_freed_stays_the_pools(self):
        plugin = os.path.join(PROGRAMS, "libxla_cuda_plugin_alike.so")
        done, _ = run(["--hbm", "64M"], sys.executable, "-c", OPEN.format(plugin, "vmm_stale"))
        self.assertEqual(done.stdout, "0\n", done.stderr)

    def test_a_refusal_says_how_much_is_where(self):
        full = os.path.join(PROGRAMS, "full")
        done, _ = run(["--hbm", "128M", "--host", "64M"], full, "pieces", "256M", "1")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"out of memory: .* asked for, .* promised \(card0 .* of "
                                      r"128.0 MiB, host0 .* of 64.0 MiB\); raise --hbm or --host")
        self.assertNotIn("--chunk", done.stderr)
        done, _ = run(["--hbm", "128M", "--host", "64M", "--chunk", "32M"], full, "pieces", "256M",
                      "1")
        self.assertIn("make --chunk smaller", done.stderr)

    def test_an_option_that_cannot_be_ends_the_program_before_it_has_memory(self):
        """What only the library can tell, or what is set by hand. Nothing is changed."""
        full = os.path.join(PROGRAMS, "full")
        done, _ = run(["--hbm", "128M", "--reserve", "21M"], full, "pieces", "64M", "1")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("--reserve 21M is too much: of card 0 at most 20M", done.stderr)
        self.assertIn("ask for less, or leave it out", done.stderr)
        with tempfile.TemporaryDirectory() as folder:
            kept = os.path.join(folder, "kept")
            with open(kept, "w", encoding="utf-8") as file:
                file.write("before")
            for name in ("VRAMPOOL_RECORD", "VRAMPOOL_TIMELINE", "VRAMPOOL_REPORT"):
                with self.subTest(name):
                    others = {"VRAMPOOL_RECORD": kept, "VRAMPOOL_TIMELINE": kept,
                              name: "/proc/nonesuch"}
                    done = subprocess.run([os.path.join(BUILD, "vrampool"), "run", "--emulate",
                                           "1x128M", "--", full, "pieces", "64M", "1"],
                                          capture_output=True, text=True, timeout=60, check=False,
                                          env={**os.environ, **others})
                    self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
                    self.assertIn(f"{name}=/proc/nonesuch cannot be written: No such file",
                                  done.stderr)
                    self.assertIn("name another file, or leave it out", done.stderr)
                    with open(kept, encoding="utf-8") as file:
                        self.assertEqual(file.read(), "before")
            self.assertEqual(os.listdir(folder), ["kept"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
