#!/usr/bin/env python3
"""The command as people use it: mistakes, exit statuses, signals, what the program gets to see.

Usage: test_cli.py VRAMPOOL, the command in its build folder"""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

VRAMPOOL = os.path.abspath(sys.argv.pop(1))
BUILD = os.path.dirname(VRAMPOOL)
SHIM = os.path.join(BUILD, "shim", "libcuda.so.1")
EMULATOR = os.path.join(BUILD, "src", "libvrampool-emu.so")
OURS = ("VRAMPOOL", "PYTORCH_", "LD_PRELOAD", "PYTHONPATH", "LOCAL_")


def clean_environment(**more):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    return {**kept, **more}


def vrampool(*words, folder=None, **environment):
    """Runs the command to its end; output is text."""
    return subprocess.run([VRAMPOOL, *words], env=clean_environment(**environment), cwd=folder,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
                          check=False)


def seen_environment(*options, **environment):
    """What a program sees, as a dict."""
    done = vrampool("run", *options, "--", "env", "-0", **environment)
    assert done.returncode == 0, done.stderr
    return dict(line.split("=", 1) for line in done.stdout.split("\0") if line)


class Mistakes(unittest.TestCase):
    def refused(self, said, *words):
        with tempfile.TemporaryDirectory() as folder:
            mark = os.path.join(folder, "mark")
            done = vrampool("run", *words, "--", "touch", mark)
            self.assertEqual(done.returncode, 2, words)
            self.assertIn(said, done.stderr)
            self.assertEqual(done.stdout, "")
            self.assertFalse(os.path.exists(mark), "the program was run")

    def test_unknown_options_name_the_nearest(self):
        self.refused("unknown option --hbn; did you mean --hbm?", "--hbn", "24G")
        self.refused("did you mean --always-mapped?", "--always_mapped")
        self.refused("leave one of them out", "--strict", "--verify", "--", "true")
        self.refused("unknown option --something-else", "--something-else")

    def test_values_are_checked(self):
        self.refused("--hbm 24Q", "--hbm", "24Q")
        self.refused("--hbm 1K", "--hbm=1K")
        self.refused("--hbm needs a value", "--hbm")
        self.refused("--host -1", "--host", "-1")
        self.refused("more than 64T", "--host", "65T")
        self.refused("--compute 0-99", "--compute", "0-99")
        self.refused("--compute none", "--compute", "none")
        self.refused("must be the first ones", "--compute", "1")
        self.refused("a power of two from 2M to 128M", "--chunk", "12M")
        self.refused("a number from 1 to 4096", "--ahead", "0")
        self.refused("--reserve much", "--reserve", "much")
        self.refused("--lend ranks", "--lend", "ranks")
        self.refused("--verify blocks", "--verify=blocks")
        self.refused("quiet, error, warn, info or debug", "--log", "loud")
        self.refused("--no-pool takes no value", "--no-pool=1")
        self.refused("no machine `9y24M`", "--emulate", "9y24M")
        self.refused("double-cube-8x24, h200, hgx-h200-8", "--emulate", "double-cube@24M")
        self.refused("--hbm needs a value", "--hbm=")
        self.refused("1 to 16 cards", "--emulate", "99x24M")
        self.refused("cannot read /nonesuch.json", "--emulate", "/nonesuch.json")
        self.refused("--report /nonesuch/r.json", "--report", "/nonesuch/r.json")
        self.refused("that is a folder", "--record", "/tmp")
        for option in ("--record", "--timeline", "--report"):
            # /proc takes no files, root's neither.
            self.refused(f"{option} /proc/x.json: No such file", option, "/proc/x.json")
            self.refused("File name too long", option, "/tmp/" + 300 * "x")

    def test_contradictions_are_refused(self):
        self.refused("both compute", "--compute", "0,1", "--lend", "1-3")
        self.refused("both compute", "--lend", "0")
        self.refused("it has cards 0 to 1", "--emulate", "2x24M", "--lend", "2")
        self.refused("--report needs the pool", "--no-pool", "--report", "-")
        self.refused("--verify needs the pool", "--verify", "--no-pool")
        self.refused("--reserve 22.0 MiB: at most 21.3 MiB of a card's share",
                     "--hbm", "128M", "--reserve", "22M")
        self.refused("--reserve 5.0 MiB: at most 4.0 MiB of a card's share",
                     "--emulate", "8x24M", "--reserve", "5M")
        self.refused("--timeline needs the pool", "--no-pool", "--timeline", "t.json")

    def test_one_file_is_not_written_by_two(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "x")
            self.refused(f"--record and --report both write {path}; give each a file of its own",
                         "--record", path, "--report", path)
            self.refused("--timeline and --report both write",
                         "--report", path, "--timeline", os.path.join(folder, ".", "x"))
            os.symlink(path, os.path.join(folder, "y"))
            with open(path, "w", encoding="utf-8"):
                pass
            self.refused("--record and --timeline both write",
                         "--record", os.path.join(folder, "y"), "--timeline", path)
            done = vrampool("run", "--record", "/dev/null", "--report", "/dev/null", "--", "true")
            self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_a_bad_machine_file_is_told_by_line_and_field(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "m.json")
            with open(path, "w", encoding="utf-8") as file:
                file.write('{"machine": 1, "name": "m", "host": "1G",\n "cards": [\n'
                           '  {"hbm": "24Q", "hbm_gbps": 900}],\n "paths": []}\n')
            self.refused(f"{path}:3: cards/0/hbm: must be a size", "--emulate", path)

    def test_commands_and_programs_must_be_given(self):
        self.assertEqual(vrampool().returncode, 2)
        self.assertEqual(vrampool("run").returncode, 2)
        self.assertEqual(vrampool("run", "--hbm", "1G", "--").returncode, 2)
        done = vrampool("rnu", "--", "true")
        self.assertEqual(done.returncode, 2)
        self.assertIn("did you mean `run`?", done.stderr)
        self.assertEqual(vrampool("info", "more").returncode, 2)

    def test_help_and_version_are_on_stdout(self):
        for words in (["--help"], ["run", "--help"], ["info", "--help"], ["--version"]):
            done = vrampool(*words)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertTrue(done.stdout)
        self.assertIn("Examples:", vrampool("run", "--help").stdout)


