#!/usr/bin/env python3
"""The edge of the memory on a real GPU, and what people are told of it.

Usage: pressure.py [--build FOLDER] [--budget SECONDS] [CHECK…]

  q  what PyTorch says of its memory is native's; the driver's figures are the pool's
  f  12 GiB freed in pieces and asked for whole, 50 times; 10^5 random lifetimes at 94 % of the
     limit, at least 97 % of which is usable; steps at 92 % of it with spikes to 108 %; all of the
     card taken past the pool
  c  another program takes the whole card while a job runs: the job goes on, with native's results
  m  compute-sanitizer's memcheck has nothing to say of examples/train under the pool

q and c need torch, f and m do not; what beside programs.py is memory under pressure. Results are
kept as checks.py says. Exit status 0: all good.
"""
import json
import os
import re
import shutil
import sys

import programs
from checks import Failed, Skipped, last_line, main

ORDER = "qfcm"
ASKED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "asked.py")
GIB = 1 << 30
SPLIT = {"PYTORCH_ALLOC_CONF": "max_split_size_mb:21"}  # what the pool asks of the allocator
# Calls that answer a question of the pool's with an error; the sanitizer lists them all the same.
ANSWERS = {
    "cuKernelGetParamInfo": ("CUDA_ERROR_INVALID_HANDLE", "CUDA_ERROR_INVALID_VALUE"),
    "cuFuncGetParamInfo": ("CUDA_ERROR_INVALID_HANDLE", "CUDA_ERROR_INVALID_VALUE"),
    "cuKernelGetName": ("CUDA_ERROR_INVALID_HANDLE",),  # a function, not a kernel
    "cuMemAddressReserve": ("CUDA_ERROR_OUT_OF_MEMORY",),  # less is asked for next
}
UNDIVIDED = {"PYTORCH_ALLOC_CONF": "max_split_size_mb:1000000"}  # as without: docs/pytorch.md


def unequal(one, other, where=""):
    """The names of what differs between two trees of values, with both values."""
    if isinstance(one, dict) and isinstance(other, dict):
        return [line for name in one.keys() | other.keys()
                for line in unequal(one.get(name), other.get(name), f"{where}/{name}")]
    return [] if one == other else [f"{where}: {one} native, {other}"]


def check_q(bench):
    native = bench.job([], 90, script=ASKED)
    split = bench.job([], 90, None, SPLIT, ASKED)
    pooled = bench.job([], 90, ["--hbm", "3G", "--host", "16G"], script=ASKED)
    said = unequal(native["exact"], pooled["exact"])
    setting = unequal(native["exact"], split["exact"])
    bench.record("q", "allocated, active, peak, errors, snapshots: native's but for the setting",
                 sorted(said) == sorted(setting), different=said[:20],
                 count=len(said), setting=len(setting))
    said = unequal(split["exact"], pooled["exact"])
    bench.record("q", "the same, native with max_split_size_mb:21", not said, different=said[:20])
    undivided = bench.job([], 90, ["--hbm", "3G", "--host", "16G"], UNDIVIDED, ASKED)
    said = unequal(native["exact"], undivided["exact"])
    bench.record("q", "the same, pooled with every block to be split", not said,
                 different=said[:20], count=len(said))
    said = unequal(split["reserved"], pooled["reserved"])
    said = [line for line in said if "inactive_split" not in line]  # depends on addresses
    bench.record("q", "reserved, native with max_split_size_mb:21", not said, different=said[:20],
                 count=len(said))
    device = pooled["device"]
    capacity = device.pop("capacity in the error")
    total = {figures["total"] for figures in device.values()}
    fine = all(0 < figures["free"] <= figures["total"] for figures in device.values())
    fine = fine and len(total) == 1 and (
        capacity is None or abs(capacity - max(total) / GIB) < 0.01)
    bench.record("q", "free and total memory are the pool's", fine, device=device,
                 capacity_gib=capacity)


def full(bench, name, pool, words, wanted_bytes):
    program = bench.tool("tests", "programs", "full")
    status, out, err, report = bench.run([program, *words], 240, pool)
    if status != 0:
        raise Failed(f"exit status {status}: {last_line(err)}")
    figures = json.loads(out)
    bench.record("f", name, figures["most_bytes"] >= wanted_bytes and not figures["wrong"],
                 wanted_bytes=wanted_bytes, **figures, report=report,
                 moved_bytes=report["moved_bytes"], places=report["places"])


