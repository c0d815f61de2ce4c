#!/usr/bin/env python3
"""Runs what the planner promises on a real GPU, the most important first.

Usage: planner.py [--build FOLDER] [--budget SECONDS] [CHECK...]

  t  a run at 24G finds the whole step; its trace and its counters of each step are kept
  p  step times at limits below what the job needs (25 steps, 5 of them warm)
  e  native's results to the last bit at 28G (at 24G and 32G: foundation.py's check b)
  k  the same with checkpointing, and with AdamW in several passes
  l  lru and inplace, which `vrampool sim` predicts within 15 % (10 steps: they learn nothing)
  s  step times at smaller limits
  h  158 GiB with less memory than the card has
  m  a job of 13 G parameters

That it costs nothing where all fits is foundation.py's check a. Results are kept as checks.py
says. Needs torch. Exit status 0: all good.
"""
import gzip
import os
import shutil
import sys

from checks import HUGE, OUT, Failed, last_line, main

ORDER = "tpeklshm"
TIMED = ("--steps", "25", "--hash", "0")
BRIEF = ("--steps", "10")
RECOMPUTED = ("--ckpt", "1")
SEVERAL_PASSES = ("--opt", "foreach")


def timed(bench, check, name, pool, most_s, options=()):
    """Records the median of the steps behind the first 5, and that it is at most `most_s` where
    that is said."""
    try:
        result = bench.job((*TIMED, *options), 100, pool)
    except Failed as reason:
        bench.record(check, name, False, reason=str(reason))
        return None
    median = result["median_s"]
    bench.record(check, name, most_s is None or median <= most_s, median_s=median, most_s=most_s,
                 spread_s=[min(result["step_s"][5:]), max(result["step_s"][5:])],
                 optimizer_s=result["median_optimizer_s"], step_s=result["step_s"],
                 report=result["report"])
    return median


def check_t(bench):
    trace = os.path.join(bench.scratch, "step.trace")
    path = os.path.join(bench.scratch, "job.json")
    command = [sys.executable, os.path.join(os.path.dirname(__file__), "gpt.py"), "--steps", "8",
               "--hash", "0", "--stats", "1", "--json", path]
    status, _, err, report = bench.run(command, 90, ["--hbm", "24G", "--record", trace])
    if os.path.exists(trace):
        with open(trace, "rb") as plain, gzip.open(os.path.join(OUT, "step.trace.gz"), "wb") as out:
            shutil.copyfileobj(plain, out)
    steps = [line for line in err.splitlines() if " operations repeats" in line]
    bench.record("t", "the step is found", status == 0 and bool(steps), said=steps[-3:],
                 last=last_line(err), report=report)


def check_p(bench):
    for size, most_s in (("24G", 0.39), ("32G", 0.20), ("28G", 0.29)):
        timed(bench, "p", f"--hbm {size}", ["--hbm", size], most_s)


def check_s(bench):
    for size in ("20G", "16G"):
        timed(bench, "s", f"--hbm {size}", ["--hbm", size], None)


def check_e(bench):
    bench.compare("e", "equal at --hbm 28G", ["--hbm", "28G"])


def check_k(bench):
    whole = timed(bench, "k", "checkpointed, native", None, None, RECOMPUTED)
    timed(bench, "k", "checkpointed, --hbm 24G", ["--hbm", "24G"], whole and 1.05 * whole,
          RECOMPUTED)
    timed(bench, "k", "checkpointed, --hbm 16G", ["--hbm", "16G"], 0.33, RECOMPUTED)
    timed(bench, "k", "foreach, --hbm 24G", ["--hbm", "24G"], 0.53, SEVERAL_PASSES)
    for name, options in (("checkpointed", RECOMPUTED), ("foreach", SEVERAL_PASSES)):
        bench.compare("k", f"{name}: equal at --hbm 24G", ["--hbm", "24G"], options=options)


def check_l(bench):
    for policy in ("lru", "inplace"):
        for size in ("24G", "32G"):
            timed(bench, "l", f"{policy} at {size}", ["--hbm", size, "--policy", policy], None,
                  BRIEF)


def check_h(bench):
    for size, most_s in (("130G", 2.1), ("95G", 2.8)):
        result = bench.job((*HUGE, "--steps", "23", "--hash", "0"), 150, ["--hbm", size])
        bench.record("h", f"158 GiB at --hbm {size}", result["median_s"] <= most_s, most_s=most_s,
                     median_s=result["median_s"], step_s=result["step_s"], report=result["report"])


def check_m(bench):
    options = ("--d", "5120", "--L", "40", "--B", "8", "--S", "2048", "--ckpt", "1", "--steps", "4")
    result = bench.job((*options, "--hash", "0"), 250, [])
    bench.record("m", "13 G parameters", True, step_s=result["step_s"],
                 parameters=result["parameters"], report=result["report"])


if __name__ == "__main__":
    sys.exit(main(__doc__, ORDER, globals()))
