#!/usr/bin/env python3
"""Compares the planner with the rules, and with a lower bound where one is given, over traces and
HBM sizes: one line for each, as Markdown. All times are simulated, none is measured.

A size is given as for --hbm, or as a percentage of the job's peak. --bound names a Python file with
a function bound(trace, gigabytes) whose third result is seconds or None.

Usage: plan.py [--bound FILE] [--policies plan,lru,…] [--machine M] VRAMPOOL TRACE:SIZE,SIZE…"""
import argparse
import importlib.util
import json
import os
import subprocess
import sys
import time

POLICIES = "plan,lru,demand,inplace"


def load_bound(path):
    if not path:
        return None
    spec = importlib.util.spec_from_file_location("bound", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.bound


def simulate(options, trace, *words):
    start = time.perf_counter()
    done = subprocess.run([options.vrampool, "sim", trace, "--json", "--machine", options.machine,
                           *words], capture_output=True, text=True, check=False)
    if done.returncode:
        return {"error": done.stderr.strip()}
    return {**json.loads(done.stdout), "wall_s": time.perf_counter() - start}


def size_in_bytes(options, trace, size):
    """Also checks the size: the command knows how to read it."""
    words = () if size.endswith("%") else ("--hbm", size)
    got = simulate(options, trace, *words)
    if "error" in got:
        sys.exit(got["error"])
    if not size.endswith("%"):
        return got["hbm_bytes"]
    return int(got["peak_bytes"] * float(size[:-1]) / 100)


def row(options, bound, trace, size):
    hbm = size_in_bytes(options, trace, size)
    got = {policy: simulate(options, trace, "--hbm", str(hbm), "--policy", policy)
           for policy in options.policies.split(",")}
    first = got[options.policies.split(",")[0]]
    cells = [os.path.basename(trace).removesuffix(".trace"), f"{hbm / 2**30:.1f}",
             f"{first['in_hbm_s']:.4f}" if "in_hbm_s" in first else "-"]
    cells += [f"{one['step_s']:.4f}" if "step_s" in one else "-" for one in got.values()]
    least = bound(trace, hbm / 1e9)[2] if bound else None
    cells.append(f"{least:.4f}" if least else "-")
    cells.append(f"{first['step_s'] / least:.3f}" if least and "step_s" in first else "-")
    cells.append(f"{first['wall_s']:.2f}" if "wall_s" in first else first["error"])
    slower = [policy for policy, one in got.items()
              if "step_s" in one and "step_s" in first and one["step_s"] < first["step_s"]]
    return cells, slower


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--bound")
    parser.add_argument("--policies", default=POLICIES)
    parser.add_argument("--machine", default="h200")
    parser.add_argument("vrampool")
    parser.add_argument("traces", nargs="+", metavar="TRACE:SIZE,SIZE…")
    options = parser.parse_args()
    bound = load_bound(options.bound)
    policies = options.policies.split(",")
    print("| trace | GiB | in HBM |", " | ".join(policies),
          "| bound | plan / bound | planned in s |")
    print("|" + "---|" * (len(policies) + 6))
    lost = 0
    for argument in options.traces:
        trace, _, sizes = argument.rpartition(":")
        for size in sizes.split(","):
            cells, slower = row(options, bound, trace, size)
            print("|", " | ".join(cells), "|", *(f"slower than {name}" for name in slower),
                  flush=True)
            lost += len(slower)
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
