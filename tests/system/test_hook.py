#!/usr/bin/env python3
"""The PyTorch side, against a stand-in for torch and one for the preloaded library.

The stand-in for the pool writes each note that it gets to a file; for torch see standin.py.

Usage: test_hook.py HOOK_FOLDER"""
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest

from standin import HAS_COMPILERS, make_torch, write

HOOK = os.path.abspath(sys.argv.pop(1))

POOL = r"""
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
void *vp_default(void) { return getenv("STANDIN_NO_POOL") ? NULL : (void *)1; }
uint32_t vp_visible_cards(void) { return 2; }
static void note(const char *what, uint64_t address, uint64_t bytes)
{
    FILE *file = fopen(getenv("STANDIN_NOTES"), "a");
    fprintf(file, "%s %llu %llu\n", what, (unsigned long long)address, (unsigned long long)bytes);
    fclose(file);
}
void vp_note_alive(void *pool, uint64_t address, uint64_t bytes) { note("alive", address, bytes); }
void vp_note_dead(void *pool, uint64_t address, uint64_t bytes) { note("dead", address, bytes); }
"""

EVENTS = """
import torch
cuda = torch.cuda
cuda.init()
cuda.happen(cuda.SEGMENT_ALLOC, 4096, 2097152)
cuda.happen(cuda.ALLOC, 4096, 1000)
cuda.happen(cuda.FREE_REQUESTED, 4096, 1000)
cuda.happen(cuda.FREE_COMPLETED, 4096, 1000)
cuda.happen(cuda.SEGMENT_FREE, 4096, 2097152)
"""

class Case(unittest.TestCase):
    """A fresh cache and notes file for each test; the stand-ins are made once."""

    @classmethod
    def setUpClass(cls):
        cls.base = tempfile.mkdtemp(prefix="vrampool-test-")
        cls.addClassCleanup(shutil.rmtree, cls.base)
        cls.preload = os.path.join(cls.base, "shim", "libcuda.so.1")
        write(os.path.join(cls.base, "shim", "pool.c"), POOL)
        if HAS_COMPILERS:
            subprocess.run(["gcc", "-shared", "-fPIC", "-w", "-o", cls.preload,
                            os.path.join(cls.base, "shim", "pool.c")], check=True)
            for name, mempool in (("new", True), ("old", False)):
                make_torch(os.path.join(cls.base, name), mempool)

    def setUp(self):
        self.folder = tempfile.mkdtemp(dir=self.base)
        self.cache = os.path.join(self.folder, "cache")
        self.notes_path = os.path.join(self.folder, "notes")
        self.compiled_path = os.path.join(self.folder, "compiled")
        self.compiler = os.path.join(self.folder, "c++")
        write(self.compiler, f'#!/bin/sh\necho x >>{self.compiled_path}\nexec g++ "$@"\n', True)

    def environment(self, **changes):
        env = {"PATH": os.environ["PATH"], "HOME": self.folder, "LD_PRELOAD": self.preload,
               "PYTHONPATH": HOOK + ":" + os.path.join(self.base, "new"), "CXX": self.compiler,
               "XDG_CACHE_HOME": self.cache, "STANDIN_NOTES": self.notes_path}
        env.update(changes)
        return {name: value for name, value in env.items() if value is not None}

    def start(self, script, **changes):
        return subprocess.Popen([sys.executable, "-c", script], env=self.environment(**changes),
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def run_python(self, script, **changes):
        """Runs a script to its end, which must be a good one; returns its stdout and stderr."""
        process = self.start(script, **changes)
        out, err = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0, err)
        return out.strip(), err

    def lines(self, path):
        if not os.path.exists(path):
            return []
        with open(path, encoding="utf-8") as file:
            return file.read().splitlines()