def check_f(bench):
    small = bool(bench.always)  # a trial on an emulated machine
    unit, letter = (1 << 20, "M") if small else (1 << 30, "G")
    whole, rounds, lives, steps = (192, 3, 500, 4) if small else (12, 50, 100000, 40)
    hbm = whole * unit * 100 // 97 // (2 << 20) * (2 << 20)
    name = f"{whole}{letter} in pieces, then whole, {rounds} times"
    bench.attempt("f", name, full, name,
                  ["--hbm", str(hbm), "--host", "0"], ["pieces", f"{whole}{letter}", str(rounds)],
                  whole * unit)
    name = f"92 % of {whole}{letter} with spikes to 108 %"
    bench.attempt("f", name, full, name,
                  ["--hbm", f"{whole}{letter}", "--host", f"{whole}{letter}"],
                  ["spikes", f"{whole}{letter}", str(steps)], int(1.07 * whole * unit))
    name = "the card is taken past the pool"
    bench.attempt("f", name, full, name, ["--hbm", f"{whole // 2}{letter}", "--host",
                                          f"{whole}{letter}"],
                  ["crowded", f"{whole // 3}{letter}", "2"], whole // 3 * unit)
    limit = 512 << 20 if small else 12 << 30
    name = f"{lives} lifetimes at 94 %, then filled up"
    bench.attempt("f", name, full, name,
                  ["--hbm", str(limit), "--host", "0"],
                  ["lifetimes", str(limit // 100 * 94), str(lives)], int(0.97 * limit))


def check_c(bench):
    bench.options.device = "cpu" if bench.always else "cuda"

    def once(under_pool, env):
        leave_bytes = GIB // 4 if under_pool else 40 * GIB
        return programs.run_once(bench, "crowded", ["--host", "24G"] if under_pool else None,
                                 {"CROWD_LEAVE": str(leave_bytes), **env})

    native, pooled = once(False, {}), once(True, {})
    right, figures = programs.equality(native, pooled, once)
    report = pooled["report"] or {}
    bench.record("c", "another program takes the rest of the card", right, **figures,
                 native_s=native["median_s"], pooled_s=pooled["median_s"],
                 peak_gib=round(native["peak_bytes"] / GIB, 2),
                 moved_bytes=report.get("moved_bytes"), places=report.get("places"),
                 step_s=pooled["step_s"], report=report)


def check_m(bench):
    train = bench.tool("examples", "train")
    status, plain, err, _ = bench.run([train], 90, ["--hbm", "96M", "--host", "1G"])
    if status != 0:
        raise Failed(f"without the sanitizer: exit status {status}: {last_line(err)}")
    sanitizer = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    if not os.path.exists(sanitizer):
        raise Skipped("missing: compute-sanitizer")
    command = [sanitizer, "--tool", "memcheck", "--target-processes", "all", "--print-limit",
               "100000", bench.tool("vrampool"), "run", "--hbm", "96M", "--host", "1G", "--", train]
    status, out, err, _ = bench.run(command, 300)
    said = [line for line in (out + err).splitlines() if line.startswith("=========")]
    hits = re.findall(r"Program hit (\w+) .* on CUDA API call to (\w+?)\.?$", "\n".join(said), re.M)
    answers = [hit for hit in hits if hit[0] in ANSWERS.get(hit[1], ())]
    counts = [int(n) for n in re.findall(r"ERROR SUMMARY: (\d+) errors?", "\n".join(said))]
    errors = sum(counts) - len(answers)
    losses = [line for line in out.splitlines() if line.startswith("step ")]
    expected = [line for line in plain.splitlines() if line.startswith("step ")]
    clean = status == 0 and counts and errors == 0
    bench.record("m", "memcheck of examples/train", clean and losses == expected, status=status,
                 errors=errors, answers=len(answers), unexpected=sorted(set(hits) - set(answers)),
                 said=said[-4:], equal=losses == expected, steps=len(losses))


if __name__ == "__main__":
    sys.exit(main(__doc__, ORDER, globals()))
