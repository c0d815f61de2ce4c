#!/usr/bin/env python3
"""The job of tests/gpu/gpt_model.py, trained in one of the ways in which people save memory today.

Prints a line of JSON per limit, from the largest down: `{"way", "hbm_bytes", "step_s", "median_s",
"peak_bytes", "loss"}`, or `"error"` in place of the figures where the limit is too small; smaller
ones are not tried then. --limit caps PyTorch's own allocator, which is what these ways have.
--device cpu, with a small model, tries the script itself."""
import argparse
import contextlib
import json
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tests/gpu"))

import torch  # noqa: E402
from gpt_model import GPT, VOCABULARY  # noqa: E402

WAYS = ("plain", "save_on_cpu", "fsdp", "cpu_offload")
GIB = 1 << 30


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--way", choices=WAYS, default="plain")
    add("--ckpt", action="store_true", help="recompute activations in the backward pass")
    add("--limit", type=float, nargs="*", default=[], metavar="GIB", help="memory allowed, in turn")
    add("--steps", type=int, default=8, help="for each limit")
    add("--warm", type=int, default=3, help="of these, the first ones, which are not counted")
    add("--d", type=int, default=2048, help="width")
    add("--L", type=int, default=24, help="layers")
    add("--B", type=int, default=8, help="sequences in a batch")
    add("--S", type=int, default=1024, help="tokens in a sequence")
    add("--device", default="cuda")
    return parser.parse_args()


class Device:
    """What differs between a card and, for trials, the CPU."""

    def __init__(self, name):
        self.name = name
        self.card = name != "cpu"

    def limit(self, gib):
        if not self.card:
            return
        torch.cuda.empty_cache()
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, gib * GIB / total))
        torch.cuda.reset_peak_memory_stats()

    def wait(self):
        if self.card:
            torch.cuda.synchronize()

    def peak_bytes(self):
        return torch.cuda.max_memory_reserved() if self.card else 0


def shard(model, device):
    """FSDP2 over one rank, with parameters, gradients and optimizer state on the host."""
    import torch.distributed as dist
    from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard

    for name, value in (("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", "29511"), ("RANK", "0"),
                        ("WORLD_SIZE", "1")):
        os.environ.setdefault(name, value)
    dist.init_process_group("cpu:gloo,cuda:nccl" if device.card else "gloo")
    options = {"mp_policy": MixedPrecisionPolicy(param_dtype=torch.bfloat16,
                                                 reduce_dtype=torch.bfloat16)}
    if device.card:
        torch.cuda.set_device(0)
        options["offload_policy"] = CPUOffloadPolicy()
    else:
        from torch.distributed.device_mesh import init_device_mesh
        options["mesh"] = init_device_mesh("cpu", (1,))
    model = model.cpu()
    for layer in model.layers:
        fully_shard(layer, **options)
    fully_shard(model, **options)
    return model


def prepare(args, device):
    """The model and its optimizer."""
    with torch.device("cpu" if args.way == "fsdp" else device.name):
        model = GPT(args.d, args.L, args.S, recompute=args.ckpt)
    if args.way == "fsdp":
        model = shard(model, device)
    if args.way == "cpu_offload":
        from torchao.optim import CPUOffloadOptimizer
        optimizer = CPUOffloadOptimizer(model.parameters(), torch.optim.AdamW, fused=True, lr=1e-4)
    else:
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    return model, optimizer


def surroundings(args, device):
    """What the forward pass runs under."""
    if args.way == "save_on_cpu":
        return torch.autograd.graph.save_on_cpu(pin_memory=device.card)
    return contextlib.nullcontext()


def train(args, device, job, tokens):
    """Returns the seconds of each step and the last loss."""
    model, optimizer = job
    seconds = []
    for _ in range(args.steps):
        device.wait()
        start = time.perf_counter()
        with surroundings(args, device), torch.autocast(device.name, torch.bfloat16):
            loss = model(tokens, tokens)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        device.wait()
        seconds.append(time.perf_counter() - start)
    return seconds, float(loss.detach())


def main():
    args = parse()
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = True
    device = Device(args.device)
    job = None
    for gib in sorted(args.limit, reverse=True) or [float("inf")]:
        row = {"way": args.way + ("+ckpt" if args.ckpt else ""),
               "hbm_bytes": None if gib == float("inf") else int(gib * GIB)}
        try:
            device.limit(gib)
            if job is None:
                job = prepare(args, device)
                tokens = torch.randint(0, VOCABULARY, (args.B, args.S), device=device.name)
            seconds, loss = train(args, device, job, tokens)
            counted = sorted(seconds[min(args.warm, len(seconds) - 1):])
            row.update(step_s=[round(s, 4) for s in seconds],
                       median_s=round(counted[len(counted) // 2], 4),
                       peak_bytes=device.peak_bytes(), loss=loss)
        except torch.OutOfMemoryError:
            row["error"] = "out of memory"
        print(json.dumps(row), flush=True)
        if "error" in row:
            return


main()
