#!/usr/bin/env python3
"""Runs what the foundation promises on a real GPU, the most important first.

Usage: foundation.py [--build FOLDER] [--budget SECONDS] [CHECK...]

  i  what `vrampool info` finds can be pooled
  b  a job larger than the memory it may use runs, with native's results to the last bit
  a  unlimited, it takes at most 1.02 of native's time
  d  the conformance suite passes on the real driver
  e  verify mode catches a planted overrun, and finds nothing in the job
  f  what a launch and an allocation cost
  g  without the listener PyTorch still runs, with the same results
  c  a job larger than the card runs

Each result is a line of $OUT/results.jsonl (or ./results.jsonl) as soon as it is there, all output
goes to log.txt beside it, and a table comes last. A check that fails, or for which no time is left,
is reported, and the next one runs. Needs torch but for d and f. Exit status 0: all good.
"""
import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
JOB = os.path.join(ROOT, "tests", "gpu", "gpt.py")
OUT = os.environ.get("OUT", ".")
EQUAL_JOB = ("--steps", "10", "--deterministic", "1")
HUGE = ("--d", "4096", "--L", "40", "--B", "8", "--S", "2048", "--ckpt", "1")
ORDER = "ibadefgc"


class Failed(Exception):
    """A check did not succeed; the text says how."""


class Bench:
    """What all checks share: the build folder, the clock, the files."""

    def __init__(self, build, budget, emulate):
        self.build = os.path.abspath(build)
        self.deadline = time.monotonic() + budget
        self.always = ["--emulate", emulate] if emulate else []
        self.rows = []
        self.native = None
        self.folder = tempfile.TemporaryDirectory(prefix="vrampool-gpu-")  # goes when we end
        self.scratch = self.folder.name
        os.makedirs(OUT, exist_ok=True)
        if os.path.isdir(self.tool("lib")):  # a packed folder brings its libraries
            os.environ["LD_LIBRARY_PATH"] = ":".join(
                filter(None, (self.tool("lib"), os.environ.get("LD_LIBRARY_PATH"))))

    def left(self):
        return self.deadline - time.monotonic()

    def tool(self, *path):
        return os.path.join(self.build, *path)

    def record(self, check, name, passed, **figures):
        row = {"check": check, "name": name, "passed": passed, **figures}
        self.rows.append(row)
        with open(os.path.join(OUT, "results.jsonl"), "a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        short = {key: value for key, value in figures.items()
                 if key not in ("report", "step_s", "info")}
        print(f"[{'ok' if passed else 'FAILED'}] {check}: {name} {json.dumps(short)}", flush=True)

    def run(self, command, limit_s, pool=None, env=None):
        """Runs a command, under the pool where `pool` is a list of options of `vrampool run`.

        Returns its exit status, stdout, stderr, and the pool's report (None: there is none)."""
        report_path = os.path.join(self.scratch, "report.json")
        if os.path.exists(report_path):
            os.unlink(report_path)
        if pool is not None:
            command = [self.tool("vrampool"), "run", "--log", "info", "--report", report_path,
                       *self.always, *pool, "--", *command]
        limit_s = min(limit_s, self.left())
        if limit_s < 5:
            raise Failed("no time left")
        started = time.monotonic()
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True, errors="replace", env={**os.environ, **(env or {})},
                                   start_new_session=True)
        try:
            out, err = process.communicate(timeout=limit_s)
            status = process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            status = None
        with open(os.path.join(OUT, "log.txt"), "a", encoding="utf-8") as log:
            log.write(f"$ {' '.join(command)}\n{out[-200000:]}{err[-200000:]}"
                      f"-- status {status}, {time.monotonic() - started:.1f} s\n\n")
        if status is None:
            raise Failed(f"took more than {limit_s:.0f} s; last words: {last_line(err)}")
        report = None
        if os.path.exists(report_path):
            with open(report_path, encoding="utf-8") as file:
                report = json.load(file)
        return status, out, err, report

    def job(self, options, limit_s, pool=None, env=None):
        """Runs the training job; returns its result, with the pool's report in it."""
        path = os.path.join(self.scratch, "job.json")
        command = [sys.executable, JOB, *options, "--json", path]
        status, _, err, report = self.run(command, limit_s, pool, env)
        if status != 0:
            raise Failed(f"exit status {status}: {last_line(err)}")
        with open(path, encoding="utf-8") as file:
            result = json.load(file)
        result["report"] = report
        result["listening"] = "PyTorch: listening" in err
        return result

    def native_job(self):
        """The result of EQUAL_JOB without the pool; run once."""
        if self.native is None:
            self.native = self.job(EQUAL_JOB, 90)
        return self.native

    def compare(self, check, name, pool, env=None):
        """Runs EQUAL_JOB with a pool and records whether all of its results are native's."""
        native = self.native_job()
        pooled = self.job(EQUAL_JOB, 150, pool, env)
        unequal = differences(native, pooled)
        self.record(check, name, not unequal, different=unequal, listening=pooled["listening"],
                    median_s=pooled["median_s"], native_s=native["median_s"],
                    step_s=pooled["step_s"], optimizer_s=pooled["median_optimizer_s"],
                    report=pooled["report"])


def last_line(text):
    return (text.strip().splitlines() or ["(no output)"])[-1][:300]


def differences(one, other):
    """What of the results is not equal to the last bit."""
    different = [] if one["losses"] == other["losses"] else ["losses"]
    hashes = one["hashes"]
    return different + [name for name in hashes if hashes[name] != other["hashes"][name]]