class Output(unittest.TestCase):
    def test_what_cannot_be_printed_is_told(self):
        trace = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "unit",
                             "finder_small.trace")
        for words in (["--help"], ["--version"], ["run", "--help"], ["info", "--json"],
                      ["topo", "--emulate", "2x24M"], ["sim", trace], ["sim", trace, "--json"],
                      ["tune", trace, "--json"]):
            with open("/dev/full", "w", encoding="utf-8") as full:
                done = subprocess.run([VRAMPOOL, *words], env=clean_environment(), stdout=full,
                                      stderr=subprocess.PIPE, text=True, timeout=60, check=False)
            self.assertEqual(done.returncode, 1, words)
            self.assertIn("could not be written: No space left on device", done.stderr)


    def test_a_picture_does_not_overwrite_what_is_read(self):
        root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
        with tempfile.TemporaryDirectory() as folder:
            trace = shutil.copy(os.path.join(root, "tests", "unit", "finder_small.trace"), folder)
            machine = shutil.copy(os.path.join(root, "machines", "h200.json"), folder)
            for words, path in ((["sim", trace], trace),
                                (["sim", trace, "--machine", machine], machine),
                                (["topo", "--emulate", machine], machine),
                                (["topo", "--nccl", machine], machine),
                                (["bench", "--emulate", machine], machine)):
                with open(path, "rb") as file:
                    before = file.read()
                done = vrampool(*words, "--svg", path)
                self.assertEqual(done.returncode, 2, words)
                self.assertIn("which is read; name another file", done.stderr)
                with open(path, "rb") as file:
                    self.assertEqual(file.read(), before)

    def test_a_file_may_have_any_name(self):
        trace = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "unit",
                             "finder_small.trace")
        with tempfile.TemporaryDirectory() as folder:
            name = os.path.join(os.fsencode(folder), b"a\xff.trace")
            shutil.copyfile(trace, name)
            for command in ("sim", "tune"):
                done = vrampool(command, "--json", os.fsdecode(name))
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(json.loads(done.stdout)["trace"],
                                 os.path.join(folder, "a?.trace"))


