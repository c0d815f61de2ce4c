#!/usr/bin/env python3
"""The preloaded library in whole processes: what it leaves alone, how it finds the driver, what it
says when something is wrong.

Usage: test_shim_process.py SHIM FAKE_SHIM RECORDER OLD_DRIVER CLIENT

SHIM is the library itself; FAKE_SHIM the same over a pool that only records. RECORDER and
OLD_DRIVER stand in for the real driver. CLIENT is linked to libcuda.so.1; it can load it too."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

SHIM, FAKE_SHIM, RECORDER, OLD_DRIVER, CLIENT = sys.argv[1:6]


def run(command, preload=FAKE_SHIM, **environment):
    """Runs a command under the preload, in an environment without others' settings."""
    clean = {name: value for name, value in os.environ.items()
             if not name.startswith(("VRAMPOOL", "LD_"))}
    clean.update(LD_PRELOAD=preload, **environment)
    return subprocess.run(command, env=clean, capture_output=True, text=True, timeout=30)


def client(*steps, driver=RECORDER, name=None, **environment):
    if driver:
        environment["VRAMPOOL_DRIVER"] = driver
    return run([CLIENT, f"dlopen:{name}" if name else "dlopen", *steps], **environment)


class Bystanders(unittest.TestCase):
    """Compilers and shells inherit the preload."""

    def check_silent(self, shim):
        done = run(["sh", "-c", "cat /proc/self/maps /proc/self/status"], preload=shim,
                   VRAMPOOL_DRIVER=RECORDER, VRAMPOOL_HBM="nonsense", VRAMPOOL_REPORT="/dev/null")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn(shim, done.stdout)
        self.assertNotIn(RECORDER, done.stdout)
        self.assertRegex(done.stdout, r"Threads:\s+1\b")

    def test_notice_nothing(self):
        self.check_silent(SHIM)
        self.check_silent(FAKE_SHIM)

    def test_a_driver_is_loaded_at_the_first_call_alone(self):
        before = client("maps")
        after = client("version", "maps")
        self.assertNotIn(RECORDER, before.stdout)
        self.assertIn(RECORDER, after.stdout)

    def test_children_of_a_program_with_a_pool_notice_nothing(self):
        done = client("init", "context", "alloc", "maps", VRAMPOOL_LOG="quiet")
        self.assertEqual((done.returncode, done.stderr), (0, ""))


class Programs(unittest.TestCase):
    def test_that_load_the_driver_by_name_get_the_shim(self):
        done = client("init", "context", "alloc")
        self.assertEqual(done.stdout, "init 0\nalloc 0 pool\n", done.stderr)

    def test_that_are_linked_to_the_driver_get_the_shim(self):
        done = run([CLIENT, "init", "context", "alloc"], VRAMPOOL_DRIVER=RECORDER)
        self.assertEqual(done.stdout, "init 0\nalloc 0 pool\n", done.stderr)

    def test_that_load_the_driver_by_another_name_get_the_shim(self):
        for name in ("libcuda.so", "libcuda.so.999.9"):
            done = client("init", "context", "alloc", name=name)
            self.assertEqual(done.stdout, "init 0\nalloc 0 pool\n", done.stderr)

    def test_that_load_the_driver_by_its_path_get_the_shim(self):
        with tempfile.TemporaryDirectory() as folder:
            for file in ("libcuda.so", "libcuda.so.1", "libcuda.so.580.95.05"):
                path = os.path.join(folder, file)
                os.symlink(RECORDER, path)
                done = client("init", "context", "alloc", name=path)
                self.assertEqual(done.stdout, "init 0\nalloc 0 pool\n", done.stderr)

    def test_names_that_are_not_the_drivers_are_left_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            for file, status in (("libcuda.so.old", 0), ("libcudart.so", 0), ("libcuda.so.1", 4)):
                path = os.path.join(folder, file)
                if status == 0:
                    os.symlink(RECORDER, path)
                done = client("init", name=path)  # what is not there stays so
                self.assertEqual(done.returncode, status, file)
                self.assertEqual(done.stdout, "init 0\n" if status == 0 else "")
            path = os.path.join(folder, "libcuda.so")
            os.symlink(RECORDER, path)
            done = client("init", "context", "alloc", name=path, VRAMPOOL="0")
            self.assertEqual(done.stdout, "init 0\nalloc 0 driver\n", done.stderr)

    def test_find_their_own_libraries(self):
        for shim in (SHIM, FAKE_SHIM):
            done = run([CLIENT, "dlopen", "plugin"], preload=shim, VRAMPOOL_DRIVER=RECORDER)
            self.assertEqual(done.stdout, "plugin found\n", done.stderr)

    def test_that_have_the_runtime_linked_in_get_the_shim(self):
        done = client("init", "context", "runtime")
        self.assertEqual(done.stdout, "init 0\nruntime 0 pool\n", done.stderr)

    def test_may_make_their_first_call_from_many_threads(self):
        done = client("threads")
        self.assertEqual(done.stdout, "threads 16\n", done.stderr)

    def test_the_kill_switch_passes_everything_on(self):
        done = client("init", "context", "cards", "count", "alloc", VRAMPOOL="0",
                      VRAMPOOL_HBM="nonsense")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout, "init 0\ncount 0 8\nalloc 0 driver\n")

    def test_no_pool_passes_everything_on(self):
        done = client("init", "context", "cards", "count", "alloc", VRAMPOOL_NO_POOL="1")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout, "init 0\ncount 0 8\nalloc 0 driver\n")

    def test_see_the_cards_that_compute(self):
        for compute, count in (("0", 1), ("0-2", 3), ("all", 8)):
            done = client("init", "cards", "count", VRAMPOOL_COMPUTE=compute)
            self.assertEqual(done.stdout, f"init 0\ncount 0 {count}\n", done.stderr)

    def test_a_child_has_no_pool(self):
        with tempfile.TemporaryDirectory() as folder:
            report = os.path.join(folder, "report.json")
            done = client("init", "context", "alloc", "fork", VRAMPOOL_REPORT=report)
            self.assertEqual(done.stdout, "init 0\nalloc 0 pool\nchild 0 driver\nchild ended 0\n"
                                          "parent 0 pool\n", done.stderr)
            self.assertEqual(done.stderr.count("fake summary"), 1)

    def test_end_with_a_report_and_a_summary(self):
        with tempfile.TemporaryDirectory() as folder:
            report = os.path.join(folder, "report.json")
            done = client("init", "context", "alloc", VRAMPOOL_REPORT=report)
            self.assertEqual(done.stderr, "fake summary\n")
            with open(report, encoding="utf-8") as text:
                self.assertEqual(text.read(), "fake report\n")
            os.unlink(report)
            done = client("init", "context", "alloc", VRAMPOOL_REPORT=report, VRAMPOOL_LOG="quiet")
            self.assertEqual(done.stderr, "")
            self.assertTrue(os.path.exists(report))


    def test_a_context_released_at_exit_is_not_reported_twice(self):
        done = client("late", "init", "retain", "context", "alloc")
        self.assertEqual(done.stdout, "init 0\nretain 0\nalloc 0 pool\nrelease 0\n")
        self.assertEqual(done.stderr, "fake summary\n")

    def test_without_a_pool_there_is_no_report_and_a_word_about_it(self):
        with tempfile.TemporaryDirectory() as folder:
            report = os.path.join(folder, "report.json")
            done = client("init", "count", VRAMPOOL_REPORT=report)
            self.assertFalse(os.path.exists(report))
            self.assertIn("no report", done.stderr)
            self.assertEqual(client("version", VRAMPOOL_REPORT=report).stderr, "")


