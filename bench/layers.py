#!/usr/bin/env python3
"""One job that no card of a machine can hold, two ways: pooled, and split by layers over the cards
by hand. Simulated: nothing of it is measured.

Usage: layers.py VRAMPOOL TRACE [--machine double-cube-8x24] [--bytes 150G] [--slower 4.97]
                 [--cuts N,N,…] [--json] [--keep FILE]

The job is scaled up from a recorded one. With k = bytes / peak of the recorded job, every block is
k times as large and every operation takes k times as long: as if each layer stood for k of them. On
top of that operations take --slower times as long, because the machine's cards are not the one on
which it was recorded (4.97: an H200 streams its memory at 4477 GB/s, a card of the double cube at
900). Both ways use the same operations.

Pooled: `vrampool sim` on the scaled trace; one card computes, all others lend.

Split: parameters in the order of their first use are cut into as many runs as there are cards, each
with its gradients, optimizer state and activations, where the fullest card is least full; or in
front of the parameters --cuts, counted from 0. An
operation runs on the card of the layer that it belongs to; one that updates parameters of several
cards is divided among them. Data that another card needs is copied there over
the route, when the operation before it has ended. Each card runs its operations in order, cards run
beside each other as the data allows, and the step ends when all have. Launching costs nothing. So
the split is predicted at its best.

Lines: those that tests/gpu/gpt_split.py marks, the same model split by hand."""
import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import namedtuple

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
SPLIT_SOURCE = os.path.join(ROOT, "tests", "gpu", "gpt_split.py")
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}

Op = namedtuple("Op", "name ns blocks line")  # blocks: numbers, each once; line: in the trace