def check_i(bench):
    status, out, err, _ = bench.run([bench.tool("vrampool"), "info", "--json", *bench.always], 60)
    if status != 0:
        raise Failed(f"exit status {status}: {last_line(err)}")
    info = json.loads(out)
    unusable = [place["name"] for place in info["places"] if not place["usable"]]
    bench.record("i", "every place can be pooled", not unusable and not info["problems"],
                 info=info, unusable=unusable)


def check_b(bench):
    native = bench.native_job()
    unequal = differences(native, bench.job(EQUAL_JOB, 90))
    bench.record("b", "native equals native", not unequal, different=unequal,
                 median_s=native["median_s"])
    for size in ("24G", "32G"):
        try:
            bench.compare("b", f"--hbm {size}", ["--hbm", size])
        except Failed as reason:
            bench.record("b", f"--hbm {size}", False, reason=str(reason))


def check_a(bench):
    options = ("--steps", "25", "--hash", "0")
    native, pooled = [], []
    for _ in range(3):
        native.append(bench.job(options, 60)["median_s"])
        pooled.append(bench.job(options, 60, [])["median_s"])
    ratio = statistics.median(pooled) / statistics.median(native)
    bench.record("a", "unlimited, time over native's", ratio <= 1.02, ratio=round(ratio, 4),
                 native_s=native, pooled_s=pooled)


def check_d(bench):
    program = bench.tool("tests", "conformance", "conformance")
    driver = ["--driver", bench.tool("src", "libvrampool-emu.so")] if bench.always else []
    status, out, err, _ = bench.run([program, *driver, "--notes"], 90)
    said = [line for line in out.splitlines() if line.startswith(("FAIL", "skip"))]
    bench.record("d", "conformance", status == 0, status=status, count=last_line(out + err),
                 said=said[:30])


def check_e(bench):
    overrun = bench.tool("tests", "programs", "overrun")
    status, _, err, _ = bench.run([overrun], 60, ["--verify"])
    bench.record("e", "nothing found in a good program", status == 0, status=status,
                 said=last_line(err))
    status, _, err, _ = bench.run([overrun, "--plant"], 60, ["--verify"])
    said = [line for line in err.splitlines() if "overrun_fill" in line]
    bench.record("e", "a page past the end is caught", status != 0 and bool(said), status=status,
                 said=said[:3] or last_line(err))
    result = bench.job(("--steps", "2", "--hash", "0"), 120, ["--verify"])
    bench.record("e", "nothing found in the job", True, step_s=result["step_s"],
                 report=result["report"])
    ratio = result["report"]["touch_p99_percent"]
    bench.record("e", "may touch at most twice what parameters name", 0 < ratio <= 200,
                 p99_percent=ratio)


def check_f(bench):
    launch = bench.tool("bench", "launch")
    status, out, err, _ = bench.run([launch], 60, [])
    if status != 0:
        raise Failed(f"exit status {status}: {last_line(err)}")
    figures = json.loads(out)
    if not figures["pooled"]:
        raise Failed("the benchmark did not find the driver behind the preloaded library")
    for name, key, most in (("launch, added", "added_ns", 150),
                            ("launch, added at p99", "added_p99_ns", 3000),
                            ("alloc and free, 512 KiB", "alloc_free_512k_ns", 500),
                            ("alloc and free, 8 MiB", "alloc_free_8m_ns", 500)):
        bench.record("f", name, figures[key]["median"] <= most, most_ns=most, **figures[key])
    bench.record("f", "the driver's own launch", True, **figures["native_launch_ns"],
                 p99=figures["native_launch_p99_ns"]["median"])


def check_g(bench):
    bench.compare("g", "--hbm 24G, no listener", ["--hbm", "24G"], {"VRAMPOOL_LISTENER": "0"})


def check_c(bench):
    result = bench.job((*HUGE, "--steps", "3", "--hash", "0"), 200, [])
    bench.record("c", "158 GiB on one card", True, step_s=result["step_s"],
                 losses=result["losses"], parameters=result["parameters"], report=result["report"])


def print_table(rows):
    print(f"\n{'':7} {'':2} {'check':38} figures")
    for row in rows:
        figures = {key: value for key, value in row.items()
                   if key not in ("check", "name", "passed", "report", "info")}
        text = " ".join(f"{key}={value}" for key, value in figures.items())
        print(f"{'ok' if row['passed'] else 'FAILED':7} {row['check']:2} {row['name']:38} {text}")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checks", nargs="*", metavar="CHECK", help="which, of " + " ".join(ORDER))
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--budget", type=float, default=530, help="seconds for all of them")
    parser.add_argument("--emulate", metavar="MACHINE", help="to try this script without a GPU")
    options = parser.parse_args()
    unknown = [check for check in options.checks if check not in list(ORDER)]
    if unknown:
        parser.error(f"no such check: {' '.join(unknown)}")
    bench = Bench(options.build, options.budget, options.emulate)
    for check in options.checks or ORDER:
        started = time.monotonic()
        try:
            globals()["check_" + check](bench)
        except Exception as reason:  # whatever went wrong: the next check is worth its own try
            bench.record(check, "ended early", False, reason=f"{type(reason).__name__}: {reason}")
        print(f"   check {check} took {time.monotonic() - started:.0f} s", flush=True)
    print_table(bench.rows)
    return 0 if bench.rows and all(row["passed"] for row in bench.rows) else 1


if __name__ == "__main__":
    sys.exit(main())
