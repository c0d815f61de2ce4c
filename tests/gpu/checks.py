"""What the scripts share that check promises on a real GPU: running commands, results, the table.

Each result is a line of $OUT/results.jsonl (or ./results.jsonl) as soon as it is there, all output
goes to log.txt beside it, and a table comes last. A check that fails, or for which no time is left,
is reported, and the next one runs."""
import argparse
import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
JOB = os.path.join(ROOT, "tests", "gpu", "gpt.py")
OUT = os.environ.get("OUT", ".")
EQUAL_JOB = ("--steps", "10", "--deterministic", "1")
MISSING = 77  # the exit status of a script that lacks a package
QUIET = ("report", "step_s", "native_step_s", "info")  # not in the line that is printed
HUGE = ("--d", "4096", "--L", "40", "--B", "8", "--S", "2048", "--ckpt", "1")


class Failed(Exception):
    """A check did not succeed; the text says how."""


class Skipped(Exception):
    """A check cannot be made here; the text says what is missing."""


class Bench:
    """What all checks share: the build folder, the clock, the files. Threads may share it."""

    def __init__(self, build, budget, emulate):
        self.build = os.path.abspath(build)
        self.lock = threading.Lock()  # for the rows and the files
        self.runs = itertools.count()
        self.deadline = time.monotonic() + budget
        self.always = ["--emulate", emulate] if emulate else []
        self.rows = []
        self.native = {}
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
        short = {key: value for key, value in figures.items()
                 if key not in QUIET}
        with self.lock:
            self.rows.append(row)
            with open(os.path.join(OUT, "results.jsonl"), "a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
            print(f"[{verdict(row)}] {check}: {name} {json.dumps(short)}", flush=True)

    def attempt(self, check, name, work, *arguments):
        """Does a check, or a part of one; how it fails, or why it cannot be done, is recorded."""
        try:
            work(self, *arguments)
        except Skipped as reason:
            self.record(check, name, True, skipped=str(reason))
        except Exception as reason:  # whatever went wrong: the next one is worth its own try
            self.record(check, name, False, reason=f"{type(reason).__name__}: {reason}")

    def path(self, name):
        """A file of this run alone, which is not there yet."""
        return os.path.join(self.scratch, f"{next(self.runs)}-{name}")

    def run(self, command, limit_s, pool=None, env=None):
        """Runs a command, under the pool where `pool` is a list of options of `vrampool run`.

        Returns its exit status, stdout, stderr, and the pool's report (None: there is none)."""
        report_path = self.path("report.json")
        if pool is not None:
            report = [] if "--no-pool" in pool else ["--report", report_path]
            command = [self.tool("vrampool"), "run", "--log", "info", *report, *self.always, *pool,
                       "--", *command]
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
        with self.lock, open(os.path.join(OUT, "log.txt"), "a", encoding="utf-8") as log:
            log.write(f"$ {' '.join(command)}\n{out[-60000:]}{err[-60000:]}"
                      f"-- status {status}, {time.monotonic() - started:.1f} s\n\n")
        if status is None:
            raise Failed(f"took more than {limit_s:.0f} s; last words: {last_line(err)}")
        report = None
        if os.path.exists(report_path):
            with open(report_path, encoding="utf-8") as file:
                report = json.load(file)
        return status, out, err, report

    def job(self, options, limit_s, pool=None, env=None, script=JOB):
        """Runs a job that writes its result to --json; returns it, with the pool's report in it."""
        path = self.path("job.json")
        command = [sys.executable, script, *options, "--json", path]
        status, _, err, report = self.run(command, limit_s, pool, env)
        if status == MISSING:
            raise Skipped(last_line(err))
        if status != 0:
            raise Failed(f"exit status {status}: {last_line(err)}")
        with open(path, encoding="utf-8") as file:
            result = json.load(file)
        result["report"] = report
        result["listening"] = "PyTorch: listening" in err
        return result

    def native_job(self, *options):
        """The result of EQUAL_JOB without the pool; run once for the same options."""
        if options not in self.native:
            self.native[options] = self.job((*EQUAL_JOB, *options), 90)
        return self.native[options]

    def compare(self, check, name, pool, env=None, options=()):
        """Runs EQUAL_JOB with a pool and records whether all of its results are native's."""
        native = self.native_job(*options)
        pooled = self.job((*EQUAL_JOB, *options), 150, pool, env)
        unequal = differences(native, pooled)
        self.record(check, name, not unequal, different=unequal, listening=pooled["listening"],
                    median_s=pooled["median_s"], native_s=native["median_s"],
                    step_s=pooled["step_s"], optimizer_s=pooled["median_optimizer_s"],
                    report=pooled["report"])


def verdict(row):
    return "skipped" if "skipped" in row else "ok" if row["passed"] else "FAILED"


def last_line(text):
    return (text.strip().splitlines() or ["(no output)"])[-1][:300]


def differences(one, other):
    """What of the results is not equal to the last bit."""
    different = [] if one["losses"] == other["losses"] else ["losses"]
    hashes = one["hashes"]
    return different + [name for name in hashes if hashes[name] != other["hashes"][name]]


def print_table(rows):
    print(f"\n{'':7} {'':2} {'check':38} figures")
    for row in rows:
        figures = {key: value for key, value in row.items()
                   if key not in ("check", "name", "passed", "report", "info", "native_step_s")}
        text = " ".join(f"{key}={value}" for key, value in figures.items())
        print(f"{verdict(row):7} {row['check']:2} {row['name']:38} {text}")


def main(description, order, checks, more=None):
    """Runs the checks asked for, by letter, and returns the exit status.

    `checks` holds a function check_x for each letter x of `order`. `more(parser)` adds options of
    the script's own, which are then in bench.options."""
    parser = argparse.ArgumentParser(description=description,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checks", nargs="*", metavar="CHECK", help="which, of " + " ".join(order))
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--budget", type=float, default=530, help="seconds for all of them")
    parser.add_argument("--emulate", metavar="MACHINE", help="to try this script without a GPU")
    if more:
        more(parser)
    options = parser.parse_args()
    unknown = [check for check in options.checks if check not in list(order)]
    if unknown:
        parser.error(f"no such check: {' '.join(unknown)}")
    bench = Bench(options.build, options.budget, options.emulate)
    bench.options = options
    for check in options.checks or order:
        started = time.monotonic()
        bench.attempt(check, "as a whole", checks["check_" + check])
        print(f"   check {check} took {time.monotonic() - started:.0f} s", flush=True)
    print_table(bench.rows)
    return 0 if bench.rows and all(row["passed"] for row in bench.rows) else 1
