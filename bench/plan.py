#!/usr/bin/env python3
"""Compares the planner with the rules, and with a lower bound where one is given, over traces and
HBM sizes: one line for each, or with --short one for each trace, as Markdown. All times are
simulated, none is measured; but how long planning takes is, as time of the processor.

A size is given as for --hbm, or as a percentage of the job's peak. --bound names a Python file with
a function bound(trace, gigabytes) whose third result is seconds or None.

Usage: plan.py [--bound FILE] [--policies plan,lru,…] [--machine M] [--short] VRAMPOOL
               TRACE:SIZE,SIZE…"""
import argparse
import importlib.util
import json
import os
import resource
import statistics
import subprocess
import sys

POLICIES = "plan,lru,demand,inplace"


def load_bound(path):
    if not path:
        return None
    spec = importlib.util.spec_from_file_location("bound", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.bound


def simulate(options, trace, *words):
    start = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    done = subprocess.run([options.vrampool, "sim", trace, "--json", "--machine", options.machine,
                           *words], capture_output=True, text=True, check=False)
    if done.returncode:
        return {"error": done.stderr.strip()}
    end = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    return {**json.loads(done.stdout), "planned_s": end - start}


def size_in_bytes(options, trace, size):
    """Also checks the size: the command knows how to read it."""
    words = () if size.endswith("%") else ("--hbm", size)
    got = simulate(options, trace, *words)
    if "error" in got:
        sys.exit(got["error"])
    if not size.endswith("%"):
        return got["hbm_bytes"]
    return int(got["peak_bytes"] * float(size[:-1]) / 100)


def compare(options, bound, trace, size):
    """What each policy predicts, the bound in seconds or None, the HBM size in bytes."""
    hbm = size_in_bytes(options, trace, size)
    got = {policy: simulate(options, trace, "--hbm", str(hbm), "--policy", policy)
           for policy in options.policies.split(",")}
    return got, bound(trace, hbm / 1e9)[2] if bound else None, hbm


def slower_than(got):
    """The policies that are faster than the first one."""
    first = next(iter(got.values()))
    return [name for name, one in list(got.items())[1:]
            if "step_s" in one and ("error" in first or one["step_s"] < first["step_s"])]


def name_of(trace):
    return os.path.basename(trace).removesuffix(".trace")


def row(trace, got, least, hbm):
    first = next(iter(got.values()))
    cells = [name_of(trace), f"{hbm / 2**30:.1f}",
             f"{first['in_hbm_s']:.4f}" if "in_hbm_s" in first else "-"]
    cells += [f"{one['step_s']:.4f}" if "step_s" in one else "-" for one in got.values()]
    cells.append(f"{least:.4f}" if least else "-")
    cells.append(f"{first['step_s'] / least:.3f}" if least and "step_s" in first else "-")
    cells.append(f"{first['planned_s']:.2f}" if "planned_s" in first else first["error"])
    return cells


def short_row(trace, sizes, results):
    """One line for a trace: against the bound and the best rule, over all sizes."""
    by_bound, by_rule, planned = [], [], 0
    for size, (got, least, _) in zip(sizes, results):
        first, *others = got.values()
        if "step_s" not in first:
            continue
        planned = max(planned, first["planned_s"])
        rules = [one["step_s"] for one in others if "step_s" in one]
        if rules:
            by_rule.append(first["step_s"] / min(rules))
        if least:
            by_bound.append((first["step_s"] / least, size))
    worst = max(by_bound, default=None)
    return [name_of(trace), f"{len(by_bound)} of {len(sizes)}",
            f"{statistics.median(one for one, _ in by_bound):.3f}" if worst else "-",
            f"{worst[0]:.3f} at {worst[1]}" if worst else "-",
            f"{min(by_rule):.2f} to {max(by_rule):.2f}" if by_rule else "-", f"{planned:.2f}"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--bound")
    parser.add_argument("--policies", default=POLICIES)
    parser.add_argument("--machine", default="h200")
    parser.add_argument("--short", action="store_true")
    parser.add_argument("vrampool")
    parser.add_argument("traces", nargs="+", metavar="TRACE:SIZE,SIZE…")
    options = parser.parse_args()
    bound = load_bound(options.bound)
    policies = options.policies.split(",")
    head = ["trace", "GiB", "in HBM", *policies, "bound", "plan / bound", "planned in s"]
    if options.short:
        head = ["trace", "sizes", "median plan / bound", "worst", "plan / best rule",
                "planned in s"]
    print("|", " | ".join(head), "|")
    print("|" + "---|" * len(head))
    lost = 0
    for argument in options.traces:
        trace, _, text = argument.rpartition(":")
        sizes, results = text.split(","), []
        for size in sizes:
            results.append(compare(options, bound, trace, size))
            slower = slower_than(results[-1][0])
            lost += len(slower)
            if not options.short or slower:
                print("|", " | ".join(row(trace, *results[-1])), "|",
                      *(f"slower than {name}" for name in slower), flush=True)
        if options.short:
            print("|", " | ".join(short_row(trace, sizes, results)), "|", flush=True)
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
