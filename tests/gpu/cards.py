#!/usr/bin/env python3
"""What a pool over several real cards promises, on a machine that has them; peers.sh calls this.

Usage: cards.py [--build FOLDER] [--budget SECONDS] [--dry] [CHECK…]

  t  topo, info and bench beside nvidia-smi; rates within 20 % of machines/hgx-h200-8; the
     conformance suite with a peer; mapping calls, one card at work and all
  g  a job with 24 GiB on card 0, the rest on peers or on the host: native's results to the last
     bit; over the peers at most 1.05 times the time in HBM
  k  two programs, each on its card: one is killed, the other goes on, native's results
  h  a job larger than a card, unchanged, and split by layers over the cards by hand

--dry is for one card: the peer is then a second place on the same card (--lend 0:16G), whose rates
prove nothing. Each pool is told its host memory, since that of such machines grows with its use.
Nothing here uses NVLink multicast; NCCL and torch keep their settings against it. Results are kept
as checks.py says. Exit status 0: all good.
"""
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time

from checks import EQUAL_JOB, JOB, ROOT, Failed, Skipped, differences, last_line, main

ORDER = "tgkh"
HBM, HOST, SMALL_HOST = "24G", "32G", "4G"
SPLIT_JOB = os.path.join(ROOT, "tests", "gpu", "gpt_split.py")
TIMED = ("--steps", "20", "--hash", "0")
LAYERS_A_CARD = 20  # of --d 5120: 108 GiB a card with the rest, and no card has room for two
LARGE = ("--d", "5120", "--B", "8", "--S", "2048", "--ckpt", "1", "--steps", "4")


def info(bench):
    status, out, err, _ = bench.run([bench.tool("vrampool"), "info", "--json", *bench.always], 60)
    if status != 0:
        raise Failed(f"info: exit status {status}: {last_line(err)}")
    return json.loads(out)


def card_count(bench):
    found = sum(place["name"].startswith("card") for place in info(bench)["places"])
    if found < 2 and not bench.options.dry:
        raise Skipped(f"{found} card; --dry is for one")
    return found


def lenders(bench):
    return "0:16G" if bench.options.dry else f"1-{card_count(bench) - 1}"


def show(bench, *command):
    """Prints what a command says; it need not be there."""
    if not shutil.which(command[0]):
        print(f"(no {command[0]})")
        return
    _, out, err, _ = bench.run(list(command), 60)
    print(f"$ {' '.join(command)}\n{out}{err}", flush=True)


def ask(bench, *words):
    """JSON from a command of vrampool."""
    status, out, err, _ = bench.run([bench.tool("vrampool"), *words, "--json"], 200)
    if status != 0:
        raise Failed(f"{words[0]}: exit status {status}: {last_line(err)}")
    return json.loads(out)


def check_t(bench):
    for command in (("nvidia-smi", "topo", "-m"), ("nvidia-smi", "nvlink", "-s"),
                    (bench.tool("vrampool"), "topo", *bench.always),
                    (bench.tool("vrampool"), "info", *bench.always)):
        show(bench, *command)
    bench.attempt("t", "rates", check_rates)
    bench.attempt("t", "conformance with a peer", check_peer)
    bench.attempt("t", "mapping calls", check_remap)


def check_rates(bench):
    """Pairs of cards and of card and host against the machine file, which `topo` reads."""
    cards = card_count(bench)
    model = {kind: pair["gbps"] for pair in ask(bench, "topo", "--emulate", "hgx-h200-8")["pairs"]
             for kind in [kind_of(pair)]}
    measured = ask(bench, "bench", "--size", "2G", "--rounds", "5", *bench.always)
    off = {}
    for pair in measured["pairs"]:
        kind = kind_of(pair)
        if kind in model and not 0.8 <= pair["copy_gbps"] / model[kind] <= 1.2:
            off[f"{pair['from']} to {pair['to']}"] = pair["copy_gbps"]
    peers = [pair for pair in measured["pairs"] if kind_of(pair) == "cards"]
    bench.record("t", "rates within 20 % of hgx-h200-8", not off, cards=cards, off=off,
                 pairs=len(measured["pairs"]), peers=peers[:2], model=model, info=measured)


def kind_of(pair):
    """`cards`, `to host`, `from host`, or `within`."""
    ends = [pair[end].rstrip("0123456789") for end in ("from", "to")]
    if ends == ["card", "card"]:
        return "within" if pair["from"] == pair["to"] else "cards"
    return "to host" if ends[1] == "host" else "from host"


def alone(bench):
    """How a program runs on the driver alone, which may be an emulated one."""
    return ["--no-pool"] if bench.always else None


def check_peer(bench):
    card_count(bench)
    if bench.options.dry:
        raise Skipped("needs a second card")
    program = bench.tool("tests", "conformance", "conformance")
    status, out, err, _ = bench.run([program, "--notes", "--far", "1"], 90, alone(bench))
    said = [line for line in out.splitlines() if line.startswith(("FAIL", "skip"))]
    bench.record("t", "conformance with a peer", status == 0, count=last_line(out + err), said=said)


