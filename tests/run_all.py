#!/usr/bin/env python3
"""Runs every kind of test, one build folder after another, and counts.

The last line is `N passed, N failed, N skipped`. A test program that uses cmocka or unittest
counts once for each of its cases; any other counts as one. A folder that does not build is one
failure. Exit status 0 only if nothing failed."""
import argparse
import json
import os
import re
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SANITIZED = {
    "ASAN_OPTIONS": "detect_leaks=1:abort_on_error=0",
    "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
    "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1",
}

# name: (environment of the set-up, options of meson setup, suites to run; None: build only)
STAGES = {
    "plain": ({}, [], []),
    "asan": ({}, ["-Db_sanitize=address,undefined"], ["unit", "conformance", "sim", "stress"]),
    "tsan": ({}, ["-Db_sanitize=thread"], ["unit", "stress"]),
    "clang": ({"CC": "clang"}, ["-Doptimization=0"], None),
}
CMOCKA_CASE = re.compile(r"^\[\s+(OK|FAILED|SKIPPED)\s+\] (\w+)$", re.MULTILINE)
# unittest on stderr: `Ran 21 tests`, `FAIL: name (…)`, `skipped=2`, and when verbose the reasons.
UNITTEST_RAN = re.compile(r"^Ran (\d+) tests? in", re.MULTILINE)
UNITTEST_FAILED = re.compile(r"^(?:FAIL|ERROR): (\w+)", re.MULTILINE)
UNITTEST_SKIPPED = re.compile(r"^(?:OK|FAILED) \(.*skipped=(\d+)", re.MULTILINE)
UNITTEST_REASON = re.compile(r"^(\w+) .*\.\.\. skipped ['\"](.*)['\"]$", re.MULTILINE)


class Count:
    """What happened so far, and the lines that say what failed or was skipped."""

    def __init__(self):
        self.passed = self.failed = self.skipped = 0
        self.notes = []

    def fail(self, note):
        self.failed += 1
        self.notes.append("FAILED  " + note)

    def skip(self, note):
        self.skipped += 1
        self.notes.append("skipped " + note)

    def add_cases(self, where, cases, output):
        """Counts a cmocka program's cases; its failures are listed twice in the output."""
        seen = set()
        for result, case in cases:
            if (result, case) in seen:
                continue
            seen.add((result, case))
            if result == "OK":
                self.passed += 1
            elif result == "FAILED":
                self.fail(f"{where}: {case}")
            else:
                self.skip(f"{where}: {case}{reason_before(output, case)}")

    def add_unittest(self, where, ran, stderr):
        """Counts a unittest program's cases."""
        failed = UNITTEST_FAILED.findall(stderr)
        skipped = sum(int(number) for number in UNITTEST_SKIPPED.findall(stderr))
        reasons = UNITTEST_REASON.findall(stderr)
        for name in failed:
            self.fail(f"{where}: {name}")
        for name, reason in reasons[:skipped]:
            self.skip(f"{where}: {name}: {reason}")
        for _ in range(skipped - len(reasons)):
            self.skip(f"{where}: a case; run it alone to see why")
        self.passed += ran - len(failed) - skipped

    def add(self, where, test):
        """Counts one test of meson's log."""
        output, errors = test.get("stdout") or "", test.get("stderr") or ""
        cases = CMOCKA_CASE.findall(output)
        ran = UNITTEST_RAN.search(errors)
        before = self.failed
        bad = test["result"] not in ("OK", "SKIP", "EXPECTEDFAIL")
        if cases:
            self.add_cases(where, cases, output)
        elif ran:
            self.add_unittest(where, int(ran.group(1)), errors)
        elif test["result"] == "SKIP":
            last = output.strip().splitlines()[-1:] or ["no reason given"]
            self.skip(f"{where}: {last[0]}")
        elif not bad:
            self.passed += 1
        if bad and self.failed == before:
            self.fail(f"{where}: {test['result'].lower()}, exit status {test.get('returncode')}")
        if bad:
            print(output[-6000:], errors[-6000:], sep="\n", flush=True)


def reason_before(output, case):
    """The line that a skipped case printed, as `: reason`."""
    lines = output.splitlines()
    start = next((i for i, line in enumerate(lines)
                  if "RUN" in line and line.endswith(" " + case)), None)
    said = lines[start + 1] if start is not None and start + 1 < len(lines) else ""
    return "" if not said or said.startswith("[") else ": " + said


def have(program):
    return any(os.access(os.path.join(folder, program), os.X_OK)
               for folder in os.environ.get("PATH", "").split(":"))


def run_quietly(command, env=None):
    """Runs a command; prints its output only if it fails. True: exit status 0."""
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **(env or {})},
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        print(done.stdout[-8000:], flush=True)
    return done.returncode == 0


def build(folder, stage):
    env, options, _ = STAGES[stage]
    if not os.path.exists(os.path.join(ROOT, folder, "build.ninja")):
        if not run_quietly(["meson", "setup", folder, *options], env):
            return False
    return run_quietly(["ninja", "-C", folder])


def run_suites(folder, suites):
    """Runs meson's tests and returns its log, one dict a test."""
    log = os.path.join(ROOT, folder, "meson-logs", "testlog.json")
    if os.path.exists(log):
        os.remove(log)
    command = ["meson", "test", "-C", folder, "--no-rebuild", "--num-processes", "2"]
    for suite in suites:
        command += ["--suite", suite]
    done = subprocess.run(command, cwd=ROOT, env={**SANITIZED, **os.environ}, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if not os.path.exists(log):
        print(done.stdout, flush=True)
        return [] if "No suitable tests" in done.stdout or "No tests" in done.stdout else None
    with open(log, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]


def run_stage(stage, folder, count):
    started = time.monotonic()
    passed, failed = count.passed, count.failed
    suites = STAGES[stage][2]
    if stage == "clang" and not have("clang"):
        count.skip("clang: not installed, so nothing was compiled with it")
        return
    print(f"== {stage} ({folder})", flush=True)
    if not build(folder, stage):
        count.fail(f"{stage}: {folder} does not build")
        return
    if suites is None:
        count.passed += 1
    else:
        tests = run_suites(folder, suites)
        if tests is None:
            count.fail(f"{stage}: meson test could not run")
        for test in tests or []:
            count.add(f"{stage}: {test['name']}", test)
    print(f"   {count.passed - passed} passed, {count.failed - failed} failed,"
          f" {time.monotonic() - started:.0f} s", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build", help="the plain build folder")
    parser.add_argument("--only", choices=list(STAGES), help="one stage alone")
    args = parser.parse_args()
    count = Count()
    for stage in [args.only] if args.only else STAGES:
        run_stage(stage, args.build if stage == "plain" else "build-" + stage, count)
    print("\n".join(count.notes))
    print(f"{count.passed} passed, {count.failed} failed, {count.skipped} skipped")
    return 1 if count.failed or not count.passed else 0


if __name__ == "__main__":
    sys.exit(main())
