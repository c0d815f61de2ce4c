#!/usr/bin/env python3
"""The wheel in a fresh environment, as people install it: built by .ci/wheel with the tools that an
earlier `make wheel` left in the build folder, so that no network is needed. Without them it is
skipped.

Usage: test_wheel.py ROOT BUILD"""
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT, BUILD = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))
TOOLS = os.path.join(BUILD, "wheel", "tools", "complete")
TRAIN = os.path.join(BUILD, "examples", "train")
OURS = ("VRAMPOOL", "PYTORCH_", "LD_PRELOAD", "PYTHONPATH", "LOCAL_", "PIP_", "MESON", "NINJA")


def environment(**more):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    return {**kept, **more}


def run(*command, **more):
    return subprocess.run(command, env=environment(**more), cwd="/", capture_output=True, text=True,
                          timeout=250, check=False)


@unittest.skipUnless(os.path.exists(TOOLS), "no tools to build it with; `make wheel` gets them")
class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.base = tempfile.mkdtemp(prefix="vrampool-test-")
        cls.addClassCleanup(shutil.rmtree, cls.base)
        dist = os.path.join(cls.base, "dist")
        subprocess.run([os.path.join(ROOT, ".ci", "wheel"), BUILD, dist], cwd=ROOT, check=True,
                       env=environment(PIP_NO_INDEX="1"), capture_output=True, timeout=400)
        cls.wheel, = glob.glob(os.path.join(dist, "*.whl"))
        venv = os.path.join(cls.base, "venv")
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        cls.bin = os.path.join(venv, "bin")
        subprocess.run([os.path.join(cls.bin, "pip"), "install", "-q", "--no-index", cls.wheel],
                       env=environment(), check=True)

    def installed(self, name, *words, **more):
        return run(os.path.join(self.bin, name), *words, **more)

    def test_its_name_tells_what_it_needs(self):
        name = os.path.basename(self.wheel)
        self.assertRegex(name, r"^vrampool-[\d.]+-py3-none-manylinux_2_\d+_x86_64\.whl$")

    def test_the_command_runs_a_program_too_large_for_its_card(self):
        """All parts are found from where pip put them; the same without the pool does not fit."""
        words = "run", "--emulate", "8x24M"
        done = self.installed("vrampool", *words, "--", TRAIN, "--steps", "1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"^step 1 loss ")
        done = self.installed("vrampool", *words, "--no-pool", "--", TRAIN, "--steps", "1")
        self.assertEqual(done.returncode, 1)

    def test_the_module_is_the_command(self):
        done = self.installed("python", "-m", "vrampool", "info", "--json", "--emulate", "2x24M")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(json.loads(done.stdout)["emulated"], "2x24M")
        done = self.installed("python", "-m", "vrampool", "info", "--json", "--emulate", "dgx1v")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        done = self.installed("python", "-m", "vrampool", "nonesuch")
        self.assertEqual(done.returncode, 2)

    def test_it_needs_nothing_that_the_machine_may_lack(self):
        native = glob.glob(os.path.join(self.base, "venv/lib/*/site-packages/vrampool/native"))[0]
        for part in "vrampool", "shim/libcuda.so.1", "src/libvrampool-emu.so":
            done = run("ldd", os.path.join(native, part))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertNotIn("jansson", done.stdout)

    def test_another_python_finds_the_package_under_the_command(self):
        """As with pipx: the environment of the program is not the one that vrampool is in."""
        program = "import vrampool; print(vrampool.__file__, vrampool.is_active())"
        done = self.installed("vrampool", "run", "--emulate", "1x24M", "--", sys.executable, "-c",
                              program)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(done.stdout.startswith(os.path.realpath(self.base)), done.stdout)
        self.assertTrue(done.stdout.endswith(" False\n"), done.stdout)
        self.assertNotEqual(run(sys.executable, "-c", program).returncode, 0)


if __name__ == "__main__":
    result = unittest.main(exit=False, verbosity=2).result
    sys.exit(0 if result.wasSuccessful() else 1)