def check_remap(bench):
    status, out, err, _ = bench.run([bench.tool("bench", "remap")], 90, alone(bench))
    if status != 0:
        raise Failed(f"exit status {status}: {last_line(err)}")
    bench.record("t", "mapping calls, one card and all", True, **json.loads(out))


def check_g(bench):
    lend = lenders(bench)
    native = bench.native_job()
    in_hbm = bench.job(TIMED, 60)["median_s"]
    ways = (("peers", ["--lend", lend, "--host", SMALL_HOST], 1.05 * in_hbm),
            ("the host", ["--lend", "none", "--host", HOST], None))
    for name, options, most_s in ways:
        bench.attempt("g", f"the rest on {name}", one_way, f"the rest on {name}",
                      ["--hbm", HBM, *options], native, None if bench.options.dry else most_s)


def one_way(bench, name, pool, native, most_s):
    pooled = bench.job(EQUAL_JOB, 150, pool)
    unequal = differences(native, pooled)
    bench.record("g", f"{name}: equal", not unequal, different=unequal,
                 places=pooled["report"]["places"], report=pooled["report"])
    timed = bench.job(TIMED, 120, pool)
    bench.record("g", f"{name}: time", most_s is None or timed["median_s"] <= most_s,
                 median_s=timed["median_s"], most_s=most_s, step_s=timed["step_s"],
                 moved_bytes=timed["report"]["moved_bytes"], report=timed["report"])


def start_on_card(bench, card, *options):
    """Starts the job on one card alone; its stderr has a line a step."""
    command = [bench.tool("vrampool"), "run", "--lend", "none", "--hbm", HBM, "--host", HOST,
               "--log", "info", "--", sys.executable, JOB, "--stats", "1", *options]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                            env={**os.environ, "CUDA_VISIBLE_DEVICES": str(card)},
                            start_new_session=True)


def wait_for(process, pattern, limit_s):
    """Reads the process's stderr until a line has the pattern."""
    deadline, seen = time.monotonic() + limit_s, b""
    while time.monotonic() < deadline:
        ready, _, _ = select.select([process.stderr], [], [], 1)
        part = os.read(process.stderr.fileno(), 65536) if ready else b""
        seen += part
        if re.search(pattern, seen):
            return
        if ready and not part:
            break
    said = last_line(seen.decode(errors="replace"))
    raise Failed(f"no line with {pattern!r}; last words: {said}")


def check_k(bench):
    """The one to be killed starts first, and is killed when the other has started its steps."""
    card_count(bench)
    native = bench.native_job()
    other = 0 if bench.options.dry else 1
    path = bench.path("survivor.json")
    victim = start_on_card(bench, other, "--steps", "10000")
    survivor = None
    try:
        wait_for(victim, rb"step 3:", 120)
        survivor = start_on_card(bench, 0, *EQUAL_JOB, "--json", path)
        wait_for(survivor, rb"step 2:", 120)
        os.killpg(victim.pid, signal.SIGKILL)
        killed = time.monotonic()
        _, err = survivor.communicate(timeout=120)
        if survivor.returncode != 0:
            raise Failed(f"the other ended with {survivor.returncode}: "
                         f"{last_line(err.decode(errors='replace'))}")
    finally:
        for process in (victim, survivor):
            if process and process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    with open(path, encoding="utf-8") as file:
        result = json.load(file)
    unequal = differences(native, result)
    bench.record("k", "one is killed, the other goes on", not unequal, different=unequal,
                 after_s=round(time.monotonic() - killed, 1), step_s=result["step_s"])
    show(bench, "nvidia-smi", "--query-gpu=index,memory.used", "--format=csv")


def check_h(bench):
    if bench.options.dry:
        raise Skipped("needs several cards")
    cards = card_count(bench)
    layers = ("--L", str(LAYERS_A_CARD * cards))
    tokens = 8 * 2048
    by_hand = bench.job((*LARGE, *layers, "--cards", str(cards)), 200, script=SPLIT_JOB)
    bench.record("h", "split by layers by hand", True, median_s=by_hand["median_s"],
                 tokens_a_second=round(tokens / by_hand["median_s"]),
                 lines_changed=by_hand["lines_changed"], step_s=by_hand["step_s"],
                 parameters=by_hand["parameters"])
    pooled = bench.job((*LARGE, *layers, "--hash", "0"), 250,
                       ["--lend", lenders(bench), "--host", HOST])
    bench.record("h", "unchanged, over all cards", True, median_s=pooled["median_s"],
                 tokens_a_second=round(tokens / pooled["median_s"]), lines_changed=0,
                 over_by_hand=round(by_hand["median_s"] / pooled["median_s"], 3),
                 peak_bytes=pooled["report"]["peak_bytes"], step_s=pooled["step_s"],
                 places=pooled["report"]["places"], report=pooled["report"])


def more(parser):
    parser.add_argument("--dry", action="store_true", help="one card, with two places on it")


if __name__ == "__main__":
    sys.exit(main(__doc__, ORDER, globals(), more))
