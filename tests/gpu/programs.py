#!/usr/bin/env python3
"""Real programs with 60 % of the memory that they need: right, and how slow?

Usage: programs.py [--build FOLDER] [--budget SECONDS] [--only NAME,…] [--workers N] [CHECK…]

  p  each program of jobs/ natively, and under `vrampool run --hbm` with 60 % of its own peak

All that a program computes must be native's to the last bit. Where it is not, it is run natively
twice more: if native does not equal itself either, the pool's losses must lie within twice the
spread of native's. Something must have moved. The figure is the time of a step over native's, of
the second half of the steps. Several programs run beside each other, but only one is in its timed
steps. LoRA is to send out at most 5 % of what it moves after two steps. A program that lacks a
package is skipped. Results are kept as checks.py says; the table of all is programs.md.

`--device cpu` tries the script with small models and without a pool. Exit status 0: all good.
"""
import os
import sys
from concurrent.futures import ThreadPoolExecutor

import job
from checks import OUT, Failed, differences, main

ORDER = "p"
SHARE = 0.6
SHARES = {"saved": 0.4}  # less than its file has
ALONE = ("crowded",)  # takes the whole card: pressure.py runs it
LORA_OUT = 0.05
STEPS = {"lora": 40}  # of which four come before the step is known
HOST = "12G"
SCRIPT = job.__file__
# The most important first, and what compiles long early enough to end in time.
FIRST = ("max-autotune", "eager", "compile", "reduce-overhead", "graph", "ddp", "fsdp2", "lora",
         "trainer", "moe", "resnet50", "static-runtime", "jax-growing", "cupy", "triton", "amp",
         "checkpointed", "loader", "generation", "jax-preallocated")


def environment(bench, name, pooled):
    """Each program compiles once, natively, so that both runs use the same kernels."""
    folder = os.path.join(bench.scratch, name)
    env = {"TORCHINDUCTOR_CACHE_DIR": folder + "-inductor", "TRITON_CACHE_DIR": folder + "-triton",
           "TMPDIR": bench.scratch}
    if name.startswith("jax") and not pooled:
        env["XLA_PYTHON_CLIENT_MEM_FRACTION"] = "0.1"  # others are on the card; 14 GiB are plenty
    return env


def run_once(bench, name, pool=None, env=None):
    options = [name, "--turn", os.path.join(bench.scratch, "turn")]
    if bench.options.device == "cpu":
        options += ["--device", "cpu", "--small", "--steps", "4"]
    elif name in STEPS:
        options += ["--steps", str(STEPS[name])]
    env = {**environment(bench, name, pool is not None), **(env or {})}
    return bench.job(options, 240, pool, env, SCRIPT)


def distance(one, other):
    """The largest difference between losses of the same step, relative to the loss."""
    pairs = [(float.fromhex(a), float.fromhex(b)) for a, b in zip(one["losses"], other["losses"])]
    return max(abs(a - b) / max(abs(a), abs(b), 1e-30) for a, b in pairs)


def strictly_equal(again):
    """Whether the results are native's where only algorithms are used that repeat; None: the
    program needs others, or does not repeat all the same."""
    try:
        native, other = (again(False, {"JOB_STRICT": "1"}) for _ in range(2))
        if differences(native, other):
            return None
        return not differences(native, again(True, {"JOB_STRICT": "1"}))
    except Failed:
        return None


def equality(native, pooled, again):
    """Whether the results are as they should be, and the figures that show it. `again` runs the
    program once more, under the pool or natively, with more in its environment.

    Native may repeat only as long as its timing does: attention's backward pass adds up in the
    order in which blocks come to it. So where something differs, what counts is the program with
    algorithms that repeat; only where there are none, the spread of three native runs."""
    unequal = differences(native, pooled)
    if not unequal:
        return True, {"equal": True}
    strictly = strictly_equal(again)
    natives = [native] + [again(False, {}) for _ in range(2)]
    spread = max(distance(one, other) for one in natives for other in natives)
    off = min(distance(one, pooled) for one in natives)
    repeats = not any(differences(natives[0], other) for other in natives[1:])
    right = strictly if strictly is not None else not repeats and off <= 2 * spread
    return right, {
        "equal": False, "different": unequal, "native_repeats": repeats,
        "native_spread": spread, "off": off, "strictly_equal": strictly}