class Troubles(unittest.TestCase):
    def check_no_driver(self, done, *named):
        self.assertEqual(done.stdout, "init 100\nversion 0 0\nerror 0 CUDA_ERROR_NO_DEVICE\n"
                                      "count 100 -1\nfree 100\n")
        self.assertEqual(done.returncode, 0)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        for name in named:
            self.assertIn(name, done.stderr)

    steps = ["init", "version", "error", "count", "free"]

    def test_a_missing_driver_is_no_device(self):
        done = client(*self.steps, driver="/nonexistent/libcuda.so.1")
        self.check_no_driver(done, "VRAMPOOL_DRIVER", "/nonexistent/libcuda.so.1")

    def test_the_shim_never_takes_itself_nor_a_copy(self):
        self.check_no_driver(client(*self.steps, driver=FAKE_SHIM), FAKE_SHIM)
        with tempfile.TemporaryDirectory() as folder:
            copy = shutil.copy(SHIM, os.path.join(folder, "libcuda.so.1"))
            self.check_no_driver(client(*self.steps, driver=copy), copy)

    def test_a_file_that_does_not_load_is_no_device(self):
        program = os.path.abspath(CLIENT)  # the loader takes no programs
        self.check_no_driver(client(*self.steps, driver=program), "cannot load", program)

    def test_the_library_path_is_searched(self):
        with tempfile.TemporaryDirectory() as folder:
            os.symlink(RECORDER, os.path.join(folder, "libcuda.so.1"))
            path = os.path.dirname(FAKE_SHIM) + ":" + folder
            done = client("init", "maps", driver=None, LD_LIBRARY_PATH=path)
            self.assertTrue(done.stdout.startswith("init 0\n"), done.stdout + done.stderr)
            self.assertIn(RECORDER, done.stdout)

    def test_a_driver_too_old_passes_everything_on(self):
        done = client("init", "version", driver=OLD_DRIVER)
        self.assertEqual(done.stdout, "init 0\nversion 801 -1\n")
        self.assertIn("driver 550", done.stderr)
        self.assertIn("too old", done.stderr)

    def test_wrong_settings_end_the_process(self):
        for name, value in (("VRAMPOOL_HBM", "12Q"), ("VRAMPOOL_HOST", "-1"), ("VRAMPOOL", "yes"),
                            ("VRAMPOOL_LOG", "loud"), ("VRAMPOOL_VERIFY", "some"),
                            ("VRAMPOOL_NO_POOL", "2"), ("VRAMPOOL_CHUNK", "big"),
                            ("VRAMPOOL_CHUNK", "3M"),
                            ("VRAMPOOL_AHEAD", "0"), ("VRAMPOOL_RESERVE", "some"),
                            ("VRAMPOOL_COMPUTE", "1"), ("VRAMPOOL_COMPUTE", "0,2"),
                            ("VRAMPOOL_COMPUTE", "none"), ("VRAMPOOL_LEND", "x"),
                            ("VRAMPOOL_ALWAYS_MAPPED", "maybe"), ("VRAMPOOL_STRICT", "very")):
            done = client("init", **{name: value})
            self.assertEqual((done.returncode, done.stdout), (2, ""), f"{name}={value}")
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
            self.assertIn(f"{name}={value}", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
