#!/usr/bin/env python3
"""Many small uses of a card under `vrampool run --verify`, one a process: whatever touches memory
of which we do not know faults.

Usage: mix.py [--build FOLDER] [--budget SECONDS] [--only CASE,…] [--workers N] [CHECK…]

  v  each case of mix_cases.py under --verify: no finding, and native's results to the last bit
  u  all of them in one process with 64 MiB of HBM, nearly all memory on the host

Native runs each case twice. Where it does not repeat, the norms of the results must lie within
native's own spread, or 1e-4. Expected failures are listed below with their reasons; one of them
that succeeds is said, so that it can be struck out. Results are kept as checks.py says; the list of
what was verified, with versions, is mix.md. Exit status 0: all good.
"""
import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor

from checks import OUT, Failed, Skipped, last_line, main, verdict

ORDER = "vu"
SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "mix_cases.py")
POOL = ["--hbm", "6G", "--host", "2G"]
SMALL_POOL = ["--hbm", "64M", "--host", "8G"]
# case: why it cannot succeed under a pool
EXPECTED = {
    "shared_with_a_process": "memory of a pool cannot be shared with another process: CUDA IPC on "
                             "it is refused",
}


def run_cases(bench, names, pool=None, limit_s=200):
    """The results by name, the exit status and what was said on stderr."""
    path = bench.path("mix.json")
    command = [sys.executable, SCRIPT, *names, "--json", path]
    if pool is None or len(names) != 1:
        command.append("--twice")
    if bench.options.device == "cpu":
        command += ["--device", "cpu"]
    status, _, err, _ = bench.run(command, limit_s, pool)
    results = {}
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            results = json.load(file)
    return results, status, err


def difference(native, pooled):
    """None where the results are as they should be; else how they differ."""
    if pooled["hash"] == native["hash"]:
        return None
    pairs = list(zip(native["norms"], native["again"], pooled["norms"]))
    scale = [max(abs(one), 1e-30) for one, _, _ in pairs]
    spread = max(abs(one - again) / most for (one, again, _), most in zip(pairs, scale))
    off = max(abs(one - ours) / most for (one, _, ours), most in zip(pairs, scale))
    if not native["repeats"] and off <= max(2 * spread, 1e-4):
        return None
    return f"off by {off:.1e}; native repeats: {native['repeats']}, its spread {spread:.1e}"


def judge(bench, check, name, native, pooled, trouble):
    """Records one case. `trouble`: what went wrong with the process, or None."""
    if not native:
        raise Failed("native did not come to it")
    if "missing" in native or "failed" in native:
        raise Skipped(f"native: {native.get('failed') or 'missing: ' + native['missing']}")
    if not trouble and "failed" in pooled:
        trouble = pooled["failed"]
    wrong = trouble or difference(native, pooled)
    reason = EXPECTED.get(name)
    figures = {"equal": not trouble and pooled["hash"] == native["hash"],
               "native_repeats": native["repeats"]}
    if reason and wrong:
        bench.record(check, name, True, expected=reason, said=wrong, **figures)
    elif reason:
        bench.record(check, name, True, note="was expected to fail", **figures)
    else:
        bench.record(check, name, not wrong, **figures, **({"said": wrong} if wrong else {}))


def findings(status, err):
    """What verify mode had to say, or None."""
    said = [line for line in err.splitlines() if "verify: " in line]
    if said:
        return "; ".join(said[:3])
    if status != 0:
        return f"exit status {status}: {last_line(err)}"
    return None


def verify(bench, name, native):
    pooled, status, err = run_cases(bench, [name], ["--verify", *POOL])
    judge(bench, "v", name, native.result().get(name), pooled.get(name), findings(status, err))


def write_list(bench):
    """mix.md: what was verified, with the versions."""
    versions = bench.native.get("versions", {})
    lines = [", ".join(f"{name} {version}" for name, version in versions.items()), "",
             "| case | under --verify |", "|---|---|"]
    for row in bench.rows:
        if row["check"] == "v":
            said = row.get("skipped") or row.get("expected") or row.get("said") or row.get("reason")
            lines.append(f"| {row['name']} | {verdict(row)}{': ' + said if said else ''} |")
    with open(os.path.join(OUT, "mix.md"), "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


def check_v(bench):
    wanted = names(bench)
    with ThreadPoolExecutor(bench.options.workers + 1) as workers:
        native = workers.submit(native_results, bench)
        for name in wanted:
            workers.submit(bench.attempt, "v", name, verify, name, native)
    write_list(bench)


def check_u(bench):
    native = native_results(bench)
    pooled, status, err = run_cases(bench, names(bench), SMALL_POOL, 400)
    for name in names(bench):
        trouble = None if name in pooled else f"not reached: exit status {status}: {last_line(err)}"
        bench.attempt("u", name, judge, "u", name, native.get(name), pooled.get(name), trouble)


def names(bench):
    if not bench.options.only:
        _, out, _, _ = bench.run([sys.executable, SCRIPT, "--list"], 60)
        bench.options.only = ",".join(out.split())
    return bench.options.only.split(",")


def native_results(bench):
    """Of all cases; run once."""
    if not bench.native:
        bench.native, _, _ = run_cases(bench, names(bench))
    return bench.native


def more(parser):
    parser.add_argument("--only", help="cases, by commas")
    parser.add_argument("--workers", type=int, default=8, help="cases beside each other")
    parser.add_argument("--device", default="cuda")


if __name__ == "__main__":
    sys.exit(main(__doc__, ORDER, globals(), more))