class Trace:
    """Blocks by number, each birth another one; and events in order."""

    def __init__(self, path):
        self.lines = open(path, encoding="utf-8").read().splitlines()
        self.bytes, self.born, self.died, self.ops = [], [], [], []
        living = {}
        for number, line in enumerate(self.lines):
            words = line.split()
            if line.startswith("alloc"):
                living[words[1]] = len(self.bytes)
                self.bytes.append(int(words[2]))
                self.born.append(len(self.ops))
                self.died.append(None)
            elif line.startswith("free"):
                self.died[living.pop(words[1])] = len(self.ops)
            elif line.startswith("op"):
                blocks = list(dict.fromkeys(living[word] for word in words[5:] if word in living))
                self.ops.append(Op(words[4], int(words[3]), blocks, number))

    def last_step(self):
        """The first op of the last step: the trace ends with at least two equal ones. The longest
        sequence that comes twice at its end, unless that is a shorter one repeated."""
        names = [op.name for op in self.ops]
        for length in range(len(names) // 2, 0, -1):
            if names[-length:] != names[-2 * length:-length]:
                continue
            run = names[-length:]
            return len(names) - min(part for part in range(1, length + 1)
                                    if length % part == 0 and run[part:] == run[:length - part])
        sys.exit("layers: the trace does not end with two equal steps")

    def scaled(self, path, size, time):
        with open(path, "w", encoding="utf-8") as file:
            for line in self.lines:
                words = line.split()
                if line.startswith("alloc"):
                    words[2] = str(round(int(words[2]) * size))
                elif line.startswith("op"):
                    words[3] = str(round(int(words[3]) * time))
                print(*words, file=file)


class Split:
    """The last step of a trace, its parameters cut over cards."""

    def __init__(self, trace, in_hbm_ns, cards, rates):
        self.trace, self.cards, self.rates = trace, cards, rates
        first = trace.last_step()
        self.ops = trace.ops[first:]
        self.first = first
        idle = sum(op.ns for op in self.ops) - in_hbm_ns  # the host's, before the step begins
        longest = max(range(len(self.ops)), key=lambda i: self.ops[i].ns)
        self.ops[longest] = self.ops[longest]._replace(ns=max(0, self.ops[longest].ns - idle))
        self.dies = {}  # blocks, by the operation behind their death
        for block, at in enumerate(trace.died):
            if at is not None and at >= first:
                self.dies.setdefault(at - first, []).append(block)
        self.find_layers()
        self.place_ops()

    def stays(self, block):
        return self.trace.born[block] < self.first and self.trace.died[block] is None

    def find_layers(self):
        """`layer` of each parameter, its number in the order of first use, and of its optimizer
        state. An operation on three or more blocks that stay updates parameters; what only such
        operations touch is state. What else stays (a library's workspace) is on each card."""
        users = {}
        for number, op in enumerate(self.ops):
            for block in filter(self.stays, op.blocks):
                users.setdefault(block, []).append(number)
        self.updates = {number for number, op in enumerate(self.ops)
                        if sum(block in users for block in op.blocks) > 2}
        self.layer, self.layers = {}, 0
        state = {block for block, used in users.items() if set(used) <= self.updates}
        updated = {block for number in self.updates for block in self.ops[number].blocks}
        for block in users:  # in the order of first use
            if block in updated and block not in state:
                self.layer[block] = self.layers
                self.layers += 1
        self.everywhere = {block for block in users if block not in updated}
        for number in self.updates:
            self.join(self.ops[number], [block for block in self.ops[number].blocks
                                         if block in state])
        self.state_bytes = [0] * self.layers
        for block, layer in self.layer.items():
            self.state_bytes[layer] += self.trace.bytes[block]

    def join(self, op, fresh):
        """Optimizer state goes with the parameter of its size that the same operation updates."""
        owners = [block for block in op.blocks if block in self.layer]
        left = list(owners)
        for block in fresh:
            size = self.trace.bytes[block]
            found = [owner for owner in left if self.trace.bytes[owner] == size]
            if not found:
                left = list(owners)
                found = [owner for owner in left if self.trace.bytes[owner] == size] or owners
            self.layer[block] = self.layer[found[0]]
            if found[0] in left:
                left.remove(found[0])

    def card_of_layer(self, cuts, layer):
        return sum(layer >= cut for cut in cuts)

    def place_ops(self):
        """`op_layer`: to which layer each operation belongs. Data belongs to the layer of the
        operation that touched it last. Up to the first use of the last parameter an operation
        belongs to the highest layer of what it touches, from then on (backward) to the lowest."""
        layer_of, self.op_layer, last, highest = dict(self.layer), [], 0, 0
        for number, op in enumerate(self.ops):
            known = [layer_of[block] for block in op.blocks if block in layer_of]
            if known and number not in self.updates:
                last = min(known) if highest == self.layers - 1 else max(known)
            highest = max(highest, last)
            for block in op.blocks:
                if block not in self.everywhere and block not in self.layer:
                    layer_of[block] = last
            self.op_layer.append(last)

    def shares(self, cuts, number):
        """On which cards an op runs, and which part of it."""
        if number not in self.updates:
            return {self.card_of_layer(cuts, self.op_layer[number]): 1}
        held = {}
        for block in self.ops[number].blocks:
            if block in self.layer:
                card = self.card_of_layer(cuts, self.layer[block])
                held[card] = held.get(card, 0) + self.trace.bytes[block]
        return {card: size / sum(held.values()) for card, size in held.items()}

    def run(self, cuts):
        """One step. Returns its ns, the most bytes on each card, and the bytes copied. What was
        copied to a card stays there as long as the block lives."""
        size = self.trace.bytes
        free, copied = [0.0] * self.cards, 0
        holders = {block: [self.card_of_layer(cuts, layer)] for block, layer in self.layer.items()}
        used = [sum(size[block] for block in self.everywhere)] * self.cards
        for block, cards in holders.items():
            used[cards[0]] += size[block]
        most, ready = list(used), {}  # ready: by block and card
        for number, op in enumerate(self.ops):
            for block in self.dies.get(number, ()):
                for card in holders.pop(block, ()):
                    used[card] -= size[block]
            shares = self.shares(cuts, number)
            main = max(shares, key=shares.get)
            start = {card: free[card] for card in shares}
            for block in op.blocks:
                if block in self.everywhere:
                    continue
                cards = holders.setdefault(block, [])
                if number in self.updates and cards:
                    continue  # each card updates what it has
                if main not in cards:
                    used[main] += size[block]
                    if cards:
                        ready[block, main] = (ready.get((block, cards[0]), 0) +
                                              size[block] / self.rates[cards[0]][main])
                        copied += size[block]
                    cards.append(main)
                start[main] = max(start[main], ready.get((block, main), 0))
            for card, share in shares.items():
                free[card] = start[card] + op.ns * share
            for block in op.blocks:
                ready[block, main] = free[main]
            most = [max(pair) for pair in zip(most, used)]
        return max(free), most, copied

    def fullness(self, cuts):
        return sorted(self.run(cuts)[1], reverse=True)

    def best_cuts(self):
        """Moves runs of neighbouring cuts while the fullest card gets less full; or, where it stays
        as it is, the next fullest."""
        cuts, total, done = [], sum(self.state_bytes), 0
        for layer, size in enumerate(self.state_bytes):
            if done >= total * (len(cuts) + 1) / self.cards and len(cuts) < self.cards - 1:
                cuts.append(layer)
            done += size
        best, full = None, self.fullness(cuts)
        while best != full:
            best = full
            for first in range(len(cuts)):
                for after in range(first + 1, len(cuts) + 1):
                    for step in (-1, 1):
                        moved = [cut + step for cut in cuts[first:after]]
                        tried = cuts[:first] + moved + cuts[after:]
                        if tried[0] < 0 or tried[-1] > self.layers or sorted(tried) != tried:
                            continue
                        found = self.fullness(tried)
                        if found < full:
                            cuts, full = tried, found
        return cuts


def ask(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"layers: {done.stderr.strip()}")
    return json.loads(done.stdout)


def rates_between(vrampool, machine):
    """Bytes a ns from card to card; and each card's bytes."""
    topo = ask(vrampool, "topo", "--emulate", machine, "--json")
    cards = [card["memory_bytes"] for card in topo["cards"]]
    rates = [[float("inf")] * len(cards) for _ in cards]
    for pair in topo["pairs"]:
        if pair["from"].startswith("card") and pair["to"].startswith("card"):
            rates[int(pair["from"][4:])][int(pair["to"][4:])] = pair["gbps"]
    return rates, cards


def compare(args, folder):
    trace = Trace(args.trace)
    peak = ask(args.vrampool, "sim", args.trace, "--json")["peak_bytes"]
    size = int(args.bytes[:-1]) * UNITS[args.bytes[-1]] / peak
    path = args.keep or os.path.join(folder, "scaled.trace")
    trace.scaled(path, size, size * args.slower)
    pooled = ask(args.vrampool, "sim", path, "--machine", args.machine, "--json")
    rates, cards = rates_between(args.vrampool, args.machine)
    split = Split(Trace(path), pooled["in_hbm_s"] * 1e9, len(cards), rates)
    cuts = args.cuts or split.best_cuts()
    step_ns, most, copied = split.run(cuts)
    with open(SPLIT_SOURCE, encoding="utf-8") as file:
        lines = sum("  # split" in line for line in file)
    return {
        "simulated": True, "machine": args.machine, "scale": size, "slower": args.slower,
        "peak_bytes": pooled["peak_bytes"], "one_card_s": pooled["in_hbm_s"],
        "pooled": {"step_s": pooled["step_s"], "lines": 0, "in_bytes": pooled["in_bytes"],
                   "out_bytes": pooled["out_bytes"], "refuge": pooled["refuge"],
                   "stalls_s": pooled["stalls_s"]},
        "split": {"step_s": step_ns * 1e-9, "lines": lines, "copied_bytes": copied,
                  "cuts": cuts, "parameters": split.layers, "card_bytes": most,
                  "fits": all(used <= there for used, there in zip(most, cards))},
    }


def show(found):
    pooled, split = found["pooled"], found["split"]
    print(f"Simulated. {found['machine']}, a job of {found['peak_bytes'] / 2**30:.1f} GiB "
          f"(recorded one × {found['scale']:.2f}); on one card that held it, if there were one, "
          f"{found['one_card_s']:.3f} s a step\n")
    print("| way | s/step | steps an hour | copied, GB a step | lines |")
    print("|---|---|---|---|---|")
    print(f"| pooled, one card computes | {pooled['step_s']:.3f} | {3600 / pooled['step_s']:.0f} | "
          f"{(pooled['in_bytes'] + pooled['out_bytes']) * 1e-9:.0f} | {pooled['lines']} |")
    print(f"| split by layers by hand | {split['step_s']:.3f} | {3600 / split['step_s']:.0f} | "
          f"{split['copied_bytes'] * 1e-9:.1f} | {split['lines']} |")
    full = ", ".join(f"{size / 2**30:.1f}" for size in split["card_bytes"])
    print(f"\nSplit, the cards hold at most {full} GiB"
          f"{'' if split['fits'] else ': MORE THAN THERE IS'}.")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vrampool")
    parser.add_argument("trace")
    parser.add_argument("--machine", default="double-cube-8x24")
    parser.add_argument("--bytes", default="150G")
    parser.add_argument("--slower", type=float, default=4.97)
    parser.add_argument("--cuts", type=lambda text: [int(word) for word in text.split(",")])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--keep", help="where to write the scaled trace")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = compare(args, folder)
    if args.json:
        print(json.dumps(found, indent=2))
    else:
        show(found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
