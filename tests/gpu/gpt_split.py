#!/usr/bin/env python3
"""The job of gpt.py, split by layers over several cards by hand, as people do where one card is too
small: what vrampool makes unnecessary. The lines marked `split` are those that it costs.

Usage: gpt_split.py --cards N [--d …] [--L …] [--B …] [--S …] [--steps …] [--json FILE]"""
import argparse
import json
import sys
import time

import torch
from gpt_model import GPT, VOCABULARY
from measure import median
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint


class Split(GPT):
    """Layers in order over the cards; embeddings on the first card, the head on the last."""

    def __init__(self, *arguments, cards, **options):
        with torch.device("meta"):  # split: the host may be too small for all of it
            super().__init__(*arguments, **options)
        share = (len(self.layers) + len(cards) - 1) // len(cards)  # split
        self.places = [cards[i // share] for i in range(len(self.layers))]  # split
        for layer, place in zip(self.layers, self.places):  # split
            layer.to_empty(device=place)  # split
        for part, place in ((self.token, 0), (self.position, 0), (self.norm, -1), (self.head, -1)):
            part.to_empty(device=cards[place])  # split
        for part in self.modules():  # split
            if hasattr(part, "reset_parameters"):  # split
                part.reset_parameters()  # split

    def forward(self, tokens, targets):
        x = self.token(tokens) + self.position(torch.arange(tokens.shape[1], device=tokens.device))
        for layer, place in zip(self.layers, self.places):  # split
            x = x.to(place)  # split
            x = checkpoint(layer, x, use_reentrant=False) if self.recompute else layer(x)
        x = x.to(self.head.weight.device)  # split
        targets = targets.to(x.device)  # split
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), targets.view(-1))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, value in (("cards", 2), ("d", 2048), ("L", 24), ("B", 8), ("S", 1024), ("steps", 4),
                        ("ckpt", 0), ("vocabulary", VOCABULARY)):
        parser.add_argument("--" + name, type=int, default=value)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--json")
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = True
    cuda = args.device == "cuda"
    cards = [torch.device("cuda", i) if cuda else torch.device("cpu") for i in range(args.cards)]
    model = Split(args.d, args.L, args.S, recompute=bool(args.ckpt), vocabulary=args.vocabulary,
                  cards=cards)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    tokens = torch.randint(0, args.vocabulary, (args.B, args.S), device=cards[0])

    def wait():
        for card in cards:
            if cuda:
                torch.cuda.synchronize(card)

    seconds = []
    for _ in range(args.steps):
        wait()
        start = time.perf_counter()
        with torch.autocast(args.device, torch.bfloat16):
            loss = model(tokens, tokens)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        wait()
        seconds.append(time.perf_counter() - start)
    with open(__file__, encoding="utf-8") as file:
        changed = sum("  # split" in line for line in file)
    text = json.dumps({"step_s": seconds, "median_s": median(seconds[args.steps // 2:]),
                       "loss": loss.item(), "lines_changed": changed,
                       "parameters": sum(p.numel() for p in model.parameters())})
    print(text)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            file.write(text + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
