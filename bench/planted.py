#!/usr/bin/env python3
"""Plays jobs that break their own rhythm on the real pool, in virtual time: a step with a changed
launch, accumulation of 4, two shapes by turns, an evaluation every ten steps. Checks that nothing
goes wrong (the emulator reports accesses that conflict with moves or reach nothing), that every
word read is what it is without a pool, also with so little HBM that copies are made early, and that
from the second step after a disturbance on the job is as fast as before.

All times are simulated. Sizes and rates are 512 times smaller than they would be, since memory is
real. Exit status: 1 where data or an access was wrong, or a job had not recovered.

Usage: planted.py [--hbm PERCENT] REPLAY"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

from plan_traces import Job, Trace

PERIODS = 4    # in a trace: as many as it takes to be found there
RUNS = 8       # of the period, in one run
SETTLED = 3    # of these, the last ones are judged
SLACK = 1.10   # operations do not take equally long in all steps
SCALE = 512
SCARCE = 55    # percent of the job's peak: copies are made early there


def mark(job):
    job.trace.op(0.001, "mark", [])


def write_changed(trace):
    """In one of ten steps one launch is another."""
    job = Job(trace, us=400)
    for number in range(10 * PERIODS):
        mark(job)
        job.step()
        if number % 10 == 4:
            trace.op(50, "changed", [job.params[0][0]])
    return "changed", 10, [4]


def write_accumulate(trace):
    job = Job(trace, us=400, layers=10, accumulate=4)
    for _ in range(PERIODS):
        mark(job)
        job.step()
    return "accumulate", 1, []


def write_shapes(trace):
    """Two sizes of activations by turns."""
    job = Job(trace, us=400)
    large = job.acts
    for number in range(2 * PERIODS):
        mark(job)
        job.acts = [[3 * size // 4 for size in sizes] for sizes in large] if number % 2 else large
        trace.op(1, f"shape{number % 2}", [job.params[0][0]])
        job.step()
    return "shapes", 2, []


def write_evaluation(trace):
    """After ten steps of training three batches forward only."""
    job = Job(trace, us=400)
    for _ in range(PERIODS):
        for _ in range(10):
            mark(job)
            job.step()
        mark(job)
        trace.op(1, "evaluate", [job.params[0][0]])
        for _ in range(3):
            given = trace.alloc(job.acts[0][0] << 20)
            trace.op(job.us / 4, "embed", [job.params[0][0], given])
            for layer in range(len(job.params)):
                made = job.forward(layer, given)
                trace.free(given, *made[:-1])
                given = made[-1]
            trace.free(given)
    return "evaluation", 11, [10]


def write_plain(trace):
    job = Job(trace, us=400)
    for _ in range(PERIODS):
        mark(job)
        job.step()
    return "plain", 1, []


def play(replay, path, percent, *more):
    peak = peak_bytes(path)
    done = subprocess.run([replay, path, "--hbm", str(peak * percent // 100), "--host", "100G",
                           "--steps", str(RUNS), "--mark", "mark", "--scale", str(SCALE), "--json",
                           *more], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{path}: {done.stderr.strip() or done.returncode}")
    return json.loads(done.stdout)


def step_times(played):
    marks = played["marks_ns"]
    return [1e-6 * (end - start) for start, end in zip(marks, marks[1:])]


def count(played, name):
    return sum(step[name] for step in played["steps"])


def peak_bytes(path):
    live, peak, size = 0, 0, {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            words = line.split()
            if words[0] == "alloc":
                size[words[1]] = int(words[2])
                live += size[words[1]]
            elif words[0] == "free":
                live -= size[words[1]]
            peak = max(peak, live)
    return peak


def judge(times, length, disturbed):
    """Of the last periods: the median of the undisturbed steps, the slowest of them, the slowest
    disturbed one and the slowest of those that follow one at once."""
    first = len(times) - SETTLED * length
    kinds = {"calm": [], "disturbed": [], "next": []}
    for index in range(max(first, 0), len(times)):
        here = index % length
        kind = "disturbed" if here in disturbed else \
            "next" if (here - 1) % length in disturbed else "calm"
        kinds[kind].append(times[index])
    return (statistics.median(kinds["calm"]), *(max(kinds[kind], default=None) for kind in kinds))


def show(number):
    return "-" if number is None else f"{number:.1f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--hbm", type=int, default=70, help="percent of the job's peak")
    parser.add_argument("replay")
    options = parser.parse_args()
    failed = early = clean = 0
    print("| job | first steps, ms | median, ms | slowest | disturbed | next |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for write in (write_plain, write_changed, write_accumulate, write_shapes,
                      write_evaluation):
            path = os.path.join(folder, f"{write.__name__}.trace")
            with Trace(path) as trace:
                name, length, disturbed = write(trace)
            played = play(options.replay, path, options.hbm)
            scarce = play(options.replay, path, SCARCE)
            right = play(options.replay, path, 100, "--native")["sum"]
            early += count(scarce, "early_copies")
            clean += count(scarce, "clean_drops")
            times = step_times(played)
            wrong = played["sum"] != right or scarce["sum"] != right
            median, calm, *others = judge(times, length, disturbed)
            late = calm > SLACK * median
            failed += late or wrong
            print("|", " | ".join([name, " ".join(f"{one:.0f}" for one in times[:6]),
                                   *map(show, (median, calm, *others))]), "|",
                  *(["not recovered"] if late else []), *(["wrong data"] if wrong else []),
                  flush=True)
    print(f"with {SCARCE} % {early} chunks were copied early, {clean} left as they came")
    return 1 if failed or not early or not clean else 0


if __name__ == "__main__":
    sys.exit(main())
