#!/usr/bin/env python3
"""Runs what the foundation promises on a real GPU, the most important first.

Usage: foundation.py [--build FOLDER] [--budget SECONDS] [CHECK...]

  i  what `vrampool info` finds can be pooled
  b  a job larger than the memory it may use runs, with native's results to the last bit
  a  unlimited, it takes at most 1.02 of native's time
  d  the conformance suite passes on the real driver
  e  verify mode catches a planted overrun, and finds nothing in the job
  f  what a launch and an allocation cost
  g  without the listener PyTorch still runs, with the same results
  c  a job larger than the card runs

Results are kept as checks.py says. Needs torch but for d and f. Exit status 0: all good.
"""
import json
import statistics
import sys

from checks import EQUAL_JOB, HUGE, Failed, differences, last_line, main

ORDER = "ibadefgc"


def check_i(bench):
    status, out, err, _ = bench.run([bench.tool("vrampool"), "info", "--json", *bench.always], 60)
    if status != 0:
        raise Failed(f"exit status {status}: {last_line(err)}")
    info = json.loads(out)
    unusable = [place["name"] for place in info["places"] if not place["usable"]]
    bench.record("i", "every place can be pooled", not unusable and not info["problems"],
                 info=info, unusable=unusable)


def check_b(bench):
    native = bench.native_job()
    unequal = differences(native, bench.job(EQUAL_JOB, 90))
    bench.record("b", "native equals native", not unequal, different=unequal,
                 median_s=native["median_s"])
    for size in ("24G", "32G"):
        try:
            bench.compare("b", f"--hbm {size}", ["--hbm", size])
        except Failed as reason:
            bench.record("b", f"--hbm {size}", False, reason=str(reason))


def check_a(bench):
    options = ("--steps", "25", "--hash", "0")
    native, pooled = [], []
    for _ in range(3):
        native.append(bench.job(options, 60)["median_s"])
        pooled.append(bench.job(options, 60, [])["median_s"])
    ratio = statistics.median(pooled) / statistics.median(native)
    bench.record("a", "unlimited, time over native's", ratio <= 1.02, ratio=round(ratio, 4),
                 native_s=native, pooled_s=pooled)


def check_d(bench):
    program = bench.tool("tests", "conformance", "conformance")
    driver = ["--driver", bench.tool("src", "libvrampool-emu.so")] if bench.always else []
    env = {"VRAMPOOL_EMULATE": bench.always[1]} if bench.always else None
    status, out, err, _ = bench.run([program, *driver, "--notes"], 90, env=env)
    said = [line for line in out.splitlines() if line.startswith(("FAIL", "skip"))]
    bench.record("d", "conformance", status == 0, status=status, count=last_line(out + err),
                 said=said[:30])


def check_e(bench):
    overrun = bench.tool("tests", "programs", "overrun")
    status, _, err, _ = bench.run([overrun], 60, ["--verify"])
    bench.record("e", "nothing found in a good program", status == 0, status=status,
                 said=last_line(err))
    status, _, err, _ = bench.run([overrun, "--plant"], 60, ["--verify"])
    said = [line for line in err.splitlines() if "overrun_fill" in line]
    bench.record("e", "a page past the end is caught", status != 0 and bool(said), status=status,
                 said=said[:3] or last_line(err))
    result = bench.job(("--steps", "2", "--hash", "0"), 120, ["--verify"])
    bench.record("e", "nothing found in the job", True, step_s=result["step_s"],
                 report=result["report"])
    ratio = result["report"]["touch_p99_percent"]
    bench.record("e", "may touch at most twice what parameters name", 0 < ratio <= 200,
                 p99_percent=ratio)


def check_f(bench):
    launch = bench.tool("bench", "launch")
    status, out, err, _ = bench.run([launch], 60, [])
    if status != 0:
        raise Failed(f"exit status {status}: {last_line(err)}")
    figures = json.loads(out)
    if not figures["pooled"]:
        raise Failed("the benchmark did not find the driver behind the preloaded library")
    for name, key, most in (("launch, added", "added_ns", 150),
                            ("launch, added at p99", "added_p99_ns", 3000),
                            ("alloc and free, 512 KiB", "alloc_free_512k_ns", 500),
                            ("alloc and free, 8 MiB", "alloc_free_8m_ns", 500)):
        bench.record("f", name, figures[key]["median"] <= most, most_ns=most, **figures[key])
    bench.record("f", "the driver's own launch", True, **figures["native_launch_ns"],
                 p99=figures["native_launch_p99_ns"]["median"])


def check_g(bench):
    bench.compare("g", "--hbm 24G, no listener", ["--hbm", "24G"], {"VRAMPOOL_LISTENER": "0"})


def check_c(bench):
    result = bench.job((*HUGE, "--steps", "3", "--hash", "0"), 200, [])
    bench.record("c", "158 GiB on one card", True, step_s=result["step_s"],
                 losses=result["losses"], parameters=result["parameters"], report=result["report"])


if __name__ == "__main__":
    sys.exit(main(__doc__, ORDER, globals()))
