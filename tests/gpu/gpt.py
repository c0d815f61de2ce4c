#!/usr/bin/env python3
"""One training job, plain PyTorch: a GPT of 1.41 G parameters (d 2048, 24 layers, batch 8 x 1024),
fp32 under bf16 autocast, AdamW. It needs 35.9 GiB. It knows nothing of vrampool; the figures that
it prints are compared between runs with and without it.

Each step is timed in two parts, with the device idle in between: forward and backward, optimizer.
At the end come fingerprints of the parameters, gradients, optimizer state and random generators."""
import argparse
import json
import os
import sys
import time


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--d", type=int, default=2048, help="width")
    add("--L", type=int, default=24, help="layers")
    add("--B", type=int, default=8, help="sequences in a batch")
    add("--S", type=int, default=1024, help="tokens in a sequence")
    add("--steps", type=int, default=10)
    add("--opt", choices=["fused", "foreach", "single"], default="fused", help="kind of AdamW")
    add("--ckpt", type=int, default=0, help="1: recompute activations in the backward pass")
    add("--deterministic", type=int, default=0, help="1: only algorithms that repeat exactly")
    add("--hash", type=int, default=1, help="0: no fingerprints at the end")
    add("--stats", type=int, default=0, help="1: the pool's counters of each step, on stderr")
    add("--json", help="also write the results to this file")
    return parser.parse_args()


args = parse()
if args.deterministic:
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch  # noqa: E402 (the setting above comes first)
from gpt_model import GPT, VOCABULARY  # noqa: E402
from measure import fingerprint, median, pool_counters  # noqa: E402


class Counters:
    """Prints what the pool counted since the last call."""

    def __init__(self):
        self.before = pool_counters() if args.stats else None

    def print(self, step):
        if self.before is None:
            return
        now = pool_counters()
        print(f"step {step}:", " ".join(f"{name}={now[name] - self.before[name]}" for name in now
                                        if now[name] != self.before[name]), file=sys.stderr)
        self.before = now


def train(model, optimizer, tokens):
    """Returns the seconds of each step, of the optimizer in it, and the losses."""
    seconds, optimizer_seconds, losses = [], [], []
    counters = Counters()
    for step in range(args.steps):
        torch.cuda.synchronize()
        start = time.perf_counter()
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(tokens, tokens)
        loss.backward()
        torch.cuda.synchronize()
        middle = time.perf_counter()
        optimizer.step()
        if step + 1 < args.steps:  # the last gradients are kept for their fingerprint
            optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        end = time.perf_counter()
        seconds.append(end - start)
        optimizer_seconds.append(end - middle)
        losses.append(loss.detach().clone())
        counters.print(step)
    return seconds, optimizer_seconds, [float(loss) for loss in losses]


def main():
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = True
    if args.deterministic:
        torch.use_deterministic_algorithms(True)
        torch.utils.deterministic.fill_uninitialized_memory = False
    started = time.perf_counter()
    with torch.device("cuda"):
        model = GPT(args.d, args.L, args.S, recompute=bool(args.ckpt))
    kinds = {"fused": {"fused": True}, "foreach": {"foreach": True}, "single": {"foreach": False}}
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, **kinds[args.opt])
    tokens = torch.randint(0, VOCABULARY, (args.B, args.S), device="cuda")
    torch.cuda.synchronize()
    ready = time.perf_counter()
    seconds, optimizer_seconds, losses = train(model, optimizer, tokens)
    warm = min(5, len(seconds) // 2)
    result = {
        "options": vars(args),
        "torch": torch.__version__,
        "parameters": sum(p.numel() for p in model.parameters()),
        "start_s": round(ready - started, 3),
        "step_s": [round(value, 4) for value in seconds],
        "optimizer_s": [round(value, 4) for value in optimizer_seconds],
        "median_s": round(median(seconds[warm:]), 4),
        "median_optimizer_s": round(median(optimizer_seconds[warm:]), 4),
        "losses": [loss.hex() for loss in losses],
        "torch_peak_bytes": torch.cuda.max_memory_allocated(),  # 0 where torch does not cache
    }
    if args.hash:
        parameters = list(model.parameters())
        states = [state[name] for state in optimizer.state.values() for name in sorted(state)
                  if torch.is_tensor(state[name]) and state[name].is_cuda]
        result["hashes"] = {
            "parameters": fingerprint(parameters),
            "gradients": fingerprint(p.grad for p in parameters),
            "optimizer": fingerprint(states),
            "random": fingerprint([torch.get_rng_state(), torch.cuda.get_rng_state()]),
        }
    text = json.dumps(result)
    print(text, flush=True)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            file.write(text + "\n")


main()
