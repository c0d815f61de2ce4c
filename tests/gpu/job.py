#!/usr/bin/env python3
"""One real program of those that programs.py compares with and without the pool.

Usage: job.py NAME [--json FILE] [--steps N] [--turn FILE] [--device cpu --small]

It knows nothing of vrampool, but for its counters, which it reads where there are any. Steps beyond
the first, which compiles and fills caches, are timed, one job at a time where several are given the
same --turn file. `job.py --list` names all jobs. Where a package is missing it says which, and
exits with 77. --device cpu and --small try the script itself."""
import argparse
import contextlib
import fcntl
import importlib
import json
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

from measure import fingerprint, median, pool_counters  # noqa: E402

MISSING = 77
TURN_S = 30
MODULES = ("training", "compiled", "models", "arrays", "pressure")


class Run:
    """One run of a job: how large it is to be, and what was measured of it."""

    def __init__(self, options):
        self.device = options.device
        self.card = options.device != "cpu"
        self.small = options.small
        self.steps = options.steps
        self.turn = options.turn
        self.seconds, self.losses, self.extra = [], [], {}
        self.early = None  # the pool's counters after two steps
        self.moved = []
        self.held = contextlib.ExitStack()  # whose turn it is
        self.started, self.turn_ends = None, float("inf")

    def size(self, large, small):
        return small if self.small else large

    def wait(self):
        """Jobs that are not torch's replace this, and `peak`."""
        import torch
        if self.card:
            torch.cuda.synchronize()

    def peak(self):
        import torch
        return torch.cuda.max_memory_allocated() if self.card else 0

    def reset_peak(self, first):
        """What setting up took does not count."""
        if first and self.card and "torch" in sys.modules:
            sys.modules["torch"].cuda.reset_peak_memory_stats()

    def begin(self):
        self.reset_peak(len(self.losses) == 0)
        if len(self.losses) == 1 and self.turn:
            file = self.held.enter_context(open(self.turn, "a", encoding="utf-8"))
            fcntl.flock(file, fcntl.LOCK_EX)
            self.turn_ends = time.perf_counter() + TURN_S
        self.wait()
        self.started = time.perf_counter()

    def end(self, loss):
        """The step is over; `loss` is what of its result is compared."""
        self.wait()
        self.seconds.append(time.perf_counter() - self.started)
        self.losses.append(float(loss))
        if time.perf_counter() > self.turn_ends:  # others wait
            self.held.close()
            self.extra["turn"] = "given up"
        counters = pool_counters()
        if counters:
            self.moved.append([counters["in_bytes"], counters["out_bytes"]])
        if len(self.losses) == 2:
            self.early = counters

    def repeat(self, step):
        for _ in range(self.steps):
            self.begin()
            self.end(step())
        self.held.close()

    def result(self, state):
        """What is written. `state`: tensors to fingerprint, or what was fingerprinted already."""
        late, peak = pool_counters(), self.peak()
        self.held.close()
        moved = {}
        if self.early and late:
            moved = {name: late[name] - self.early[name]
                     for name in ("in_bytes", "out_bytes", "moved_bytes", "in_place")}
        timed = self.seconds[len(self.seconds) // 2:]
        return {
            "step_s": [round(value, 5) for value in self.seconds],
            "median_s": round(median(timed), 5),
            "losses": [value.hex() for value in self.losses],
            "hashes": {name: part if isinstance(part, str) else fingerprint(part)
                       for name, part in state.items()},
            "peak_bytes": peak,
            "after_two_steps": moved,
            "in_out_bytes": self.moved,  # up to each step
            **self.extra,
        }


def seed():
    import torch
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = True
    strict = os.environ.get("JOB_STRICT") == "1"  # attention's backward pass, too
    torch.use_deterministic_algorithms(True, warn_only=not strict)
    torch.utils.deterministic.fill_uninitialized_memory = False


def jobs():
    """All jobs by name; a module's JOBS names its own."""
    found = {}
    for name in MODULES:
        module = importlib.import_module("jobs." + name)
        found.update(module.JOBS)
    return found


def parse():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="?")
    parser.add_argument("--json", help="write the result to this file")
    parser.add_argument("--steps", type=int, default=14)
    parser.add_argument("--turn", help="a file; who holds its lock times its steps")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--list", action="store_true")
    return parser, parser.parse_args()


def main():
    parser, options = parse()
    known = jobs()
    if options.list or options.name not in known:
        print("\n".join(known))
        return 0 if options.list else parser.error(f"no such job: {options.name}")
    run = Run(options)
    try:
        if known[options.name].__module__ != "jobs.arrays":
            seed()
        result = run.result(known[options.name](run))
    except ImportError as missing:
        print(f"missing: {missing.name or missing}", file=sys.stderr)
        return MISSING
    text = json.dumps(result)
    print(text, flush=True)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            file.write(text + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