class WithoutCompiler(Case):
    """What needs no stand-ins."""

    FINDERS = "import sys; print(sum(type(f).__name__ == 'TorchFinder' for f in sys.meta_path))"

    def run_plain(self, script, **changes):
        return self.run_python(script, **{"LD_PRELOAD": None, **changes})

    def test_no_preload_no_hook(self):
        self.assertEqual(self.run_plain(self.FINDERS), ("0", ""))

    def test_hidden_sitecustomize_runs(self):
        other = os.path.join(self.folder, "other")
        write(os.path.join(other, "sitecustomize.py"), "import os; os.environ['OTHER_RAN'] = 'yes'")
        out, err = self.run_plain("import os; print(os.environ.get('OTHER_RAN'))",
                                  PYTHONPATH=HOOK + ":" + other)
        self.assertEqual((out, err), ("yes", ""))

    def test_two_hooks_do_not_loop(self):
        copy = os.path.join(self.folder, "copy")
        shutil.copytree(HOOK, copy, ignore=shutil.ignore_patterns("__pycache__"))
        self.assertEqual(self.run_plain("print(1)", PYTHONPATH=f"{HOOK}:{copy}"), ("1", ""))


@unittest.skipUnless(HAS_COMPILERS, "needs gcc and g++")
class WithTorch(Case):
    def test_silent_without_torch(self):
        self.assertEqual(self.run_python(WithoutCompiler.FINDERS), ("1", ""))

    def test_kill_switch(self):
        for off in ({"VRAMPOOL": "0"}, {"VRAMPOOL_NO_POOL": "1"}):
            self.assertEqual(self.run_python(WithoutCompiler.FINDERS, **off), ("0", ""))

    def test_events_reach_the_pool(self):
        _, err = self.run_python(EVENTS)
        self.assertEqual(err, "")
        self.assertEqual(self.lines(self.notes_path),
                         ["dead 4096 2097152", "alive 4096 1024", "dead 4096 1024"])

    def test_events_of_an_old_torch(self):
        self.run_python(EVENTS, PYTHONPATH=HOOK + ":" + os.path.join(self.base, "old"))
        self.assertEqual(len(self.lines(self.notes_path)), 3)

    def test_private_memory_stays_alive(self):
        self.run_python("import torch\ncuda = torch.cuda\ncuda.init()\n"
                        "cuda.happen(cuda.SEGMENT_ALLOC, 4096, 2097152, 7)\n"
                        "cuda.happen(cuda.ALLOC, 4096, 512, 7)\n"
                        "cuda.happen(cuda.FREE_COMPLETED, 4096, 512, 7)\n")
        self.assertEqual(self.lines(self.notes_path), ["alive 4096 512"])

    def test_nothing_before_cuda_is_initialised(self):
        out, err = self.run_python("import torch; print(torch.__version__)")
        self.assertEqual((out, err), ("2.99.0", ""))
        self.assertEqual(self.lines(self.compiled_path), [])
        self.assertFalse(os.path.exists(self.cache))

    def test_looking_for_torch_changes_nothing(self):
        out, _ = self.run_python("from importlib.util import find_spec\n"
                                 "for _ in range(3): find_spec('torch')\n" + EVENTS +
                                 "print(len(cuda._queued))")
        self.assertEqual(len(self.lines(self.notes_path)), 3)
        self.assertEqual(out, "1")

    def test_cards_that_only_lend_are_not_counted(self):
        count = "import torch; print(torch.cuda.device_count())"
        for there, seen in (8, 2), (1, 1), (-1, -1):  # -1: torch then asks CUDA
            out, err = self.run_python(count, STANDIN_CARDS=str(there))
            self.assertEqual((out, err), (str(seen), ""))
        out, _ = self.run_python(count, STANDIN_CARDS="8", VRAMPOOL="0")
        self.assertEqual(out, "8")

    def test_compiled_once(self):
        self.run_python(EVENTS)
        self.run_python(EVENTS)
        self.assertEqual(self.lines(self.compiled_path), ["x"])
        self.assertEqual(len(self.lines(self.notes_path)), 6)

    def test_cache_is_private(self):
        os.makedirs(os.path.join(self.cache, "vrampool"), mode=0o755)
        self.run_python(EVENTS)
        folder = os.path.join(self.cache, "vrampool")
        self.assertEqual(stat.S_IMODE(os.stat(folder).st_mode), 0o700)

    def test_no_cache_still_listens(self):
        write(os.path.join(self.folder, "file"), "not a folder")
        self.run_python(EVENTS, XDG_CACHE_HOME=os.path.join(self.folder, "file"))
        self.assertEqual(len(self.lines(self.notes_path)), 3)

    def test_two_processes_at_once(self):
        processes = [self.start(EVENTS) for _ in range(2)]
        for process in processes:
            _, err = process.communicate(timeout=120)
            self.assertEqual((process.returncode, err), (0, ""))
        self.assertEqual(len(self.lines(self.notes_path)), 6)
        left = os.listdir(os.path.join(self.cache, "vrampool"))
        self.assertEqual([name.endswith(".so") for name in left], [True], left)

    def check_fallback(self, reason, **changes):
        out, err = self.run_python(
            EVENTS + "import os; print(os.environ['PYTORCH_NO_CUDA_MEMORY_CACHING'])", **changes)
        self.assertEqual(out, "1")
        self.assertEqual(self.lines(self.notes_path), [])
        self.assertEqual(len(err.splitlines()), 1, err)
        self.assertTrue(err.startswith("vrampool: warn: PyTorch: "), err)
        self.assertIn(reason, err)

    def test_fallback_without_compiler(self):
        self.check_fallback("installing g++ helps", CXX="/nonexistent/g++")

    def test_fallback_when_it_does_not_compile(self):
        write(self.compiler, "#!/bin/sh\necho 'x.cpp:1: error: strange' >&2\nexit 1\n", True)
        self.check_fallback("error: strange")

    def test_fallback_on_request(self):
        self.check_fallback("VRAMPOOL_LISTENER is 0", VRAMPOOL_LISTENER="0")

    def test_fallback_can_be_quiet(self):
        _, err = self.run_python(EVENTS, VRAMPOOL_LISTENER="0", VRAMPOOL_LOG="quiet")
        self.assertEqual(err, "")

    def test_users_own_choice_of_no_caching_stays(self):
        _, err = self.run_python(EVENTS, PYTORCH_NO_CUDA_MEMORY_CACHING="1")
        self.assertEqual((err, self.lines(self.compiled_path)), ("", []))

    def test_no_preloaded_library_in_the_process(self):
        """As where the program itself has loaded another libcuda first."""
        other = os.path.join(self.folder, "libcuda.so.1")
        write(other[:-5] + ".c", "int cuInit(unsigned flags) { return 0; }")
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", other, other[:-5] + ".c"], check=True)
        out, err = self.run_python(
            EVENTS + "import os; print('PYTORCH_NO_CUDA_MEMORY_CACHING' in os.environ)",
            LD_PRELOAD=other)
        self.assertEqual((out, err, self.lines(self.compiled_path)), ("False", "", []))

    def test_no_pool_behind_the_library(self):
        out, err = self.run_python(
            EVENTS + "import os; print('PYTORCH_NO_CUDA_MEMORY_CACHING' in os.environ)",
            STANDIN_NO_POOL="1")
        self.assertEqual((out, err), ("False", ""))
        self.assertEqual(self.lines(self.notes_path), [])

    def test_settings(self):
        split, off = "max_split_size_mb:21", "expandable_segments:False"
        for old, new, expected in (
                (None, None, split),
                ("max_split_size_mb:64", None, "None"),  # torch has read it itself
                ("backend:native", None, "backend:native," + split),
                ("expandable_segments:True", None, f"expandable_segments:True,{split},{off}"),
                ("expandable_segments:True", split, f"{split},expandable_segments:True,{off}")):
            out, err = self.run_python("import torch; torch.cuda.init(); print(torch._C.settings)",
                                       PYTORCH_CUDA_ALLOC_CONF=old, PYTORCH_ALLOC_CONF=new)
            self.assertEqual((out, err), (expected, ""))


if __name__ == "__main__":
    result = unittest.main(exit=False, verbosity=2).result
    if result.wasSuccessful() and result.skipped:
        print("no g++, so the listener was not compiled")
        sys.exit(77)
    sys.exit(0 if result.wasSuccessful() else 1)
