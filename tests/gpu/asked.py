#!/usr/bin/env python3
"""What PyTorch says of its memory, in a program that allocates, trains and fails on purpose.

Usage: asked.py --json FILE

Writes {"exact": …, "reserved": …, "device": …}: `exact` must be equal with and without a pool,
`reserved` with and without one where the allocator has the same settings, `device` is what the
driver says, which is the pool's where there is one."""
import argparse
import json
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch  # noqa: E402
from gpt_model import GPT  # noqa: E402

GIB = 1 << 30
KINDS = ("allocated_bytes", "active_bytes", "requested_bytes", "allocation", "active")
FIELDS = ("current", "peak", "allocated", "freed")


def counters():
    """All of memory_stats that counts what the program has asked for."""
    stats = torch.cuda.memory_stats()
    found = {f"{kind}.{pool}.{field}": stats[f"{kind}.{pool}.{field}"] for kind in KINDS
             for pool in ("all", "large_pool", "small_pool") for field in FIELDS}
    found["num_ooms"] = stats["num_ooms"]
    return found


def said():
    return {"memory_allocated": torch.cuda.memory_allocated(),
            "max_memory_allocated": torch.cuda.max_memory_allocated(), **counters()}


def reserved():
    stats = torch.cuda.memory_stats()
    return {name: value for name, value in stats.items()
            if name.startswith(("reserved_bytes", "segment", "inactive_split_bytes"))}


def device():
    free, total = torch.cuda.mem_get_info()
    return {"free": free, "total": total,
            "property": torch.cuda.get_device_properties(0).total_memory}


def shapes():
    """Blocks of many sizes, freed and taken again in another order."""
    sizes = [(i * 7919 % 6000 + 1) * 4096 for i in range(200)]
    blocks = [torch.empty(size, dtype=torch.uint8, device="cuda") for size in sizes]
    del blocks[::2]
    blocks += [torch.empty(size // 2, dtype=torch.uint8, device="cuda") for size in sizes[::3]]
    return blocks


def train(model, optimizer, tokens):
    for _ in range(3):
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(tokens, tokens)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return loss.item()


def refusal(bytes_wanted):
    """The error of an allocation: its class and its text, sizes aside. None: it was had."""
    try:
        torch.empty(bytes_wanted, dtype=torch.uint8, device="cuda")
    except torch.OutOfMemoryError as error:
        text = str(error)
        shape = re.sub(r"\d+(\.\d+)? (B|[KMGT]i?B|bytes)", "#", text)
        shape = re.sub(r"process \d+", "process N", shape)
        capacity = re.search(r"total capacity of (\d+\.\d+) GiB", text)
        return {"class": type(error).__name__, "shape": shape,
                "capacity": capacity and float(capacity.group(1))}
    return None


def limited():
    """A share of the card as a limit: the error comes, and goes with the limit."""
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(min(1.0, 8 * GIB / total))
    error = refusal(12 * GIB)
    inside = refusal(2 * GIB)
    torch.cuda.set_per_process_memory_fraction(1.0)
    return {"class": error and error["class"], "inside": inside}


def snapshot():
    """What a snapshot knows of live blocks; segments depend on the allocator's settings."""
    blocks = [block for segment in torch.cuda.memory_snapshot() for block in segment["blocks"]
              if block["state"] == "active_allocated"]
    return {"blocks": len(blocks), "bytes": sum(block["size"] for block in blocks),
            "requested": sum(block["requested_size"] for block in blocks)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", required=True)
    path = parser.parse_args().json
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = False
    exact, kept = {}, {"device": {}, "reserved": {}}

    def note(when):
        exact[when] = said()
        kept["device"][when], kept["reserved"][when] = device(), reserved()

    torch.ones(1, device="cuda")
    note("start")
    blocks = shapes()
    note("shapes")
    del blocks
    note("freed")
    torch.cuda.empty_cache()
    note("empty cache")
    with torch.device("cuda"):
        model = GPT(1024, 6, 256, vocabulary=8192)
        tokens = torch.randint(0, 8192, (4, 256))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    exact["loss"] = train(model, optimizer, tokens).hex()
    note("trained")
    exact["snapshot"] = snapshot()
    torch.cuda.reset_peak_memory_stats()
    note("peak reset")
    error = refusal(1 << 44)
    kept["device"]["capacity in the error"] = error and error.pop("capacity")
    exact["error"] = error
    note("out of memory")
    exact["limit"] = limited()
    note("limited")
    exact["summary"] = [line.split("|")[1].strip() for line in
                        torch.cuda.memory_summary().splitlines() if line.count("|") > 4]
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"exact": exact, **kept}, file)


if __name__ == "__main__":
    main()