class Programs(unittest.TestCase):
    def test_a_missing_program_is_127_an_unusable_one_126(self):
        done = vrampool("run", "--", "nonesuch-program")
        self.assertEqual(done.returncode, 127)
        self.assertIn("cannot run nonesuch-program: No such file or directory", done.stderr)
        done = vrampool("run", "--log", "quiet", "--", "/etc/passwd")
        self.assertEqual(done.returncode, 126)
        self.assertIn("/etc/passwd: Permission denied", done.stderr)

    def test_status_and_streams_are_the_programs(self):
        done = vrampool("run", "--", "sh", "-c", "echo out; echo err >&2; exit 37")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (37, "out\n", "err\n"))

    def test_options_of_the_program_are_left_alone(self):
        done = vrampool("run", "--hbm", "1G", "echo", "--hbm", "x", "--", "-h")
        self.assertEqual(done.stdout, "--hbm x -- -h\n")

    def test_signals_reach_the_program_as_it_is_the_same_process(self):
        done = vrampool("run", "--", "sh", "-c", "kill -TERM $$")
        self.assertEqual(done.returncode, -signal.SIGTERM)
        program = subprocess.Popen([VRAMPOOL, "run", "--", "sh", "-c", "echo $$; exec cat"],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                   env=clean_environment())
        with program:
            self.assertEqual(int(program.stdout.readline()), program.pid)
            program.send_signal(signal.SIGINT)
            self.assertEqual(program.wait(timeout=30), -signal.SIGINT)


