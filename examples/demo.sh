#!/bin/sh
# The demo: one program twice. Without the pool it ends for lack of memory, with it it runs.
#
# Usage: demo.sh [BUILD]. It uses the GPU where there is one, and the emulated driver elsewhere. On
# a GPU the memory is made scarce: another allocation takes all but 24 MiB of the card in the first
# half, and the pool is held to 24 MiB of it in the second.
set -u
build=${1:-build}
vrampool=$build/vrampool
train=$build/examples/train
report=$(mktemp) || exit 1
trap 'rm -f "$report"' EXIT
trap 'exit 130' INT TERM

say() { printf '\n== %s\n' "$1"; }
show() { printf '$ %s\n' "$*"; "$@"; }
fail() { printf '\ndemo: %s\n' "$1" >&2; exit 1; }

# The places at their fullest, from the report.
table() {
    python3 - "$1" <<'END'
import json, sys

with open(sys.argv[1], encoding="utf-8") as file:
    report = json.load(file)
mib = 1 << 20
print(f"{'place':8} {'may hold':>12} {'held at most':>14}")
for place in report["places"]:
    used, size = place["peak_bytes"], place["capacity_bytes"]
    bar = "#" * round(30 * used / size) if size else ""
    print(f"{place['name']:8} {size / mib:8.1f} MiB {used / mib:10.1f} MiB  {bar}")
print(f"The program's blocks: {report['peak_bytes'] / mib:.1f} MiB."
      f" Moved between places: {report['moved_bytes'] / mib:.1f} MiB.")
END
}

if command -v nvidia-smi >/dev/null 2>&1 && nvidia-smi -L >/dev/null 2>&1; then
    echo "Using $(nvidia-smi -L | head -n 1 | sed 's/ (UUID.*//')."
    first='The program on 24 MiB of a card, without the pool'
    second='The same program on 24 MiB of the card and the host memory, with the pool'
    without='run --no-pool' scarce='--leave 24M' with='run --hbm 24M'
else
    echo 'No GPU here: using the emulated driver, which computes on the processor.'
    first='The program on one card of 24 MiB, without the pool'
    second='The same program on eight such cards, with the pool'
    without='run --no-pool --emulate 1x24M' scarce="" with='run --emulate 8x24M'
fi
echo 'The program trains a small network. It needs 153 MiB, and every step touches all of it.'

say "$first"
# The options are several words each, without blanks or patterns in them.
# shellcheck disable=SC2086
show "$vrampool" $without -- "$train" $scarce 2>"$report"
status=$?
cat "$report"
echo "(exit status $status)"
if [ "$status" -ne 1 ] || ! grep -q 'out of memory' "$report"; then
    fail 'it should have run out of memory'
fi

say "$second"
# shellcheck disable=SC2086
show "$vrampool" $with --report "$report" -- "$train" 2>&1 || fail 'it should have run to the end'

say 'Where its data was'
table "$report" || fail 'the report could not be read'
