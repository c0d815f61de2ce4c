#!/usr/bin/env python3
"""The same job natively, under vrampool, and in the ways people use today, at equal HBM, in one go.

Usage: peers.py [--build FOLDER] [--hbm GIB,…] [--budget SECONDS] [--out FOLDER]
       peers.py --again PEERS.JSONL [--out FOLDER]      (the table and the plot of an earlier run)

The job is tests/gpu/gpt_model.py (1.41 G parameters, needs 35.9 GiB). Ways: as it is; checkpointed;
`save_on_cpu`; FSDP2 with CPU offload; torchao's CPUOffloadOptimizer (where torchao is installed);
and the unchanged job under `vrampool run --hbm`, plain and checkpointed. Each way may use the same
HBM: a cap on PyTorch's allocator without vrampool, `--hbm` with it.

What is measured are steady steps: 5 after 3, and, under vrampool, which learns the step first, 8
after 8; the first ones are in peers.jsonl.

Results come in the order of importance and are written as they come: peers.jsonl (raw), peers.md
(table), peers.svg (plot; needs matplotlib). Exit status 0: vrampool is first at every size at which
it and another way run; 1: it is not, or did not run; the table says where."""
import argparse
import json
import os
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
JOB = os.path.join(ROOT, "bench", "peers_job.py")
GIB = 1 << 30
STEPS = ("--steps", "8", "--warm", "3")
STEPS_POOLED = ("--steps", "16", "--warm", "8")
# (name, options of the job, under vrampool, lines of the program changed)
WAYS = (
    ("vrampool", [], True, "0"),
    ("vrampool, checkpointed", ["--ckpt"], True, "1"),
    ("plain", [], False, "0"),
    ("checkpointed", ["--ckpt"], False, "1"),
    ("CPUOffloadOptimizer, checkpointed", ["--way", "cpu_offload", "--ckpt"], False, "2"),
    ("CPUOffloadOptimizer", ["--way", "cpu_offload"], False, "1"),
    ("FSDP2 with CPU offload", ["--way", "fsdp"], False, "6-10"),
    ("FSDP2 with CPU offload, checkpointed", ["--way", "fsdp", "--ckpt"], False, "7-11"),
    ("save_on_cpu", ["--way", "save_on_cpu"], False, "1"),
)