def lora_out(pooled):
    """What LoRA sends out of all it moves, once two steps are over; None: it moved nothing."""
    moved = pooled["after_two_steps"]
    both = moved.get("in_bytes", 0) + moved.get("out_bytes", 0)
    return round(moved["out_bytes"] / both, 4) if both else None


def program(bench, name):
    native = run_once(bench, name)
    limit = max(int(SHARES.get(name, SHARE) * native["peak_bytes"]), 64 << 20)
    limit -= limit % (2 << 20)
    pool = ["--hbm", str(limit), "--host", HOST]
    pooled = run_once(bench, name, pool)
    right, figures = equality(native, pooled, lambda under_pool, env: run_once(
        bench, name, pool if under_pool else None, env))
    report = pooled["report"] or {}
    moved = report.get("moved_bytes", 0)
    good = right and (moved > 0 or bench.options.device == "cpu")
    if name == "lora":
        figures["out_share"] = lora_out(pooled)
        good = good and (figures["out_share"] is None or figures["out_share"] <= LORA_OUT)
    bench.record("p", name, good, native_s=native["median_s"], pooled_s=pooled["median_s"],
                 ratio=round(pooled["median_s"] / max(native["median_s"], 1e-9), 2),
                 peak_gib=round(native["peak_bytes"] / 2**30, 2), hbm_gib=round(limit / 2**30, 2),
                 moved_gib=round(moved / 2**30, 2), in_place=report.get("in_place"),
                 listening=pooled["listening"], **figures, step_s=pooled["step_s"],
                 native_step_s=native["step_s"], extra=extra(pooled), report=report)


def extra(result):
    names = ("turn", "scale", "cards", "file_bytes", "caught", "message", "best")
    return {name: result[name] for name in names if name in result}


def write_table(bench):
    columns = ("program", "needs, GiB", "HBM, GiB", "native, s", "pool, s", "ratio", "moved, GiB",
               "equal")
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for row in bench.rows:
        if "ratio" not in row:
            why = row.get("skipped") or row.get("reason")
            lines.append(f"| {row['name']} | | | | | | | {why} |")
            continue
        equal = "yes" if row["equal"] else "with algorithms that repeat" if row["strictly_equal"] \
            else f"native differs by {row['native_spread']:.1e}, this by {row['off']:.1e}" \
            if row["strictly_equal"] is None and not row["native_repeats"] else "NO"
        lines.append(f"| {row['name']} | {row['peak_gib']} | {row['hbm_gib']} | {row['native_s']} "
                     f"| {row['pooled_s']} | {row['ratio']} | {row['moved_gib']} | {equal} |")
    with open(os.path.join(OUT, "programs.md"), "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


def check_p(bench):
    known = job.jobs()
    wanted = bench.options.only.split(",") if bench.options.only else \
        [*FIRST, *(name for name in known if name not in FIRST + ALONE)]
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise Failed(f"no such program: {unknown}; there are {list(known)}")
    try:
        with ThreadPoolExecutor(bench.options.workers) as workers:
            for name in wanted:
                workers.submit(bench.attempt, "p", name, program, name)
    finally:
        write_table(bench)


def more(parser):
    parser.add_argument("--only", help="programs, by commas")
    parser.add_argument("--workers", type=int, default=5, help="programs beside each other")
    parser.add_argument("--device", default="cuda")


if __name__ == "__main__":
    sys.exit(main(__doc__, ORDER, globals(), more))
