#!/usr/bin/env python3
"""Two ranks of DistributedDataParallel on two cards: without the pool, with it around torchrun, and
with torchrun around it, at a limit below what the job needs. Losses must be those of the first run,
each rank's report must name its own card, and something must have moved. Prints a line a run.

Usage: ranks.py VRAMPOOL [HBM]    HBM: the limit on each card, by default 3G
Without cards the ranks run on the CPU (to try this script): nothing is then pooled or checked."""
import glob
import json
import os
import subprocess
import sys
import tempfile
import time

RANKS, STEPS, WIDTH, LAYERS = 2, 8, 4096, 12  # 0.2 G parameters: 3 GiB with gradients and AdamW


def be_a_rank():
    import torch
    rank = int(os.environ["LOCAL_RANK"])
    pooled = torch.cuda.is_available()
    device = torch.device("cuda", rank) if pooled else torch.device("cpu")
    if pooled:
        torch.cuda.set_device(device)
    width = WIDTH if pooled else 64
    torch.distributed.init_process_group("nccl" if pooled else "gloo")
    torch.manual_seed(1)
    layers = [torch.nn.Linear(width, width, device=device) for _ in range(LAYERS)]
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*layers),
                                                      device_ids=[rank] if pooled else None)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    torch.manual_seed(2 + rank)
    losses = []
    for _ in range(STEPS):
        x = torch.randn(256, width, device=device)
        loss = (model(x) - x).pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item().hex())
    with open(os.path.join(os.environ["RANKS_OUT"], f"losses.{rank}"), "w", encoding="utf-8") as f:
        json.dump({"cards": torch.cuda.device_count(), "losses": losses}, f)
    torch.distributed.destroy_process_group()


def run(name, command):
    """Returns what each rank wrote, and each rank's report."""
    with tempfile.TemporaryDirectory() as folder:
        started = time.monotonic()
        words = [word.replace("REPORT", os.path.join(folder, "r.json")) for word in command]
        subprocess.run(words, check=True, env={**os.environ, "RANKS_OUT": folder})
        print(f"{name}: {time.monotonic() - started:.1f} s", flush=True)
        ranks, reports = [], []
        for kind, found in ("losses", ranks), ("r.json", reports):
            for path in sorted(glob.glob(os.path.join(folder, kind + ".*"))):
                with open(path, encoding="utf-8") as file:
                    found.append(json.load(file))
        return ranks, reports


def main(vrampool, hbm="3G"):
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(RANKS)]
    pool = [vrampool, "run", "--hbm", hbm, "--report", "REPORT", "--"]
    me = os.path.abspath(__file__)
    native, _ = run("native", [*torchrun, me])
    ways = {"run -- torchrun": [*pool, *torchrun, me],
            "torchrun run --": [*torchrun, "--no-python", *pool, sys.executable, me]}
    wrong = []
    for name, command in ways.items():
        ranks, reports = run(name, command)
        if [rank["losses"] for rank in ranks] != [rank["losses"] for rank in native]:
            wrong.append(f"{name}: losses differ from native's: {ranks}, {native}")
        if native[0]["cards"] and any(rank["cards"] != RANKS for rank in ranks):
            wrong.append(f"{name}: a rank sees other cards than the ranks': {ranks}")
        for rank, report in enumerate(reports):
            if report["places"][0]["name"] != f"card{rank}" or not report["moved_bytes"]:
                wrong.append(f"{name}: rank {rank} has {report}")
        if native[0]["cards"] and len(reports) != RANKS:
            wrong.append(f"{name}: {len(reports)} reports")
    print("\n".join(wrong) or "ranks: fine")
    return 1 if wrong else 0


if __name__ == "__main__":
    if "RANKS_OUT" in os.environ:
        be_a_rank()
    else:
        sys.exit(main(*sys.argv[1:]))