class Run:
    """Settings, the clock and the rows so far."""

    def __init__(self, options):
        self.options = options
        self.sizes = sorted((float(size) for size in options.hbm.split(",")), reverse=True)
        self.deadline = time.monotonic() + options.budget
        self.rows = []

    def left(self):
        return self.deadline - time.monotonic()

    def path(self, name):
        return os.path.join(self.options.out, name)

    def note(self, row):
        self.rows.append(row)
        with open(self.path("peers.jsonl"), "a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        said = row.get("median_s") or row["error"]
        print(f"{row['name']:38} {row['gib']:6g} GiB  {said}", flush=True)

    def call(self, command, limit_s):
        """Lines of JSON that the command printed, and the last line it said besides."""
        limit_s = min(limit_s, self.left())
        if limit_s < 5:
            return [], "no time left"
        try:
            done = subprocess.run(command, capture_output=True, text=True, errors="replace",
                                  timeout=limit_s, check=False)
        except subprocess.TimeoutExpired:
            return [], f"not done after {limit_s:.0f} s"
        with open(self.path("peers.log"), "a", encoding="utf-8") as log:
            log.write(f"$ {' '.join(command)}\n{done.stdout}{done.stderr}\n")
        rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        said = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        return rows, said[:200]

    def measure_pooled(self, name, job):
        for size in self.sizes:
            command = [os.path.join(self.options.build, "vrampool"), "run", "--hbm", f"{size:g}G",
                       "--report", self.path("report.json"), "--", sys.executable, JOB,
                       *STEPS_POOLED, *job]
            rows, said = self.call(command, 120)
            row = rows[0] if rows else {"error": said}
            row.update(name=name, gib=size)
            if os.path.exists(self.path("report.json")):
                with open(self.path("report.json"), encoding="utf-8") as file:
                    row["report"] = json.load(file)
                os.unlink(self.path("report.json"))
            self.note(row)

    def measure_native(self, name, job):
        sizes = [f"{size:g}" for size in self.sizes]
        command = [sys.executable, JOB, *STEPS, *job, "--limit", *sizes]
        rows, said = self.call(command, 40 + 20 * len(sizes))
        for size, row in zip(self.sizes, rows):
            self.note({**row, "name": name, "gib": size})
        if not rows:
            self.note({"error": said, "name": name, "gib": self.sizes[0]})


def table(run):
    """Markdown: a line a way, a column a size, seconds a step; and where vrampool is not first."""
    at = {(row["name"], row["gib"]): row for row in run.rows}
    lines = ["| way | lines changed | " + " | ".join(f"{size:g} GiB" for size in run.sizes) + " |",
             "|---|---|" + "---|" * len(run.sizes)]
    for name, _, _, changed in WAYS:
        cells = []
        for size in run.sizes:
            row = at.get((name, size), {})
            median = row.get("median_s")
            cells.append(f"{median:.3f}" if median else row.get("error", "does not fit"))
        lines.append(f"| {name} | {changed} | " + " | ".join(cells) + " |")
    behind = []
    for size in run.sizes:
        ours = [row["median_s"] for row in run.rows
                if row["gib"] == size and row["name"].startswith("vrampool") and "median_s" in row]
        others = [(row["median_s"], row["name"]) for row in run.rows
                  if row["gib"] == size and not row["name"].startswith("vrampool")
                  and "median_s" in row]
        if not ours:
            behind.append(f"{size:g} GiB: vrampool did not run")
        elif others and min(others)[0] < min(ours):
            behind.append(f"{size:g} GiB: {min(others)[1]} takes {min(others)[0]:.3f} s, "
                          f"vrampool {min(ours):.3f} s")
    return "\n".join(lines) + "\n", behind


def plot(run):
    try:
        import matplotlib
    except ImportError:
        print("peers: no plot: matplotlib is not installed", file=sys.stderr)
        return
    matplotlib.use("svg")
    from matplotlib import pyplot
    figure, axes = pyplot.subplots(figsize=(8, 4.5))
    for name, _, ours, _ in WAYS:
        points = sorted((row["gib"], row["median_s"]) for row in run.rows
                        if row["name"] == name and "median_s" in row)
        if points:
            axes.plot(*zip(*points), marker="o", label=name, linewidth=2.5 if ours else 1,
                      linestyle="-" if ours else "--")
    axes.set(xlabel="HBM allowed (GiB)", ylabel="seconds a step",
             title="One step of the same job (needs 35.9 GiB)")
    axes.set_ylim(bottom=0)
    axes.grid(True, alpha=0.3)
    axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.01, 1))
    figure.savefig(run.path("peers.svg"), bbox_inches="tight")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--hbm", default="40,32,28,24,20,16", help="GiB, by commas")
    parser.add_argument("--budget", type=float, default=560, help="seconds for all")
    parser.add_argument("--out", default=os.environ.get("OUT", "."))
    parser.add_argument("--again", metavar="PEERS.JSONL", help="draw what was measured before")
    run = Run(parser.parse_args())
    os.makedirs(run.options.out, exist_ok=True)
    if run.options.again:
        with open(run.options.again, encoding="utf-8") as file:
            run.rows = [json.loads(line) for line in file]
        run.sizes = sorted({row["gib"] for row in run.rows}, reverse=True)
        return show(run)
    if not os.access(os.path.join(run.options.build, "vrampool"), os.X_OK):
        parser.error(f"no vrampool in {run.options.build}: build it first (make), or say --build")
    for name, job, pooled, _ in WAYS:
        (run.measure_pooled if pooled else run.measure_native)(name, job)
    return show(run)


def show(run):
    """Table, plot, and where vrampool is not first."""
    text, behind = table(run)
    with open(run.path("peers.md"), "w", encoding="utf-8") as file:
        file.write(text)
    print("\n" + text)
    plot(run)
    for line in behind:
        print(line)
    return 1 if behind else 0


if __name__ == "__main__":
    sys.exit(main())