class Environment(unittest.TestCase):
    def test_options_are_handed_over(self):
        seen = seen_environment("--hbm", "1.5G", "--host=0", "--compute", "0,1", "--lend", "none",
                                "--verify=params", "--always-mapped", "--log", "error")
        self.assertEqual(seen["VRAMPOOL_HBM"], str(3 << 29))
        self.assertEqual(seen["VRAMPOOL_HOST"], "0")
        self.assertEqual(seen["VRAMPOOL_COMPUTE"], "0,1")
        self.assertEqual(seen["VRAMPOOL_LEND"], "none")
        self.assertEqual(seen["VRAMPOOL_VERIFY"], "params")
        self.assertEqual(seen["VRAMPOOL_ALWAYS_MAPPED"], "1")
        self.assertEqual(seen["VRAMPOOL_LOG"], "error")
        self.assertNotIn("VRAMPOOL_EMULATE", seen)
        self.assertNotIn("VRAMPOOL_NO_POOL", seen)
        self.assertNotIn("VRAMPOOL_STRICT", seen)
        seen = seen_environment("--strict", "--chunk", "16M", "--ahead", "32", "--reserve=96M")
        self.assertEqual(seen["VRAMPOOL_CHUNK"], str(16 << 20))
        self.assertEqual(seen["VRAMPOOL_STRICT"], "1")
        self.assertEqual(seen["VRAMPOOL_AHEAD"], "32")
        self.assertEqual(seen["VRAMPOOL_RESERVE"], str(96 << 20))

    def test_a_launcher_of_ranks_sees_all_cards(self):
        with tempfile.TemporaryDirectory() as folder:
            os.symlink(shutil.which("env"), os.path.join(folder, "torchrun"))
            launcher = os.path.join(folder, "torchrun")
            done = vrampool("run", "--", launcher)
            self.assertIn("VRAMPOOL_COMPUTE=ranks\n", done.stdout)
            done = vrampool("run", "--compute", "0-1", "--", launcher)
            self.assertIn("VRAMPOOL_COMPUTE=0-1\n", done.stdout)
        self.assertEqual(seen_environment("--compute", "ranks")["VRAMPOOL_COMPUTE"], "ranks")
        self.assertNotIn("VRAMPOOL_COMPUTE", seen_environment())

    def test_ranks_divide_the_emulated_host(self):
        rank = {"LOCAL_RANK": "3", "LOCAL_WORLD_SIZE": "4"}
        seen = seen_environment("--emulate", "4x24M", "--lend", "0", **rank)
        self.assertEqual(seen["VRAMPOOL_HOST"], str(24 << 20))
        seen = seen_environment("--emulate", "4x24M", "--host", "40M", **rank)
        self.assertEqual(seen["VRAMPOOL_HOST"], str(40 << 20))

    def test_options_win_over_the_environment(self):
        seen = seen_environment("--hbm", "1G", VRAMPOOL_HBM="2G", VRAMPOOL_HOST="3G")
        self.assertEqual((seen["VRAMPOOL_HBM"], seen["VRAMPOOL_HOST"]), (str(1 << 30), "3G"))

    def test_paths_become_absolute(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = os.path.realpath(folder)
            done = vrampool("run", "--report", "r.json", "--record", "./a.trace", "--", "env",
                            folder=folder)
            self.assertIn(f"VRAMPOOL_REPORT={folder}/r.json\n", done.stdout)
            self.assertIn(f"VRAMPOOL_RECORD={folder}/./a.trace\n", done.stdout)
        self.assertEqual(seen_environment("--report", "-")["VRAMPOOL_REPORT"], "-")

    def test_the_library_is_preloaded_behind_others(self):
        self.assertEqual(seen_environment()["LD_PRELOAD"], os.path.realpath(SHIM))
        other = os.path.realpath(EMULATOR)  # any library will do
        seen = seen_environment(LD_PRELOAD=other)
        self.assertEqual(seen["LD_PRELOAD"], other + ":" + os.path.realpath(SHIM))
        twice = seen_environment(LD_PRELOAD=seen["LD_PRELOAD"])
        self.assertEqual(twice["LD_PRELOAD"], seen["LD_PRELOAD"])

    def test_pytorch_gets_what_it_needs(self):
        seen = seen_environment()
        self.assertEqual(seen["PYTORCH_ALLOC_CONF"], "max_split_size_mb:21")
        self.assertEqual(seen["PYTORCH_CUDA_ALLOC_CONF"], "max_split_size_mb:21")
        self.assertTrue(os.path.exists(os.path.join(seen["PYTHONPATH"], "sitecustomize.py")))
        seen = seen_environment(PYTORCH_CUDA_ALLOC_CONF="backend:native", PYTHONPATH="/mine")
        self.assertEqual(seen["PYTORCH_CUDA_ALLOC_CONF"], "backend:native,max_split_size_mb:21")
        self.assertNotIn("PYTORCH_ALLOC_CONF", seen)
        self.assertTrue(seen["PYTHONPATH"].endswith(":/mine"))
        seen = seen_environment(PYTORCH_ALLOC_CONF="max_split_size_mb:64")
        self.assertEqual(seen["PYTORCH_ALLOC_CONF"], "max_split_size_mb:64")

    def test_jax_does_not_take_the_pool_in_one_piece(self):
        name = "XLA_PYTHON_CLIENT_PREALLOCATE"
        self.assertEqual(seen_environment()[name], "false")
        self.assertEqual(seen_environment(**{name: "true"})[name], "true")

    def test_an_emulated_machine_comes_with_its_driver_and_host(self):
        seen = seen_environment("--emulate", "8x24M")
        self.assertEqual(seen["VRAMPOOL_DRIVER"], os.path.realpath(EMULATOR))
        self.assertIn("name=8x24M cards=8 ", seen["VRAMPOOL_EMULATE"])
        self.assertEqual(seen["VRAMPOOL_HOST"], str(96 << 20))
        seen = seen_environment("--emulate", "8x24M", "--host", "200M")
        self.assertEqual(seen["VRAMPOOL_HOST"], str(200 << 20))
        self.assertIn(f" host={200 << 20} ", seen["VRAMPOOL_EMULATE"])

    def test_without_the_pool_a_real_program_is_left_alone(self):
        seen = seen_environment("--no-pool")
        self.assertNotIn("LD_PRELOAD", seen)
        self.assertNotIn("PYTHONPATH", seen)
        self.assertNotIn("PYTORCH_ALLOC_CONF", seen)
        self.assertNotIn("XLA_PYTHON_CLIENT_PREALLOCATE", seen)
        self.assertEqual(seen["VRAMPOOL"], "0")
        seen = seen_environment("--no-pool", "--emulate", "1x24M")
        self.assertEqual(seen["LD_PRELOAD"], os.path.realpath(SHIM))
        self.assertEqual(seen["VRAMPOOL_NO_POOL"], "1")

    def test_too_much_host_memory_is_a_warning(self):
        done = vrampool("run", "--host", "60T", "--", "true")
        self.assertEqual(done.returncode, 0)
        self.assertIn("--host 60.0 TiB is more than", done.stderr)
        done = vrampool("run", "--host", "60T", "--log", "quiet", "--", "true")
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_a_path_that_cannot_be_preloaded_is_told(self):
        with tempfile.TemporaryDirectory() as folder:
            build = os.path.join(folder, "two words")
            for file in (VRAMPOOL, SHIM, EMULATOR):
                copy = os.path.join(build, os.path.relpath(file, BUILD))
                os.makedirs(os.path.dirname(copy), exist_ok=True)
                shutil.copy(file, copy)
            done = subprocess.run([os.path.join(build, "vrampool"), "run", "--", "true"],
                                  env=clean_environment(), capture_output=True, text=True,
                                  check=False)
            self.assertEqual(done.returncode, 126)
            self.assertIn("a blank or a colon", done.stderr)


class Info(unittest.TestCase):
    def test_without_a_driver_the_host_is_still_told(self):
        done = vrampool("info", "--json", VRAMPOOL_DRIVER="/nonesuch/libcuda.so.1")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        info = json.loads(done.stdout)
        self.assertIsNone(info["driver"])
        self.assertEqual([place["name"] for place in info["places"]], ["host0"])
        self.assertGreater(info["places"][0]["total_bytes"], 0)
        self.assertEqual(info["places"][0]["poolable_bytes"], 0)
        self.assertIn("no driver was found: VRAMPOOL_DRIVER names /nonesuch/libcuda.so.1",
                      info["problems"][0]["what"])
        text = vrampool("info", VRAMPOOL_DRIVER="/nonesuch/libcuda.so.1").stdout
        self.assertIn("driver   none found", text)
        self.assertIn("what helps:", text)

    def test_a_library_that_is_no_driver_is_told(self):
        done = vrampool("info", "--json", VRAMPOOL_DRIVER=self.some_library())
        self.assertEqual(done.returncode, 0)
        info = json.loads(done.stdout)
        self.assertFalse(info["driver"]["works"])
        self.assertIn("cannot be used", info["problems"][0]["what"])

    @staticmethod
    def some_library():
        with open("/proc/self/maps", encoding="utf-8") as maps:
            return next(line.split()[-1] for line in maps if "/libc.so" in line)

    def test_an_emulated_machine_is_shown(self):
        done = vrampool("info", "--json", "--emulate", "8x24M")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        info = json.loads(done.stdout)
        self.assertEqual(info["emulated"], "8x24M")
        self.assertTrue(info["driver"]["works"])
        self.assertEqual(info["problems"], [])
        places = info["places"]
        self.assertEqual([place["name"] for place in places],
                         [f"card{card}" for card in range(8)] + ["host0"])
        for place in places[:8]:
            self.assertEqual(place["total_bytes"], 24 << 20)
            self.assertTrue(place["usable"] and place["vmm"])
            self.assertEqual(len(place["peers"]), 7)
            self.assertEqual(place["peers_in_place"], place["peers"])
        self.assertEqual(places[8]["poolable_bytes"], 96 << 20)
        self.assertTrue(places[8]["usable"])
        text = vrampool("info", "--emulate", "8x24M").stdout
        self.assertIn("machine  8x24M (emulated)", text)
        self.assertIn("card7", text)

    def test_what_peers_are_good_for_is_said(self):
        for machine, peers, in_place, text in (
                ("rtx4090-8@24M", 0, 0, "no peer access"),
                ("rtx4090-8-p2p@24M", 7, 0, "peer access without native atomics"),
                ("double-cube-8x24@24M", 7, 7, "peer access")):
            with self.subTest(machine):
                done = vrampool("info", "--json", "--emulate", machine)
                card = json.loads(done.stdout)["places"][0]
                self.assertEqual(len(card["peers"]), peers)
                self.assertEqual(len(card["peers_in_place"]), in_place)
                self.assertIn(text, vrampool("info", "--emulate", machine).stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
